//! Words that may not stand in code: `no-unsafe-core`, no unfinished business, no skipped tests.

use proc_macro2::{Delimiter, TokenTree};

use super::Findings;
use super::source::{Source, attribute, first_line, group, is_mark, is_word};
use crate::tree::TextFile;

/// Put together here, so that this file does not find itself.
const UNFINISHED: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
const HOMES: [&str; 3] = [concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/ro", "ot/")];
const UNFINISHED_MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];
const CORE: &str = "core/src/";

/// Checks that need tokens.
pub fn check(source: &Source, findings: &mut Findings) {
    let in_core = source.path.starts_with(CORE);
    source.each_token(&mut |sequence, index| {
        let line = first_line(&sequence[index]);
        for name in UNFINISHED_MACROS {
            if is_word(sequence, index, name) && is_mark(sequence, index + 1, '!') {
                let message = format!("`{name}!` is unfinished work");
                findings.add("unfinished", &source.path, line, message);
            }
        }
        if attribute(sequence, index).is_some_and(|inside| is_word(&inside, 0, "ignore")) {
            let message = "`#[ignore]`: a test that cannot run here prints why it skipped";
            findings.add("no-ignore", &source.path, line, message);
        }
        if in_core && let Some(word) = banned_in_core(sequence, index, source.in_test(line)) {
            let message = format!("`{word}` may not stand in the core");
            findings.add("core-words", &source.path, line, message);
        }
    });
}

/// The banned word that begins at `index`. Tests of the core may use std.
fn banned_in_core(sequence: &[TokenTree], index: usize, in_test: bool) -> Option<&'static str> {
    let is = |word| is_word(sequence, index, word);
    if is("unsafe") {
        return Some("unsafe");
    }
    if (is("cfg") || is("cfg_attr")) && mentions_feature(sequence, index + 1) {
        return Some("cfg(feature)");
    }
    if in_test {
        return None;
    }
    if is("unwrap") && group(sequence, index + 1, Delimiter::Parenthesis).is_some() {
        return Some("unwrap()");
    }
    let path = is_mark(sequence, index + 1, ':') && is_mark(sequence, index + 2, ':');
    if is("std") && (path || is_word(sequence, index.wrapping_sub(1), "crate")) {
        return Some("std::");
    }
    if is("alloc") && is_word(sequence, index.wrapping_sub(1), "crate") {
        return Some("extern crate alloc");
    }
    ["HashMap", "Instant"].into_iter().find(|word| is(word))
}

fn mentions_feature(sequence: &[TokenTree], index: usize) -> bool {
    let Some(mut open) = group(sequence, index, Delimiter::Parenthesis) else {
        return false;
    };
    while let Some(token) = open.pop() {
        match token {
            TokenTree::Ident(ident) if ident == "feature" => return true,
            TokenTree::Group(group) => open.extend(group.stream()),
            _ => {}
        }
    }
    false
}

/// The core says of itself what it is.
pub fn check_core_root(source: &Source, findings: &mut Findings) {
    let inner: Vec<String> = (0..source.tokens.len())
        .filter(|index| is_mark(&source.tokens, *index, '#'))
        .filter(|index| is_mark(&source.tokens, index + 1, '!'))
        .filter_map(|index| group(&source.tokens, index + 2, Delimiter::Bracket))
        .map(|tokens| tokens.iter().map(ToString::to_string).collect())
        .collect();
    let forbids = |a: &String| a.starts_with("forbid") && a.contains("unsafe_code");
    if !inner.iter().any(|a| a == "no_std" || a == "cfg_attr(not (test) , no_std)") {
        findings.add("no-unsafe-core", &source.path, 1, "the core lacks `#![no_std]`");
    }
    if !inner.iter().any(forbids) {
        let message = "the core lacks `#![forbid(unsafe_code)]`";
        findings.add("no-unsafe-core", &source.path, 1, message);
    }
}

/// Checks on plain text, comments and strings included. `prose` lines hold no code.
pub fn check_text(file: &TextFile, findings: &mut Findings) {
    for (index, line) in file.text.lines().enumerate() {
        for word in UNFINISHED {
            if has_word(line, word) {
                let message = format!("`{word}`: do it, or open an issue and say its number");
                findings.add("unfinished", &file.path, index + 1, message);
            }
        }
        check_homes(&file.path, index + 1, line, findings);
    }
}

/// Finds the path of somebody's home.
pub fn check_homes(path: &str, line: usize, text: &str, findings: &mut Findings) {
    let named = |home: &str| {
        text.match_indices(home).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + home.len()..].chars().next();
            // `/sys/x/root/y` is no home; `$HOME` or `/home/<you>` names nobody.
            !before.is_some_and(is_word_char) && after.is_some_and(is_word_char)
        })
    };
    if let Some(home) = HOMES.into_iter().find(|home| named(home)) {
        let message = format!("an absolute path below `{home}` exists on one machine only");
        findings.add("no-home-paths", path, line, message);
    }
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_word_char) && !after.is_some_and(is_word_char)
    })
}

/// Whether a sentence of a document holds a word for unfinished work.
pub fn unfinished_word(text: &str) -> Option<&'static str> {
    UNFINISHED.into_iter().find(|word| has_word(text, word))
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    #[track_caller]
    fn check_core(text: &str, messages: &[&str]) {
        let mut findings = Findings::default();
        check(&source("core/src/a.rs", text), &mut findings);
        let found: Vec<String> = findings.messages();
        assert_eq!(found.len(), messages.len(), "{found:?}");
        for (found, expected) in found.iter().zip(messages) {
            assert!(found.contains(expected), "{found} lacks {expected}");
        }
    }

    #[test]
    fn banned_words_are_found_in_code_only() {
        check_core("fn a() { b.unwrap(); }", &["unwrap()"]);
        check_core("fn a() { b.unwrap_or(0); }", &[]);
        check_core("// unsafe HashMap std::mem\nconst A: &str = \"unsafe\";", &[]);
        check_core("/// `x.unwrap()`, `std::fmt`\nfn a() {}", &[]);
        check_core("use std::fmt;", &["std::"]);
        check_core("extern crate alloc;", &["alloc"]);
        check_core("use crate::alloc::b;", &[]);
        check_core("#[cfg(feature = \"x\")]\nfn a() {}", &["cfg(feature)"]);
        check_core("fn a() { if cfg!(x) {} }", &[]);
        check_core("unsafe fn a() {}", &["unsafe"]);
        check_core("fn a(_: HashMap<u8, Instant>) {}", &["HashMap", "Instant"]);
    }

    #[test]
    fn tests_of_the_core_may_use_std_but_no_unsafe() {
        check_core("#[cfg(test)]\nmod tests { use std::fmt; fn a() { b.unwrap() } }", &[]);
        check_core("#[cfg(test)]\nmod tests { fn a() { unsafe { b() } } }", &["unsafe"]);
    }

    #[test]
    fn other_crates_may_use_std() {
        let mut findings = Findings::default();
        check(&source("lab/src/a.rs", "use std::fmt; fn a() { b.unwrap() }"), &mut findings);
        assert_eq!(findings.rules(), [""; 0]);
    }

    #[test]
    fn unfinished_work_and_skipped_tests_are_found_everywhere() {
        check_core("fn a() { todo!() }", &["todo"]);
        check_core("fn a() { x.todo() }", &[]);
        check_core("#[test]\n#[ignore]\nfn a() {}", &["ignore"]);
        check_core("#[ignore = \"slow\"]\nfn a() {}", &["ignore"]);
        assert_eq!(unfinished_word(&format!("x {}: y", UNFINISHED[0])), Some(UNFINISHED[0]));
        assert_eq!(unfinished_word(&format!("MAS{}", UNFINISHED[0])), None);
    }

    #[track_caller]
    fn check_home(text: &str, found: bool) {
        let mut findings = Findings::default();
        check_homes("a.md", 1, text, &mut findings);
        assert_eq!(!findings.rules().is_empty(), found, "{text}");
    }

    #[test]
    fn somebodys_home_is_found() {
        check_home(&format!("see {}jo/x", HOMES[0]), true);
        check_home(&format!("\"{}x\"", HOMES[2]), true);
        check_home(&format!("{}<you>/x", HOMES[0]), false);
        check_home(&format!("/mnt{}x", HOMES[2]), false);
    }

    #[test]
    fn the_core_must_say_what_it_is() {
        let check = |text: &str, expected: &[&str]| {
            let mut findings = Findings::default();
            check_core_root(&source("core/src/lib.rs", text), &mut findings);
            assert_eq!(findings.rules(), expected);
        };
        check("#![no_std]\n#![forbid(unsafe_code)]", &[]);
        check("#![cfg_attr(not(test), no_std)]\n#![forbid(unsafe_code)]", &[]);
        check("#![no_std]\n#![deny(unsafe_code)]", &["no-unsafe-core"]);
    }
}
