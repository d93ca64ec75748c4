//! A page of the documentation within a report: headings, paragraphs, lists, emphasis and code of
//! Markdown; tables and anything else as they stand.

use std::fmt::Write;

use super::svg::escape;

/// Blocks of Markdown as HTML; headings become smaller by `deeper` steps.
#[must_use]
pub fn html(markdown: &str, deeper: usize) -> String {
    let mut out = String::new();
    let mut block = Block::None;
    for line in markdown.lines().chain([""]) {
        let text = line.trim();
        let hashes = text.chars().take_while(|c| *c == '#').count();
        let item = text.strip_prefix("- ");
        if hashes > 0 || text.is_empty() || item.is_some() {
            block.end(&mut out);
        }
        match (hashes, item) {
            (1.., _) => {
                block.leave_list(&mut out);
                let level = (hashes + deeper).min(6);
                let words = inline(text[hashes..].trim());
                let _ = writeln!(out, "<h{level}>{words}</h{level}>");
            }
            (_, Some(item)) => block.item(&mut out, item),
            _ if text.is_empty() => block.blank = true,
            _ => block.more(&mut out, text, line.starts_with(' ')),
        }
    }
    block.leave_list(&mut out);
    out
}

/// The paragraph or list item that is being read.
struct Block {
    text: String,
    is_item: bool,
    in_list: bool,
    blank: bool,
}

impl Block {
    #[allow(non_upper_case_globals)]
    const None: Block = Block { text: String::new(), is_item: false, in_list: false, blank: false };

    fn item(&mut self, out: &mut String, text: &str) {
        if !self.in_list {
            out.push_str("<ul>\n");
        }
        (self.in_list, self.is_item, self.blank) = (true, true, false);
        self.text = text.to_string();
    }

    fn more(&mut self, out: &mut String, text: &str, indented: bool) {
        if self.blank && !indented {
            self.leave_list(out);
        }
        self.blank = false;
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(text);
    }

    fn end(&mut self, out: &mut String) {
        if self.text.is_empty() {
            return;
        }
        let words = inline(&self.text);
        let tag = if self.is_item { "li" } else { "p" };
        let _ = writeln!(out, "<{tag}>{words}</{tag}>");
        self.text.clear();
        self.is_item = false;
    }

    fn leave_list(&mut self, out: &mut String) {
        if self.in_list {
            out.push_str("</ul>\n");
            self.in_list = false;
        }
    }
}

/// `**strong**`, `code`, and links as their words: what they lead to is not in this file.
fn inline(text: &str) -> String {
    let mut out = String::new();
    let (mut strong, mut code) = (false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("**").filter(|_| !code) {
            out.push_str(if strong { "</b>" } else { "<b>" });
            (strong, rest) = (!strong, after);
        } else if let Some(after) = rest.strip_prefix('`') {
            out.push_str(if code { "</code>" } else { "<code>" });
            (code, rest) = (!code, after);
        } else if let Some((words, after)) = link(rest).filter(|_| !code) {
            out.push_str(&escape(words));
            rest = after;
        } else {
            out.push_str(&escape(&rest[..c.len_utf8()]));
            rest = &rest[c.len_utf8()..];
        }
    }
    if code {
        out.push_str("</code>");
    }
    if strong {
        out.push_str("</b>");
    }
    out
}

/// Words of `[words](target)` and what follows.
fn link(text: &str) -> Option<(&str, &str)> {
    let (words, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (_, after) = rest.split_once(')')?;
    Some((words, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_paragraphs_and_headings_nest_as_they_should() {
        let text =
            "# A <b>\n\nOne\ntwo `x<y`.\n\n- **Item** [see](B.md)\n  goes on\n- next\n\nafter\n";
        assert_eq!(
            html(text, 1),
            "<h2>A &lt;b&gt;</h2>\n<p>One two <code>x&lt;y</code>.</p>\n<ul>\n\
             <li><b>Item</b> see goes on</li>\n<li>next</li>\n</ul>\n<p>after</p>\n"
        );
    }
}
