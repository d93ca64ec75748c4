//! The text of an experiment's file: read, and the place of whatever is wrong with it.

use std::ops::Range;
use std::path::Path;

use super::sound;
use super::spec::Spec;

/// What is wrong with an experiment's file, and where.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}:{column}: {}{message}", prefix(field))]
pub struct LoadError {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Section and field, such as `variant.name`; empty where none is known.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

fn prefix(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("{field}: ") }
}

/// What is wrong, and the bytes that are.
pub type Placed = (String, Range<usize>);

/// An experiment's file that has the right form. Nothing in it was looked up yet.
pub struct Form<'a> {
    text: &'a str,
    file: &'a str,
    /// What it says. Paths in it begin where the command runs.
    pub spec: Spec,
}

impl<'a> Form<'a> {
    /// Reads the text of an experiment; `file` is what errors call it, and paths in it begin at
    /// `folder`.
    pub fn read(text: &'a str, file: &'a str, folder: &Path) -> Result<Form<'a>, LoadError> {
        let refused = |(message, span)| refused(text, file, message, span);
        let mut spec: Spec = toml::from_str(text).map_err(|error| {
            let message = error.message().lines().next().unwrap_or_default();
            refused((sound::with_nearest(message), error.span().unwrap_or(0..0)))
        })?;
        spec.begin_paths_at(folder);
        sound::check(&spec).map_err(refused)?;
        Ok(Form { text, file, spec })
    }

    /// The error for something at some place of the file.
    pub fn refused(&self, (message, span): Placed) -> LoadError {
        refused(self.text, self.file, message, span)
    }

    /// Something that is wrong with the published table.
    pub fn at_table(&self, message: impl ToString) -> Placed {
        (message.to_string(), self.spec.table.span())
    }
}

fn refused(text: &str, file: &str, message: String, span: Range<usize>) -> LoadError {
    let (line, column) = place(text, span.start);
    let field = field_at(text, line);
    LoadError { file: file.to_string(), line, column, field, message }
}

/// Line and column of a byte offset, both from 1.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}

/// Section and field that a line is about: the last heading above it and what stands before `=`.
fn field_at(text: &str, line: usize) -> String {
    let mut section = String::new();
    for (number, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.starts_with('[') && !content.contains('=') {
            section = content.trim_matches(['[', ']']).to_string();
        }
        if number == line {
            let Some((field, _)) = content.split_once('=') else {
                return section;
            };
            let dot = if section.is_empty() { "" } else { "." };
            return format!("{section}{dot}{}", field.trim());
        }
    }
    section
}
