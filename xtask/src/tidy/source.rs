//! One Rust file as lines and as tokens, with the parts that are tests marked.
//!
//! The tokens come from `proc-macro2`, so that strings, comments, raw strings and lifetimes are
//! told apart by rules that are not ours. Comments are no tokens; who needs them reads `lines`.

use std::ops::RangeInclusive;
use std::str::FromStr;

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};

use crate::tree::TextFile;

/// A Rust source file.
pub struct Source {
    /// Relative to the root.
    pub path: String,
    /// Without line ends; line N of the file is `lines[N - 1]`.
    pub lines: Vec<String>,
    /// Empty when the file could not be cut into tokens.
    pub tokens: Vec<TokenTree>,
    /// Where and why the file could not be cut into tokens.
    pub error: Option<(usize, String)>,
    /// Reached only in tests or benches, so that no limit on production code applies.
    pub is_test: bool,
    /// Lines of the items under `#[cfg(test)]`, first and last included.
    test_parts: Vec<RangeInclusive<usize>>,
}

impl Source {
    pub fn new(file: &TextFile) -> Source {
        let (tokens, error) = match TokenStream::from_str(&file.text) {
            Ok(stream) => (stream.into_iter().collect(), None),
            Err(error) => (Vec::new(), Some(lex_error(&error))),
        };
        let mut test_parts = Vec::new();
        each_sequence(&tokens, &mut |sequence| find_test_parts(sequence, &mut test_parts));
        let lines = file.text.lines().map(str::to_owned).collect();
        Source { path: file.path.clone(), lines, tokens, error, is_test: false, test_parts }
    }

    /// Whether line `line` (from 1) is only built for tests.
    pub fn in_test(&self, line: usize) -> bool {
        self.is_test || self.test_parts.iter().any(|part| part.contains(&line))
    }

    /// Calls `visit(sequence, index)` for each token, in the sequence it stands in.
    pub fn each_token(&self, visit: &mut impl FnMut(&[TokenTree], usize)) {
        each_sequence(&self.tokens, &mut |sequence| {
            for index in 0..sequence.len() {
                visit(sequence, index);
            }
        });
    }
}

fn lex_error(error: &LexError) -> (usize, String) {
    (error.span().start().line, error.to_string())
}

fn each_sequence(sequence: &[TokenTree], visit: &mut impl FnMut(&[TokenTree])) {
    // Source nests no deeper than a person writes, but a list in place of recursion costs nothing.
    let mut open: Vec<Vec<TokenTree>> = vec![sequence.to_vec()];
    while let Some(sequence) = open.pop() {
        visit(&sequence);
        for token in &sequence {
            if let TokenTree::Group(group) = token {
                open.push(group.stream().into_iter().collect());
            }
        }
    }
}

/// First line of a token, from 1.
pub fn first_line(token: &TokenTree) -> usize {
    match token {
        TokenTree::Group(group) => group.span_open().start().line,
        other => other.span().start().line,
    }
}

/// Last line of a token, from 1.
pub fn last_line(token: &TokenTree) -> usize {
    match token {
        TokenTree::Group(group) => group.span_close().end().line,
        other => other.span().end().line,
    }
}

/// Whether the token at `index` is the word `word`.
pub fn is_word(sequence: &[TokenTree], index: usize, word: &str) -> bool {
    matches!(sequence.get(index), Some(TokenTree::Ident(ident)) if ident == word)
}

/// Whether the token at `index` is the mark `mark`.
pub fn is_mark(sequence: &[TokenTree], index: usize, mark: char) -> bool {
    matches!(sequence.get(index), Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

/// The tokens within the group at `index`, when it has that delimiter.
pub fn group(sequence: &[TokenTree], index: usize, delimiter: Delimiter) -> Option<Vec<TokenTree>> {
    match sequence.get(index) {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => {
            Some(group.stream().into_iter().collect())
        }
        _ => None,
    }
}

/// The tokens within `#[…]` at `index`.
pub fn attribute(sequence: &[TokenTree], index: usize) -> Option<Vec<TokenTree>> {
    let inside = is_mark(sequence, index, '#');
    inside.then(|| group(sequence, index + 1, Delimiter::Bracket)).flatten()
}

/// Whether these tokens are `cfg(test)` or `cfg(all(test, …))`.
pub fn is_cfg_test(attribute: &[TokenTree]) -> bool {
    if !is_word(attribute, 0, "cfg") {
        return false;
    }
    let Some(mut inside) = group(attribute, 1, Delimiter::Parenthesis) else {
        return false;
    };
    if is_word(&inside, 0, "all")
        && let Some(all) = group(&inside, 1, Delimiter::Parenthesis)
    {
        inside = all;
    }
    inside
        .split(|token| matches!(token, TokenTree::Punct(p) if p.as_char() == ','))
        .any(|condition| condition.len() == 1 && is_word(condition, 0, "test"))
}

/// The index of the token that ends the item that begins at `index`: `;` or a `{…}`.
pub fn item_end(sequence: &[TokenTree], index: usize) -> usize {
    let ends =
        |i: &usize| is_mark(sequence, *i, ';') || group(sequence, *i, Delimiter::Brace).is_some();
    (index..sequence.len()).find(ends).unwrap_or(sequence.len().saturating_sub(1))
}

fn find_test_parts(sequence: &[TokenTree], parts: &mut Vec<RangeInclusive<usize>>) {
    for index in 0..sequence.len() {
        if attribute(sequence, index).is_some_and(|inside| is_cfg_test(&inside)) {
            let end = item_end(sequence, index + 2);
            parts.push(first_line(&sequence[index])..=last_line(&sequence[end]));
        }
    }
}

#[cfg(test)]
pub fn source(path: &str, text: &str) -> Source {
    Source::new(&TextFile { path: path.into(), text: text.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, test_lines: &[usize]) {
        let source = source("a.rs", text);
        assert_eq!(source.error, None);
        let found: Vec<usize> =
            (1..=source.lines.len()).filter(|line| source.in_test(*line)).collect();
        assert_eq!(found, test_lines);
    }

    #[test]
    fn a_test_module_is_marked_with_its_attribute() {
        check("fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\nfn c() {}\n", &[2, 3, 4, 5]);
    }

    #[test]
    fn code_for_all_but_tests_is_no_test() {
        check("#[cfg(not(test))]\nmod a {\n}\n#[cfg(all(test, unix))]\nuse b;\n", &[4, 5]);
    }

    #[test]
    fn braces_in_strings_comments_and_chars_count_for_nothing() {
        check(
            "const A: &str = r#\"}\"#; // }\nconst B: char = '{';\n#[cfg(test)]\nuse c;\n",
            &[3, 4],
        );
    }

    #[test]
    fn a_broken_file_names_its_line() {
        let source = source("a.rs", "fn a() {}\nfn b( {\n");
        assert_eq!(source.error.map(|(line, _)| line), Some(2));
    }
}
