//! `no-unsafe-core`: `unsafe` only where memory and registers are touched, and never unexplained.

use proc_macro2::{Delimiter, TokenTree};

use super::Findings;
use super::source::{Source, first_line, group, is_word};

/// Folders whose business it is.
const ALLOWED: [&str; 3] = ["host/", "capi/", "check/"];

pub fn check(source: &Source, findings: &mut Findings) {
    let allowed = is_allowed(&source.path);
    source.each_token(&mut |sequence, index| {
        if !is_word(sequence, index, "unsafe") || is_type(sequence, index) {
            return;
        }
        let line = first_line(&sequence[index]);
        if !allowed {
            let message = "`unsafe` outside host/, capi/, check/ and platform files";
            findings.add("no-unsafe", &source.path, line, message);
        }
        if !is_explained(&source.lines, line) {
            let message = "`unsafe` without a `// SAFETY:` comment (or `# Safety` section) above";
            findings.add("safety-comment", &source.path, line, message);
        }
    });
}

/// A platform is a file `platform.rs` or a folder `platform/`, and never one of the core.
fn is_allowed(path: &str) -> bool {
    let platform = path.split('/').any(|part| part == "platform" || part == "platform.rs");
    ALLOWED.iter().any(|dir| path.starts_with(dir)) || (platform && !path.starts_with("core/"))
}

/// `unsafe fn(…)` and `unsafe extern "C" fn(…)` without a name are types and do nothing.
fn is_type(sequence: &[TokenTree], index: usize) -> bool {
    let mut next = index + 1;
    if is_word(sequence, next, "extern") {
        next += 1 + usize::from(matches!(sequence.get(next + 1), Some(TokenTree::Literal(_))));
    }
    is_word(sequence, next, "fn") && group(sequence, next + 1, Delimiter::Parenthesis).is_some()
}

/// Looks on the line itself, then upwards over comments, attributes and the statement's own lines.
fn is_explained(lines: &[String], line: usize) -> bool {
    let explains = |text: &str| {
        text.split_once("//").is_some_and(|(_, c)| c.contains("SAFETY:") || c.contains("# Safety"))
    };
    if lines.get(line - 1).is_some_and(|text| explains(text)) {
        return true;
    }
    for text in lines[..line - 1].iter().rev() {
        let text = text.trim();
        if explains(text) {
            return true;
        }
        let comment = text.starts_with("//") || text.starts_with("#[");
        let code = text.split("//").next().unwrap_or_default().trim_end();
        if !comment && (code.is_empty() || code.ends_with([';', '{', '}', ','])) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    #[track_caller]
    fn check_at(path: &str, text: &str, rules: &[&str]) {
        let mut findings = Findings::default();
        check(&source(path, text), &mut findings);
        assert_eq!(findings.rules(), rules, "{text}");
    }

    #[test]
    fn only_some_folders_may_be_unsafe() {
        let text = "fn a() {\n  // SAFETY: b takes nothing.\n  unsafe { b() }\n}";
        check_at("host/src/map.rs", text, &[]);
        check_at("sim/src/platform.rs", text, &[]);
        check_at("sim/src/platform/x.rs", text, &[]);
        check_at("lab/src/a.rs", text, &["no-unsafe"]);
        check_at("core/src/platform.rs", text, &["no-unsafe"]);
    }

    #[test]
    fn an_explanation_stands_above_its_statement() {
        let host = "host/src/a.rs";
        check_at(host, "fn a() {\n  // SAFETY: x.\n  let b =\n    unsafe { c() };\n}", &[]);
        check_at(host, "fn a() { unsafe { b() } // SAFETY: x.\n}", &[]);
        check_at(host, "// SAFETY: x.\n#[inline]\nunsafe impl Send for A {}", &[]);
        check_at(host, "/// # Safety\n/// None.\npub unsafe fn a() {}", &[]);
        check_at(host, "// SAFETY: x.\nfn a() {\n  unsafe { b() }\n}", &["safety-comment"]);
        check_at(host, "// SAFETY: x.\n\nunsafe impl Send for A {}", &["safety-comment"]);
        check_at(host, "const S: &str = \"SAFETY:\"; unsafe impl A for B {}", &["safety-comment"]);
    }

    #[test]
    fn a_function_type_needs_no_explanation() {
        check_at(
            "lab/src/a.rs",
            "type F = unsafe extern \"C\" fn(u8);\ntype G = unsafe fn();",
            &[],
        );
    }
}
