//! Published tables, as they were printed: `experiments/published/*.json`.

use serde::Deserialize;
use serde_json::Value;

use super::workload::nearest_hint;

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
    #[error("the published table has no row `{name}`{hint}; rows: {known}")]
    Row {
        /// As asked for.
        name: String,
        /// What may have been meant, as a phrase.
        hint: String,
        /// All rows.
        known: String,
    },
    /// No such column.
    #[error("the published table has no column `{name}`{hint}; columns: {known}")]
    Column {
        /// As asked for.
        name: String,
        /// What may have been meant, as a phrase.
        hint: String,
        /// All columns.
        known: String,
    },
    /// The cell is empty or a text.
    #[error("row `{0}`, column `{1}` of the published table holds no number")]
    Number(String, String),
}

/// What makes a table useless though it has the right form, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Unusable {
    /// The field, such as `rows[3]`.
    pub field: String,
    /// What is wrong.
    pub message: String,
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

    /// Checks that a row and a column name one figure.
    ///
    /// # Errors
    /// Names come twice, or a row is longer than the headings or has no name.
    pub fn check(&self) -> Result<(), Unusable> {
        let unusable = |field: String, message: String| Err(Unusable { field, message });
        for (at, heading) in self.columns.iter().enumerate() {
            if self.columns[..at].contains(heading) {
                return unusable(format!("columns[{at}]"), format!("`{heading}` comes twice"));
            }
        }
        for (at, row) in self.rows.iter().enumerate() {
            let name = row_name(row);
            if row.is_empty() || row.len() > self.columns.len() {
                let (has, may) = (row.len(), self.columns.len());
                let message = format!("has {has} entries; `columns` has {may} headings");
                return unusable(format!("rows[{at}]"), message);
            }
            if self.rows[..at].iter().any(|other| row_name(other) == name) {
                return unusable(format!("rows[{at}]"), format!("row `{name}` comes twice"));
            }
        }
        Ok(())
    }

    /// A figure by the name of its row and the heading of its column.
    ///
    /// # Errors
    /// There is no such row or column, or no number in it.
    pub fn figure(&self, row: &str, column: &str) -> Result<f64, Lookup> {
        let at = self.columns.iter().position(|heading| heading == column);
        let at = at.ok_or_else(|| Lookup::Column {
            name: column.into(),
            hint: nearest_hint(column, self.columns.iter().map(String::as_str)),
            known: self.columns.join(", "),
        })?;
        let found = self.rows.iter().find(|cells| row_name(cells) == row);
        let cells = found.ok_or_else(|| {
            let names: Vec<String> = self.rows.iter().map(|cells| row_name(cells)).collect();
            let hint = nearest_hint(row, names.iter().map(String::as_str));
            Lookup::Row { name: row.into(), hint, known: names.join(", ") }
        })?;
        let number = cells.get(at).and_then(Value::as_f64);
        number.ok_or_else(|| Lookup::Number(row.into(), column.into()))
    }
}
