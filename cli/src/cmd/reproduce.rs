//! `pageyard reproduce`: published tables, and what the same allocator does on modelled machines.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pageyard_lab::experiment::cell::nearest;
use pageyard_lab::experiment::evaluate::{self, Evaluation};
use pageyard_lab::experiment::load::Experiment;
use pageyard_lab::experiment::pool::{Ended, Options, Pool, Progress};
use pageyard_lab::experiment::store::Store;
use pageyard_lab::experiment::{catalogue, text};
use pageyard_lab::html::reproduce::{self as html, Report};
use pageyard_trace::interrupt::Interrupt;
use serde_json::{Value, json};

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
  pageyard reproduce batch_sweep_lkp-skl-4sp1 --json")]
pub struct Args {
    /// Published tables [default: all]
    #[arg(value_name = "TABLE")]
    tables: Vec<String>,

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

/// How cells are run.
#[derive(clap::Args)]
pub struct CellArgs {
    /// Folder of stored results [default: the user's cache folder]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,

    /// Run every cell, also those with a stored result
    #[arg(long)]
    fresh: bool,

    /// Cells that run at the same time [default: one a CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
}

impl CellArgs {
    /// Runs `question` with a pool as the user wants it, a bar on a terminal, and ^C caught.
    pub fn pool<T>(self, question: impl FnOnce(&Pool<'_>) -> T) -> anyhow::Result<(T, bool)> {
        let interrupt = Interrupt::catch()?;
        let bar = Mutex::new(bar());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let folder = self.store.or_else(Store::default_folder);
        let options = Options {
            store: folder.as_deref().map(Store::at),
            fresh: self.fresh,
            workers: self.workers.map_or(cores, usize::from),
            stop: &|| interrupt.came(),
            progress: &|progress: Progress| {
                if let Ok(bar) = bar.lock() {
                    bar.set_length(progress.asked as u64);
                    bar.set_position(progress.done as u64);
                }
            },
        };
        let (answer, ended) = Pool::with(options, question);
        if let Ok(bar) = bar.lock() {
            bar.finish_and_clear();
        }
        tell(&ended, folder, interrupt.came());
        Ok((answer, interrupt.came()))
    }
}

/// What the user should know about how it ended.
fn tell(ended: &Ended, folder: Option<PathBuf>, interrupted: bool) {
    if let Some(error) = &ended.not_stored {
        let folder = folder.unwrap_or_default();
        eprintln!(
            "pageyard: cannot store results in {}: {error}; name another folder with --store",
            folder.display()
        );
    }
    if interrupted {
        let kept = if ended.not_stored.is_none() { ", kept for the next time" } else { "" };
        eprintln!(
            "pageyard: interrupted: {} of {} cells asked for are done{kept}",
            ended.progress.done, ended.progress.asked
        );
    }
}

/// A line on a terminal, none elsewhere.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("cells {bar:30} {pos} of {len}, {elapsed}");
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let wanted: Vec<&str> = match args.tables.is_empty() {
        true => catalogue::names().collect(),
        false => args.tables.iter().map(String::as_str).collect(),
    };
    if let Some(name) = wanted.iter().find(|name| !catalogue::names().any(|known| known == **name))
    {
        let hint = nearest(name, catalogue::names());
        bail!(
            "unknown table '{name}'{}; there are: {}",
            hint.map_or(String::new(), |hint| format!("; nearest: {hint}")),
            catalogue::names().collect::<Vec<_>>().join(", ")
        );
    }
    let experiments = wanted.iter().filter_map(|name| catalogue::load(name));
    let experiments: Vec<Experiment> = experiments.collect::<Result<_, _>>()?;
    let missing: Vec<(&str, &str)> =
        catalogue::NOT_MODELLED.iter().copied().filter(|(name, _)| wanted.contains(name)).collect();
    let (evaluations, interrupted) =
        args.cells.pool(|pool| evaluate::all(pool, &experiments, args.quick))?;
    if let Some(path) = &args.html {
        let (experiments, evaluations, missing) = (&experiments, &evaluations, &missing);
        let report = Report { experiments, evaluations, missing, quick: args.quick };
        whole::write(path, &html::write(&report))?;
    }
    let page = match args.json {
        true => json(&evaluations, &missing)?,
        false => page(&experiments, &evaluations, &missing),
    };
    emit(&page)?;
    let failed = evaluations.iter().any(|evaluation| !evaluation.stops.is_empty());
    if failed && !interrupted {
        bail!("some cells have no result; the verdicts say why");
    }
    let negative = interrupted || (args.check && !evaluations.iter().all(Evaluation::is_good));
    Ok(if negative { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
) -> String {
    let tables = experiments.iter().zip(evaluations).map(|(e, v)| text::table(e, v));
    let mut page = tables.collect::<Vec<_>>().join("\n");
    if !page.is_empty() {
        page.push_str(
            "\n`=` fitted, `!` outside tolerance; errors are in per cent of the published figure,\n\
             or in points where that is in per cent; rows without a figure (-) were not run\n",
        );
    }
    if !missing.is_empty() {
        page.push_str("\nnot yet modelled\n");
        for (name, why) in missing {
            page.push_str(&format!("  {name}\n    needs: {why}\n"));
        }
    }
    page.trim_start_matches('\n').to_string()
}
