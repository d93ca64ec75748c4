//! Whose each field is: what tells a reader how far the written files can be trusted.

use std::fmt;

/// Columns of the printed report.
const COLUMNS: usize = 100;

/// One file's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// Name of the file, as `zoneinfo`.
    pub file: String,
    /// Fields that the allocator models, each once, in the order of the file.
    pub modelled: Vec<String>,
    /// Fields copied from the snapshot.
    pub copied: Vec<String>,
    /// What else a reader must know.
    pub remarks: Vec<String>,
}

impl FileReport {
    pub(super) fn new(file: &str) -> FileReport {
        FileReport { file: file.to_string(), ..FileReport::default() }
    }

    pub(super) fn model(&mut self, field: &str) {
        add(&mut self.modelled, field);
    }

    pub(super) fn copy(&mut self, field: &str) {
        add(&mut self.copied, field);
    }

    pub(super) fn remark(&mut self, text: String) {
        add(&mut self.remarks, &text);
    }

    /// Notes that the snapshot lacks this file.
    pub(super) fn without_template(&mut self) {
        self.remark("not in the snapshot: only what is modelled, counted from 0".to_string());
    }
}

fn add(list: &mut Vec<String>, text: &str) {
    if !list.iter().any(|known| known == text) {
        list.push(text.to_string());
    }
}

/// Every file's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order of writing.
    pub files: Vec<FileReport>,
}

impl Report {
    /// The report of one file.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&FileReport> {
        self.files.iter().find(|file| file.file == name)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            writeln!(f, "{}", file.file)?;
            wrapped(f, "modelled", &file.modelled)?;
            wrapped(f, "copied from the snapshot", &file.copied)?;
            for remark in &file.remarks {
                writeln!(f, "  note: {remark}")?;
            }
        }
        Ok(())
    }
}

fn wrapped(f: &mut fmt::Formatter<'_>, title: &str, names: &[String]) -> fmt::Result {
    if names.is_empty() {
        return Ok(());
    }
    let mut line = format!("  {title}:");
    for name in names {
        if line.chars().count() + 1 + name.chars().count() > COLUMNS {
            writeln!(f, "{line}")?;
            line = "   ".to_string();
        }
        line.push(' ');
        line.push_str(name);
    }
    writeln!(f, "{line}")
}
