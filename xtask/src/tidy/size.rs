//! `numbers-enforced`: lengths of lines, functions and files, and the opening sentence of a file.

use proc_macro2::{Delimiter, TokenTree};

use super::Findings;
use super::source::{Source, first_line, group, is_mark, is_word, last_line};

/// A function, from the line of its `fn` to that of its last brace.
pub const FUNCTION_LINES_MAX: usize = 70;
/// Characters, not bytes.
pub const COLUMNS_MAX: usize = 100;
/// Lines of a file that are not tests.
pub const FILE_LINES_MAX: usize = 600;

pub fn check(source: &Source, findings: &mut Findings) {
    if let Some((line, error)) = &source.error {
        findings.add("lexes", &source.path, *line, format!("not Rust: {error}"));
    }
    header(source, findings);
    columns(source, findings);
    file_length(source, findings);
    function_lengths(source, findings);
}

fn header(source: &Source, findings: &mut Findings) {
    let first = source.lines.iter().find(|line| !line.trim().is_empty());
    if !first.is_some_and(|line| line.starts_with("//! ")) {
        let message = "the file does not begin with a `//!` sentence that says its idea";
        findings.add("file-header", &source.path, 1, message);
    }
}

fn columns(source: &Source, findings: &mut Findings) {
    for (index, line) in source.lines.iter().enumerate() {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            let message = format!("{columns} columns, more than {COLUMNS_MAX}");
            findings.add("line-length", &source.path, index + 1, message);
        }
    }
}

fn file_length(source: &Source, findings: &mut Findings) {
    let lines = (1..=source.lines.len()).filter(|line| !source.in_test(*line)).count();
    if lines > FILE_LINES_MAX {
        let message = format!("{lines} lines without tests, more than {FILE_LINES_MAX}");
        findings.add("file-length", &source.path, 1, message);
    }
}

fn function_lengths(source: &Source, findings: &mut Findings) {
    for (name, line, lines) in functions(source) {
        if lines > FUNCTION_LINES_MAX {
            let message = format!("fn {name} has {lines} lines, more than {FUNCTION_LINES_MAX}");
            findings.add("function-length", &source.path, line, message);
        }
    }
}

/// Name, first line and length of each function with a body.
fn functions(source: &Source) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    source.each_token(&mut |sequence, index| {
        // `fn` before a parenthesis is a type.
        let named = is_word(sequence, index, "fn")
            && (matches!(sequence.get(index + 1), Some(TokenTree::Ident(_)))
                || is_mark(sequence, index + 1, '$'));
        let Some(body) = named.then(|| body(sequence, index)).flatten() else {
            return;
        };
        let first = first_line(&sequence[index]);
        let name = sequence[index + 1].to_string();
        found.push((name, first, last_line(body) - first + 1));
    });
    found.sort_by_key(|(_, line, _)| *line);
    found
}

/// The braces that end the function that begins at `start`; a declaration has none.
fn body(sequence: &[TokenTree], start: usize) -> Option<&TokenTree> {
    for index in start + 2..sequence.len() {
        if is_mark(sequence, index, ';') {
            return None;
        }
        // `Foo<{ N }>`: a constant argument of a type, not the body.
        let opens = is_mark(sequence, index - 1, '<') || is_mark(sequence, index - 1, ',');
        let closes = is_mark(sequence, index + 1, '>') || is_mark(sequence, index + 1, ',');
        let is_argument = opens && closes;
        if group(sequence, index, Delimiter::Brace).is_some() && !is_argument {
            return Some(&sequence[index]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    #[track_caller]
    fn check_functions(text: &str, expected: &[(&str, usize, usize)]) {
        let found = functions(&source("a.rs", text));
        let found: Vec<_> = found.iter().map(|(n, line, len)| (n.as_str(), *line, *len)).collect();
        assert_eq!(found, expected);
    }

    #[track_caller]
    fn check_rules(text: &str, rules: &[&str]) {
        let mut findings = Findings::default();
        check(&source("a.rs", text), &mut findings);
        assert_eq!(findings.rules(), rules);
    }

    #[test]
    fn a_function_is_counted_from_fn_to_brace() {
        check_functions("fn a(\n  x: u8,\n) {\n  // }\n}\n", &[("a", 1, 5)]);
    }

    #[test]
    fn methods_nested_functions_and_macro_functions_count() {
        let text =
            "impl A {\n fn b() {\n  fn c() {}\n }\n}\nmacro_rules! m { () => { fn $d() {\n} } }";
        check_functions(text, &[("b", 2, 3), ("c", 3, 1), ("$", 6, 2)]);
    }

    #[test]
    fn types_and_declarations_have_no_body() {
        check_functions("trait A { fn a(); }\ntype F = fn(u8) -> u8;\nstruct S {}\n", &[]);
    }

    #[test]
    fn a_constant_argument_in_braces_is_no_body() {
        check_functions("fn a() -> Foo<{ N }> {\n}\n", &[("a", 1, 2)]);
        check_functions("fn a<T>() -> T\nwhere\n  T: Copy,\n{\n}\n", &[("a", 1, 5)]);
    }

    #[test]
    fn the_longest_allowed_passes_and_one_more_line_does_not() {
        let body = |lines: usize| format!("//! A.\nfn a() {{\n{}}}\n", "//\n".repeat(lines - 2));
        check_rules(&body(FUNCTION_LINES_MAX), &[]);
        check_rules(&body(FUNCTION_LINES_MAX + 1), &["function-length"]);
        check_rules(&format!("//! A.\n//{}\n", "é".repeat(COLUMNS_MAX - 2)), &[]);
        check_rules(&format!("//! A.\n//{}\n", "é".repeat(COLUMNS_MAX - 1)), &["line-length"]);
        check_rules(&format!("//! A.\n{}", "//\n".repeat(FILE_LINES_MAX - 1)), &[]);
        check_rules(&format!("//! A.\n{}", "//\n".repeat(FILE_LINES_MAX)), &["file-length"]);
    }

    #[test]
    fn tests_stand_apart() {
        let tests = "//\n".repeat(FILE_LINES_MAX);
        check_rules(&format!("//! A.\n#[cfg(test)]\nmod tests {{\n{tests}}}\n"), &[]);
    }

    #[test]
    fn a_file_without_its_idea_is_found() {
        check_rules("use a;\n", &["file-header"]);
        check_rules("", &["file-header"]);
    }
}
