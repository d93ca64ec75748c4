//! The comparison for programs: everything the text says and what it leaves out.

use std::collections::BTreeMap;

use pageyard::Policy;
use pageyard::keys::{KEYS, Value};
use serde::Serialize;

use super::fail_if::Judgement;
use super::machines::judge::Matrix;
use super::measure::Measure;
use super::metrics::Change;
use super::result::Comparison;
use crate::named::NamedPolicy;
use crate::twin::score::{Row, Sequence};

/// Number of the format; it rises when a field changes its meaning or goes.
const FORMAT: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    pageyard: &'static str,
    base: PolicyDocument<'a>,
    head: PolicyDocument<'a>,
    recordings: Vec<CaseDocument<'a>>,
    not_compared: Vec<Failure>,
    total: &'a [Change],
    /// Modelled machines; none where none were asked for.
    machines: Option<&'a Matrix>,
    fail_if: &'a [Judgement],
}

#[derive(Serialize)]
struct PolicyDocument<'a> {
    name: &'a str,
    remark: Option<&'a str>,
    keys: BTreeMap<&'static str, Scalar>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Scalar {
    Number(u32),
    Name(&'static str),
}

#[derive(Serialize)]
struct CaseDocument<'a> {
    name: &'a str,
    kernel: &'a str,
    kernel_policy: &'a str,
    kernel_policy_remark: Option<&'a str>,
    command: Option<&'a str>,
    events: u64,
    cpus: usize,
    nodes: usize,
    /// How positional figures are to be read: `recorded` or `by counts`.
    free_block_positions: &'static str,
    remarks: &'a [String],
    twin: &'a [Row],
    twin_sequences: &'a [Sequence],
    twin_worst_error_pct: Option<f64>,
    twin_matches: Option<bool>,
    twin_inferred: &'a [String],
    twin_better_preset: Option<&'a str>,
    changes: &'a [Change],
    base: &'a Measure,
    head: &'a Measure,
}

#[derive(Serialize)]
struct Failure {
    path: String,
    error: String,
}

fn policy_document(named: &NamedPolicy) -> PolicyDocument<'_> {
    PolicyDocument { name: &named.name, remark: named.remark.as_deref(), keys: keys(&named.policy) }
}

fn keys(policy: &Policy) -> BTreeMap<&'static str, Scalar> {
    let value = |value| match value {
        Value::Number(number) => Scalar::Number(number),
        Value::Name(name) => Scalar::Name(name),
    };
    KEYS.iter().map(|key| (key.name, value((key.get)(policy)))).collect()
}

/// The comparison as JSON, with a newline at the end.
///
/// # Errors
/// None in practice: every value has a form in JSON.
pub fn write(
    comparison: &Comparison,
    machines: Option<&Matrix>,
    fail_if: &[Judgement],
) -> serde_json::Result<String> {
    let cases = comparison.cases.iter();
    let document = Document {
        format: FORMAT,
        pageyard: env!("CARGO_PKG_VERSION"),
        base: policy_document(&comparison.question.base),
        head: policy_document(&comparison.question.head),
        recordings: cases
            .map(|(case, changes)| {
                let report = &case.agreement.report;
                CaseDocument {
                    name: &case.name,
                    kernel: &case.kernel,
                    kernel_policy: &case.kernel_policy.name,
                    kernel_policy_remark: case.kernel_policy.remark.as_deref(),
                    command: case.command.as_deref(),
                    events: case.events,
                    cpus: case.cpus,
                    nodes: case.nodes,
                    free_block_positions: if case.positions { "recorded" } else { "by counts" },
                    remarks: &case.remarks,
                    twin: &report.twin,
                    twin_sequences: &report.sequences,
                    twin_worst_error_pct: report.twin_worst_error_pct,
                    twin_inferred: &report.inferred,
                    twin_better_preset: report.better_preset.as_deref(),
                    twin_matches: case.agreement.matches(),
                    changes,
                    base: &case.base,
                    head: &case.head,
                }
            })
            .collect(),
        not_compared: comparison
            .failures
            .iter()
            .map(|(path, error)| Failure {
                path: path.display().to_string(),
                error: error.to_string(),
            })
            .collect(),
        total: &comparison.total,
        machines,
        fail_if,
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}
