//! What was measured on this host, to be read.

use std::collections::BTreeSet;

use pageyard_lab::experiment::workload::Unit;
use pageyard_lab::live::{Round, is_netperf};
use serde::Serialize;

use super::super::figure_text;
use super::{Asked, Measured};

/// Less of a CPU than this, in thousandths, and something else runs there.
const BUSY_THOUSANDTHS: u64 = 970;

/// The middle of some rounds and both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range {
    /// Half of the rounds are not above, half not below.
    pub median: u64,
    /// The lowest.
    pub lowest: u64,
    /// The highest.
    pub highest: u64,
}

/// A figure of all rounds, of which there is one at least.
pub fn of(rounds: &[Round], figure: impl Fn(&Round) -> u64) -> Range {
    let mut all: Vec<u64> = rounds.iter().map(figure).collect();
    all.sort_unstable();
    let (first, last) = (all.first().copied(), all.last().copied());
    let middle = |at: usize| all.get(at).copied().unwrap_or(0);
    let median = (middle(all.len().saturating_sub(1) / 2) + middle(all.len() / 2)) / 2;
    Range { median, lowest: first.unwrap_or(0), highest: last.unwrap_or(0) }
}

/// The page.
pub fn page(asked: &Asked, measured: &[Measured], beside: Option<&str>) -> String {
    let mut text = head(asked, measured, beside);
    for one in measured {
        text.push('\n');
        text.push_str(&table(asked, one, beside));
    }
    let shares = measured.iter().flat_map(|one| &one.rounds).map(|round| round.on_cpu_thousandths);
    let share = shares.min().unwrap_or(0);
    if share < BUSY_THOUSANDTHS {
        let (whole, tenth) = (share / 10, share % 10);
        text.push_str(&format!(
            "\nthe host was busy: in one process threads had {whole}.{tenth} % of their CPUs. \
             Scores and times\nare worse than this host's own; run it again when it is idle.\n"
        ));
    }
    text
}

fn head(asked: &Asked, measured: &[Measured], beside: Option<&str>) -> String {
    let plan = &asked.plan;
    let mut text = format!(
        "measured on this host, not simulated: {}, {} of {} CPUs, one memory node\n",
        asked.workload_name(),
        plan.cpus,
        asked.has,
    );
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model: String = model.map_or("", |(_, name)| name.trim()).chars().take(60).collect();
    let pinned = measured.iter().flat_map(|one| &one.rounds).all(|round| !round.pinned.is_empty());
    let pinned =
        if pinned { "threads stay on their CPUs" } else { "threads are NOT on CPUs of their own" };
    let colon = if model.is_empty() { "" } else { "; " };
    text.push_str(&format!("{model}{colon}{pinned}\n"));
    let parameters: Vec<String> =
        plan.parameters.iter().map(|(name, value)| format!(", {name}={value}")).collect();
    let memory = plan.memory_mib.map_or(String::new(), |mib| format!(", as if of {mib} MiB"));
    let think = match plan.recorded_cpus {
        0 => format!("think time {} ns", plan.think_ps / 1000),
        _ => "think times as recorded".to_string(),
    };
    text.push_str(&format!("{think}{}{memory}\n", parameters.concat()));
    if let Some(name) = beside {
        text.push_str(&format!("the last column is simulated, on {name}\n"));
    }
    let turns = if measured.len() > 1 { ", policies in turn" } else { "" };
    text.push_str(&format!("{} processes{turns}{}\n", asked.rounds, times(asked)));
    text
}

/// Only some workloads end by the clock.
fn times(asked: &Asked) -> String {
    let (warm, measure) = asked.times_ms;
    match asked.plan.workload.name {
        "bulk" => ", each measures every round but the first".to_string(),
        "free_all" => ", each measures the whole area".to_string(),
        "trace" => ", each runs the whole recording".to_string(),
        _ => format!(", {measure} ms each after {warm} ms"),
    }
}

fn table(asked: &Asked, one: &Measured, beside: Option<&str>) -> String {
    let plan = &asked.plan;
    let rounds = &one.rounds;
    let mut text = match one.policy.len() {
        0..28 => format!("{:<28}", one.policy),
        _ => format!("{}\n{:<28}", one.policy, ""),
    };
    text.push_str(&format!("{:>14}{:>14}{:>14}", "median", "lowest", "highest"));
    text.push_str(if beside.is_some() { "     simulated\n" } else { "\n" });
    let mut row =
        |name: &str, range: Range, modelled: Option<u64>, show: &dyn Fn(u64) -> String| {
            let Range { median, lowest, highest } = range;
            let [median, lowest, highest] = [median, lowest, highest].map(show);
            text.push_str(&format!("{name:<28}{median:>14}{lowest:>14}{highest:>14}"));
            if let Some(modelled) = modelled {
                text.push_str(&format!("{:>14}", show(modelled)));
            }
            text.push('\n');
        };
    let modelled = one.beside.as_ref().map(|result| result.score_per_s);
    let ns = |ps: u64| format!("{}.{} ns", ps / 1000, ps % 1000 / 100);
    let score = |score: u64| score.to_string();
    if is_netperf(plan.workload.name) {
        row(
            "10^6 bits a second, a sender",
            of(rounds, |round| round.score_per_s),
            modelled,
            &score,
        );
        row("a message, of both CPUs", of(rounds, |round| round.cpu_ps), None, &ns);
    } else {
        let unit = format!("{}s a second", plan.workload.unit);
        row(&unit, of(rounds, |round| round.score_per_s), modelled, &score);
        let each = |score: u64| plan.cpus as u64 * 1_000_000_000_000 / score.max(1);
        row("each, a CPU", of(rounds, |round| each(round.score_per_s)), modelled.map(each), &ns);
        row("of it on the CPU", of(rounds, |round| round.cpu_ps), None, &ns);
    }
    let names: BTreeSet<&String> = rounds.iter().flat_map(|round| round.own.keys()).collect();
    for name in names {
        let own = |round: &Round| round.own.get(name).copied().unwrap_or(0);
        let figure = plan.workload.figures.iter().find(|figure| figure.name == name);
        let unit = figure.map_or(Unit::Ns, |figure| figure.unit);
        let modelled = one.beside.as_ref().and_then(|result| result.own.get(name)).copied();
        row(name, of(rounds, own), modelled, &|value| figure_text(unit, value));
    }
    let sites: BTreeSet<&String> = rounds.iter().flat_map(|round| round.waited.keys()).collect();
    if sites.is_empty() {
        text.push_str("nobody waited for a lock\n");
        return text;
    }
    text.push_str(&format!(
        "entries that found a lock held, in a million {}s\n",
        if is_netperf(plan.workload.name) { "message" } else { plan.workload.unit }
    ));
    for site in sites {
        let rate = |round: &Round| {
            let count = round.waited.get(site).copied().unwrap_or(0);
            (u128::from(count) * 1_000_000 / u128::from(round.units.max(1))) as u64
        };
        let Range { median, lowest, highest } = of(rounds, rate);
        text.push_str(&format!("  {site:<26}{median:>14}{lowest:>14}{highest:>14}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_two_is_between_them() {
        let rounds = |scores: &[u64]| -> Vec<Round> {
            let one = |&score_per_s| Round { score_per_s, ..Round::default() };
            scores.iter().map(one).collect()
        };
        let range = |scores: &[u64]| of(&rounds(scores), |round| round.score_per_s);
        assert_eq!(range(&[4, 8]), Range { median: 6, lowest: 4, highest: 8 });
        assert_eq!(range(&[9, 1, 5]), Range { median: 5, lowest: 1, highest: 9 });
    }
}
