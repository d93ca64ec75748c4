//! `pageyard policies`: which policies there are, what one consists of, where two differ.

mod catalogue;
pub mod layout;

use std::process::ExitCode;

use pageyard::Policy;
use pageyard::keys::KEYS;
use pageyard::preset::RELEASE_MAX;
use pageyard_lab::named::manual::{self, entry};
use pageyard_lab::named::{NamedPolicy, PolicyError};
use serde_json::{Value, json};

use catalogue::{changes, list, list_json};
use layout::{emit, table, wrapped};

/// Options of `pageyard policies`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,

    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

/// A policy is named as everywhere: a preset, a preset with changes, or a TOML file.
#[derive(clap::Subcommand)]
#[command(after_help = "\
A policy is NAME, NAME:key=value,key=value, or the path of a TOML file; docs/POLICIES.md tells \
what every key means.")]
enum What {
    /// Every policy by name, and what each release changed
    List,
    /// Every key of a policy: value, meaning, accepted values
    #[command(after_help = "\
Examples:
  pageyard policies show linux-6.18
  pageyard policies show linux-6.1.N:high_fraction=8
  pageyard policies show policies/short-hold.toml --json")]
    Show {
        /// Policy [default: that of the newest release]
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// The keys in which two policies differ
    #[command(after_help = "\
Examples:
  pageyard policies diff linux-6.6 linux-6.7
  pageyard policies diff linux-6.18 linux-6.18:batch_pages=15")]
    Diff {
        /// Policy
        #[arg(value_name = "A")]
        a: String,
        /// Policy
        #[arg(value_name = "B")]
        b: String,
    },
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let text = match (args.what, args.json) {
        (What::List, false) => list(),
        (What::List, true) => pretty(&list_json())?,
        (What::Show { name }, json) => {
            let named = NamedPolicy::parse(&name.unwrap_or_else(newest))?;
            if json { pretty(&show_json(&named))? } else { show(&named) }
        }
        (What::Diff { a, b }, json) => {
            let (a, b) = both(&a, &b)?;
            if json { pretty(&diff_json(&a, &b))? } else { diff(&a, &b) }
        }
    };
    emit(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn newest() -> String {
    format!("linux-{}.{}", RELEASE_MAX.major, RELEASE_MAX.minor)
}

fn both(a: &str, b: &str) -> Result<(NamedPolicy, NamedPolicy), PolicyError> {
    Ok((NamedPolicy::parse(a)?, NamedPolicy::parse(b)?))
}

fn pretty(value: &Value) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

fn values(policy: &Policy) -> Vec<String> {
    KEYS.iter().map(|key| (key.get)(policy).to_string()).collect()
}

/// Columns of key and value in `show`.
const KEY_WIDTH: usize = 20;
const VALUE_WIDTH: usize = 17;

fn show(named: &NamedPolicy) -> String {
    let mut text = wrapped(&named.name, layout::COLUMNS).join("\n") + "\n\n";
    for (key, value) in KEYS.iter().zip(values(&named.policy)) {
        let entry = entry(key);
        let meaning = match entry.value_meaning(&value) {
            Some(meaning) => format!("{value}: {meaning}"),
            None => String::new(),
        };
        let idle = match entry.condition() {
            Some(condition) if !entry.matters(&named.policy) => {
                format!("Without effect here. {condition}")
            }
            _ => String::new(),
        };
        let takes = format!("takes {}", entry.accepted());
        let mut lines = Vec::new();
        for paragraph in [key.about.to_string(), meaning, idle, takes] {
            let width = layout::COLUMNS - KEY_WIDTH - VALUE_WIDTH;
            lines.extend(wrapped(&paragraph, width));
        }
        let mut head = format!("{:KEY_WIDTH$}{value:VALUE_WIDTH$}", key.name);
        for line in lines {
            text.push_str(format!("{head}{line}").trim_end());
            text.push('\n');
            head = " ".repeat(KEY_WIDTH + VALUE_WIDTH);
        }
    }
    text
}

fn show_json(named: &NamedPolicy) -> Value {
    let keys = KEYS.iter().zip(values(&named.policy)).map(|(key, value)| {
        let entry = entry(key);
        json!({
            "key": key.name,
            "value": value,
            "about": key.about,
            "meaning": entry.value_meaning(&value).unwrap_or(entry.meaning),
            "accepts": entry.accepted(),
            "releases": manual::releases(key, &value),
            "source": entry.source,
            "has_effect": entry.matters(&named.policy),
        })
    });
    json!({ "policy": named.name, "keys": keys.collect::<Vec<_>>() })
}

fn diff(a: &NamedPolicy, b: &NamedPolicy) -> String {
    let differing = changes(&a.policy, &b.policy);
    if differing.is_empty() {
        let text = format!("{} and {} are the same policy", a.name, b.name);
        return wrapped(&text, layout::COLUMNS).join("\n") + "\n";
    }
    let mut rows = vec![["key".to_string(), a.name.clone(), b.name.clone()]];
    for change in differing {
        rows.push([change.key.to_string(), change.from, change.to]);
    }
    table(&rows)
}

fn diff_json(a: &NamedPolicy, b: &NamedPolicy) -> Value {
    let rows = changes(&a.policy, &b.policy);
    let rows =
        rows.iter().map(|change| json!({"key": change.key, "a": change.from, "b": change.to}));
    json!({ "a": a.name, "b": b.name, "differ": rows.collect::<Vec<_>>() })
}
