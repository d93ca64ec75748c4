//! The report over made-up figures.

use super::*;
use crate::html::testing;

fn page(made: &[(Experiment, Evaluation)], missing: &[(&str, &str)]) -> String {
    let experiments: Vec<Experiment> = made.iter().map(|(e, _)| e.clone()).collect();
    let evaluations: Vec<Evaluation> = made.iter().map(|(_, v)| v.clone()).collect();
    write(&Report { experiments: &experiments, evaluations: &evaluations, missing, quick: true })
}

#[test]
fn every_table_is_there_and_the_page_is_whole() {
    let made = testing::made_up();
    let text = page(&made, &[("a_table", "a workload")]);
    testing::check(&text);
    for (experiment, _) in &made {
        let id = anchor(&experiment.table.id);
        assert!(text.contains(&format!("<section id=\"{id}\">")), "{id}");
        assert!(text.contains(&format!("href=\"#{id}\"")), "{id}");
    }
    assert!(text.contains("a_<wbr>table") && text.contains("needs a workload"));
    assert_eq!(page(&made, &[("a_table", "a workload")]), text);
}

#[test]
fn every_judged_figure_has_its_mark_and_every_miss_its_line() {
    let made = testing::made_up();
    let text = page(&made, &[]);
    let all = || made.iter().flat_map(|(_, evaluation)| &evaluation.compared);
    let misses = all().filter(|c| c.within == Some(false)).count();
    let within = all().filter(|c| c.within == Some(true)).count();
    assert!(misses > 5 && within > 5, "{misses} {within}");
    assert_eq!(text.matches("<li><span class=\"miss\">").count(), misses);
    // Each figure stands in a chart and in a table.
    assert_eq!(text.matches("<circle class=\"ok\" ").count() - charts_with_keys(&made), within);
    assert_eq!(text.matches("\u{2713}</td>").count(), within);
    let open = all().filter(|c| c.modelled.is_none()).count();
    assert_eq!(text.matches("<td>\u{2013}</td>").count(), open);
    assert!(text.contains(&format!("{within} of {} judged figures", within + misses)));
}

/// Legends of charts of points: each has one sign for `within`.
fn charts_with_keys(made: &[(Experiment, Evaluation)]) -> usize {
    made.iter().filter(|(_, v)| v.compared.iter().any(|c| c.modelled.is_some())).count()
}

#[test]
fn names_are_no_markup() {
    let mut made = testing::made_up();
    made.truncate(1);
    let nasty = "<script>alert(1)</script>&\"'";
    made[0].0.table.title = nasty.to_string();
    made[0].0.note = Some(nasty.to_string());
    for compared in &mut made[0].1.compared {
        compared.row = format!("{nasty}{}", compared.row);
        compared.column.push_str(nasty);
    }
    made[0].1.stops.push(nasty.to_string());
    testing::check(&page(&made, &[(nasty, nasty)]));
}

#[test]
fn nothing_at_all_is_a_page_too() {
    testing::check(&page(&[], &[]));
}
