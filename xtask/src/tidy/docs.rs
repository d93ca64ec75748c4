//! Documents: relative links lead to something that exists, headings included.

use std::collections::{BTreeMap, BTreeSet};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::Findings;
use super::reach::join;
use super::words;
use crate::tree::TextFile;

/// What one document offers and asks for.
struct Document {
    anchors: BTreeSet<String>,
    /// Target and line.
    links: Vec<(String, usize)>,
}

/// Checks all `.md` files among `files`; `paths` is every file of the tree.
pub fn check(files: &[&TextFile], paths: &[String], findings: &mut Findings) {
    let documents: BTreeMap<&str, Document> =
        files.iter().map(|file| (file.path.as_str(), read(file, findings))).collect();
    let mut known: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
    for path in paths {
        known.extend(path.match_indices('/').map(|(at, _)| &path[..at]));
    }
    known.insert("");
    for (path, document) in &documents {
        for (target, line) in &document.links {
            if let Err(message) = resolve(path, target, &documents, &known) {
                findings.add("links", path, *line, format!("{target}: {message}"));
            }
        }
    }
}

fn resolve(
    from: &str,
    target: &str,
    documents: &BTreeMap<&str, Document>,
    known: &BTreeSet<&str>,
) -> Result<(), String> {
    let scheme = target.split_once(':').is_some_and(|(scheme, _)| {
        scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    if scheme {
        return Ok(()); // Another place, which a test without a network cannot visit.
    }
    if target.starts_with('/') {
        return Err("an absolute path leads nowhere on another machine".into());
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let dir = from.rsplit_once('/').map_or("", |(dir, _)| dir);
    let path = if file.is_empty() { from.to_owned() } else { join(dir, file) };
    if !known.contains(path.as_str()) {
        return Err(format!("there is no {path}"));
    }
    let document = documents.get(path.as_str());
    if !anchor.is_empty() && document.is_some_and(|document| !document.anchors.contains(anchor)) {
        return Err(format!("{path} has no heading #{anchor}"));
    }
    Ok(())
}

fn read(file: &TextFile, findings: &mut Findings) -> Document {
    let mut document = Document { anchors: BTreeSet::new(), links: Vec::new() };
    let mut heading: Option<String> = None;
    let mut in_code = false;
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
    for (event, range) in Parser::new_ext(&file.text, options).into_offset_iter() {
        let line = file.text[..range.start].matches('\n').count() + 1;
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                document.links.push((dest_url.into_string(), line));
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&heading.take().unwrap_or_default(), &document.anchors);
                document.anchors.insert(slug);
            }
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Code(text) => extend(&mut heading, &text),
            Event::Text(text) => {
                extend(&mut heading, &text);
                let word = (!in_code).then(|| words::unfinished_word(&text)).flatten();
                if let Some(word) = word {
                    findings.add("unfinished", &file.path, line, format!("`{word}` in prose"));
                }
            }
            _ => {}
        }
    }
    document
}

fn extend(heading: &mut Option<String>, text: &str) {
    if let Some(heading) = heading {
        heading.push_str(text);
    }
}

/// The anchor that forges make of a heading: small letters, blanks as dashes, no punctuation.
fn slug(heading: &str, taken: &BTreeSet<String>) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
    if !taken.contains(&slug) {
        return slug;
    }
    let numbered = (1..).map(|number| format!("{slug}-{number}"));
    numbered.into_iter().find(|slug| !taken.contains(slug)).expect("numbers do not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.into(), text: text.into() }
    }

    #[track_caller]
    fn check_link(target: &str, found: bool) {
        let from = file("docs/a.md", &format!("x\n\n[y]({target})\n\n## One `b_c` thing!\n"));
        let other = file("README.md", "# Top\n\n# Top\n");
        let paths = ["docs/a.md", "README.md", "core/src/lib.rs"].map(String::from);
        let mut findings = Findings::default();
        check(&[&from, &other], &paths, &mut findings);
        let places: Vec<usize> = findings.lines();
        assert_eq!(places, if found { vec![3] } else { vec![] }, "{target}");
    }

    #[test]
    fn links_to_files_folders_and_headings_resolve() {
        for target in ["../README.md", "../core", "a.md", "#one-b_c-thing", "../README.md#top-1"] {
            check_link(target, false);
        }
    }

    #[test]
    fn links_to_nothing_are_found() {
        for target in ["README.md", "../cor", "#two", "../README.md#top-2", "/core", "../../x"] {
            check_link(target, true);
        }
    }

    #[test]
    fn other_places_are_not_visited() {
        check_link("https://example.org/x", false);
        check_link("mailto:a@example.org", false);
    }

    #[test]
    fn unfinished_words_count_in_prose_not_in_code() {
        let word = concat!("TO", "DO");
        let text = format!("a {word} b\n\n`{word}`\n\n```\n{word}\n```\n");
        let mut findings = Findings::default();
        check(&[&file("a.md", &text)], &["a.md".into()], &mut findings);
        assert_eq!(findings.lines(), [1]);
    }
}
