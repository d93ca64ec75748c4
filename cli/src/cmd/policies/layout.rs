//! Text that fits a terminal: wrapped paragraphs, columns, output that may be cut off.

use std::io::{ErrorKind, Write};

/// Widest line.
pub const COLUMNS: usize = 100;

/// Breaks a paragraph at blanks, and words that are longer than a line (a policy named by its
/// changes) behind commas. Empty text has no lines.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let pieces: Vec<&str> = match columns(word) > width {
            true => word.split_inclusive(',').collect(),
            false => vec![word],
        };
        for (at, piece) in pieces.into_iter().enumerate() {
            let blank = if at == 0 { " " } else { "" };
            match lines.last_mut() {
                Some(line) if columns(line) + blank.len() + columns(piece) <= width => {
                    line.push_str(blank);
                    line.push_str(piece);
                }
                _ => lines.push(piece.to_string()),
            }
        }
    }
    lines
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

/// A name, and behind it a paragraph with a hanging indent.
pub fn hanging(name: &str, indent: usize, text: &str) -> String {
    let lines = wrapped(text, COLUMNS - indent);
    if lines.is_empty() {
        return format!("{name}\n");
    }
    let mut out = String::new();
    let mut head = format!("{name:indent$}");
    if name.chars().count() >= indent {
        out.push_str(&format!("{name}\n"));
        head = " ".repeat(indent);
    }
    for line in lines {
        out.push_str(&format!("{head}{line}\n"));
        head = " ".repeat(indent);
    }
    out
}

/// Rows in columns as wide as their widest cell. Names that are too long for a line (a policy
/// can be named by a long list of changes) are given a number and told below the table.
pub fn table(rows: &[[String; 3]]) -> String {
    let mut rows = rows.to_vec();
    let mut notes = String::new();
    for (number, cell) in (1..).zip(rows[0].iter_mut().skip(1)) {
        if cell.chars().count() > 34 {
            notes.push_str(&hanging(&format!("[{number}]"), 4, cell));
            *cell = format!("[{number}]");
        }
    }
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0) + 2
    };
    let widths = [width(0), width(1)];
    let mut text = String::new();
    for [key, a, b] in &rows {
        text.push_str(&format!("{key:0$}{a:1$}{b}\n", widths[0], widths[1]));
    }
    if !notes.is_empty() {
        text.push('\n');
        text.push_str(&notes);
    }
    text
}

/// Prints; a reader that has seen enough (`| head`) is no error.
pub fn emit(text: &str) -> std::io::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_break_at_blanks() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible", 4), ["incomprehensible"]);
        assert_eq!(wrapped("a x:one=1,two=2,three=3", 12), ["a x:one=1,", "two=2,", "three=3"]);
        assert!(wrapped("", 10).is_empty());
    }

    #[test]
    fn a_long_name_stands_on_its_own_line() {
        assert_eq!(hanging("a", 3, "text"), "a  text\n");
        assert_eq!(hanging("name", 3, "text"), "name\n   text\n");
        assert_eq!(hanging("name", 3, ""), "name\n");
    }

    #[test]
    fn long_names_of_columns_move_below_the_table() {
        let row = |a: &str, b: &str, c: &str| [a, b, c].map(str::to_string);
        let long = "x".repeat(60);
        let text = table(&[row("key", "short", &long), row("scale_max", "5", "1")]);
        assert_eq!(text, format!("key        short  [2]\nscale_max  5      1\n\n[2] {long}\n"));
    }
}
