//! Published tables, as they were printed: `experiments/published/*.json`.

use serde::Deserialize;
use serde_json::Value;

/// A table out of a commit message, a mail or a paper.
#[derive(Clone, Debug, Deserialize)]
pub struct Table {
    /// Name; that of its file.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// Where it stands.
    pub source: String,
    /// Headings; the first is that of the rows' names.
    pub columns: Vec<String>,
    /// Rows: a name or number, then figures.
    pub rows: Vec<Vec<Value>>,
}

/// Why a figure cannot be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lookup {
    /// No such row.
    #[error("the published table has no row `{0}`; rows: {1}")]
    Row(String, String),
    /// No such column.
    #[error("the published table has no column `{0}`; columns: {1}")]
    Column(String, String),
    /// The cell is empty or a text.
    #[error("row `{0}`, column `{1}` of the published table holds no number")]
    Number(String, String),
}

/// Name of a row as text: numbers without a needless point.
fn row_name(row: &[Value]) -> String {
    match row.first() {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

impl Table {
    /// Reads a table.
    ///
    /// # Errors
    /// It is no JSON or lacks a field, in the parser's words.
    pub fn parse(text: &str) -> Result<Table, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// A figure by the name of its row and the heading of its column.
    ///
    /// # Errors
    /// There is no such row or column, or no number in it.
    pub fn figure(&self, row: &str, column: &str) -> Result<f64, Lookup> {
        let at = self.columns.iter().position(|heading| heading == column);
        let at = at.ok_or_else(|| Lookup::Column(column.into(), self.columns.join(", ")))?;
        let found = self.rows.iter().find(|cells| row_name(cells) == row);
        let cells = found.ok_or_else(|| {
            let names: Vec<String> = self.rows.iter().map(|cells| row_name(cells)).collect();
            Lookup::Row(row.into(), names.join(", "))
        })?;
        let number = cells.get(at).and_then(Value::as_f64);
        number.ok_or_else(|| Lookup::Number(row.into(), column.into()))
    }
}
