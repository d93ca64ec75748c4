//! `pageyard reproduce`: published tables, and what the same allocator does on modelled machines.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use pageyard_lab::experiment::evaluate::{self, Evaluation};
use pageyard_lab::experiment::load::Experiment;
use pageyard_lab::experiment::workload::nearest_hint;
use pageyard_lab::experiment::{catalogue, own, text};
use pageyard_lab::html::reproduce::{self as html, Report};
use pageyard_lab::named::is_path;
use serde_json::{Value, json};

use super::cells::CellArgs;
use super::policies::layout::emit;
use super::whole;

/// Options of `pageyard reproduce`.
#[derive(clap::Args)]
#[command(after_help = "\
Each table is printed with the published figure, the modelled one and the error: `=` marks what was
fitted, `!` a miss. docs/REPRODUCE.md tells what is fitted and what an error is.

Examples:
  pageyard reproduce --quick
  pageyard reproduce --html report.html
  pageyard reproduce batch_sweep_lkp-skl-4sp1 --json
  pageyard reproduce mine.toml --published mine.json")]
pub struct Args {
    /// Published tables, or experiments of your own by path [default: all tables]
    #[arg(value_name = "TABLE|FILE.toml")]
    tables: Vec<String>,

    /// The published table of your experiment, instead of the one that it names
    #[arg(long, value_name = "FILE.json")]
    published: Option<PathBuf>,

    /// Fewer rows and seeds, shorter runs
    #[arg(long)]
    quick: bool,

    /// Exit with 1 if a judged figure is outside its tolerance or a baseline is not met
    #[arg(long)]
    check: bool,

    /// Print JSON: a list of table, row, column, published, modelled, fitted, error, within
    #[arg(long)]
    json: bool,

    /// Write a report to look at: one file, nothing loaded, for screen, phone and print
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    cells: CellArgs,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let wanted: Vec<&str> = match args.tables.is_empty() {
        true => catalogue::names().collect(),
        false => args.tables.iter().map(String::as_str).collect(),
    };
    let experiments = experiments(&wanted, args.published.as_deref())?;
    let missing: Vec<(&str, &str)> =
        catalogue::NOT_MODELLED.iter().copied().filter(|(name, _)| wanted.contains(name)).collect();
    let (evaluations, interrupted) =
        args.cells.pool(|pool| evaluate::all(pool, &experiments, args.quick))?;
    if let Some(path) = &args.html {
        let (experiments, evaluations, missing) = (&experiments, &evaluations, &missing);
        let report = Report { experiments, evaluations, missing, quick: args.quick };
        match interrupted {
            // What stands there from an earlier run is worth more than half a report.
            true => eprintln!("pageyard: {} is not written: it would lack cells", path.display()),
            false => whole::write(path, &html::write(&report))?,
        }
    }
    let page = match args.json {
        true => json(&evaluations, &missing)?,
        false => page(&experiments, &evaluations, &missing, interrupted),
    };
    emit(&page)?;
    let failed = evaluations.iter().any(|evaluation| !evaluation.stops.is_empty());
    if failed && !interrupted {
        bail!("some cells have no result; the verdicts say why");
    }
    let negative = interrupted || (args.check && !evaluations.iter().all(Evaluation::is_good));
    Ok(if negative { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The experiments of these names and paths; those of tables that nothing models are left out.
fn experiments(wanted: &[&str], published: Option<&Path>) -> anyhow::Result<Vec<Experiment>> {
    let files = wanted.iter().filter(|name| is_path(name)).count();
    if published.is_some() && (wanted.len() != 1 || files != 1) {
        bail!(
            "--published is the table of one experiment of yours: name its file and nothing else, \
             such as `pageyard reproduce mine.toml --published mine.json`"
        );
    }
    let mut experiments = Vec::new();
    for name in wanted {
        if is_path(name) {
            experiments.push(own::read(Path::new(name), published)?);
        } else if let Some(bundled) = catalogue::load(name) {
            experiments.push(bundled?);
        } else if !catalogue::names().any(|known| known == *name) {
            bail!(
                "unknown table '{name}'{}; there are: {}; a file of yours needs a path that ends \
                 in .toml",
                nearest_hint(name, catalogue::names()),
                catalogue::names().collect::<Vec<_>>().join(", ")
            );
        }
    }
    Ok(experiments)
}

fn json(evaluations: &[Evaluation], missing: &[(&str, &str)]) -> anyhow::Result<String> {
    let mut list: Vec<Value> = Vec::new();
    for compared in evaluations.iter().flat_map(|evaluation| &evaluation.compared) {
        list.push(serde_json::to_value(compared)?);
    }
    // A table that is not modelled yet is an entry too: nothing is left out in silence.
    list.extend(missing.iter().map(|(table, _)| {
        json!({
            "table": table, "row": null, "column": null, "published": null, "modelled": null,
            "fitted": false, "error": null, "within": null,
        })
    }));
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

fn page(
    experiments: &[Experiment],
    evaluations: &[Evaluation],
    missing: &[(&str, &str)],
    interrupted: bool,
) -> String {
    let both = experiments.iter().zip(evaluations);
    // A run that was ended has tables without any figure: their names are enough.
    let (bare, shown): (Vec<_>, Vec<_>) = both.partition(|(_, evaluation)| {
        interrupted && evaluation.compared.iter().all(|compared| compared.modelled.is_none())
    });
    let tables: Vec<String> = shown.iter().map(|(e, v)| text::table(e, v)).collect();
    let mut page = tables.join("\n");
    if !page.is_empty() {
        page.push_str(
            "\n`=` fitted, `!` outside tolerance; errors are in per cent of the published figure,\n\
             or in points where that is in per cent; rows without a figure (-) were not run\n",
        );
    }
    if !bare.is_empty() {
        page.push_str("\nnot finished\n");
        for (experiment, _) in bare {
            page.push_str(&format!("  {}\n", experiment.table.id));
        }
    }
    if !missing.is_empty() {
        page.push_str("\nnot yet modelled\n");
        for (name, why) in missing {
            page.push_str(&format!("  {name}\n    needs: {why}\n"));
        }
    }
    page.trim_start_matches('\n').to_string()
}
