//! What all pages share: the shell with its styles and patterns, paragraphs, charts in a grid.

use std::fmt::Write;

use super::svg::{Svg, escape};

/// Colours for light and dark: of Okabe and Ito (2008), which colour-blind readers tell apart,
/// darkened where they are text.
pub const COLOURS: &str = include_str!("colours.css");
/// What shapes look like.
pub const SVG_STYLE: &str = include_str!("svg.css");
const STYLE: &str = include_str!("style.css");

/// Patterns of the stacked charts, so that they read without colours too.
const PATTERNS: &str = include_str!("patterns.svg");

/// A whole page around its body.
#[must_use]
pub fn shell(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{COLOURS}{SVG_STYLE}{STYLE}</style>\n</head>\n<body>\n\
         {PATTERNS}\n{body}</body>\n</html>\n",
        escape(title)
    )
}

/// A name that can be an anchor: letters and figures, anything else a hyphen.
#[must_use]
pub fn anchor(name: &str) -> String {
    let plain = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    format!("t-{}", plain.collect::<String>())
}

/// Escaped text in which a line may break behind `_`, `/`, `:` and `,`.
#[must_use]
pub fn breakable(text: &str) -> String {
    let mut out = escape(text);
    for sign in ["_", "/", ":", ","] {
        out = out.replace(sign, &format!("{sign}<wbr>"));
    }
    out
}

/// A paragraph.
pub fn paragraph(out: &mut String, class: &str, text: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = writeln!(out, "<p{class}>{}</p>", escape(text));
}

/// Names and what they stand for; empty ones are left out.
pub fn facts(out: &mut String, facts: &[(&str, String)]) {
    out.push_str("<dl>\n");
    for (name, text) in facts.iter().filter(|(_, text)| !text.trim().is_empty()) {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(text.trim()));
    }
    out.push_str("</dl>\n");
}

/// A chart with its caption: a heading and, smaller, what is shown.
#[must_use]
pub fn figure(heading: &str, small: &str, picture: &str) -> String {
    let small = if small.is_empty() {
        String::new()
    } else {
        format!(" <small class=\"mut\">{}</small>", escape(small))
    };
    format!("<figure><figcaption>{}{small}</figcaption>{picture}</figure>\n", breakable(heading))
}

/// Charts side by side where there is room.
pub fn charts(out: &mut String, figures: &[String]) {
    if !figures.is_empty() {
        let _ = writeln!(out, "<div class=\"charts\">\n{}</div>", figures.concat());
    }
}

/// A legend: signs and words.
pub fn keys(out: &mut String, keys: &[(String, String)]) {
    out.push_str("<div class=\"keys\">");
    for (sign, words) in keys {
        let _ = write!(out, "<span>{sign}{}</span>", escape(words));
    }
    out.push_str("</div>\n");
}

/// A sign of a legend, drawn.
#[must_use]
pub fn sign(draw: impl FnOnce(&mut Svg)) -> String {
    let mut svg = Svg::new(24.0, 14.0);
    draw(&mut svg);
    svg.sign()
}

/// A figure with three to four digits.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        _ if size >= 999_500.0 => return format!("{:.2}\u{a0}M", value / 1e6),
        _ if size >= 99.95 => return grouped(value.round() as i64),
        _ if size >= 9.995 => format!("{value:.1}"),
        // Two digits of what is small, so that a change of it can be seen.
        _ if (0.000_095..0.0095).contains(&size) => format!("{value:.4}"),
        _ if (0.0095..0.095).contains(&size) => format!("{value:.3}"),
        _ => format!("{value:.2}"),
    };
    text.replace('-', "\u{2212}")
}

/// An error or a change: with its sign.
#[must_use]
pub fn signed(value: f64, unit: &str) -> String {
    let text = match value.abs() {
        size if size >= 99.95 => format!("{value:+.0}"),
        _ => format!("{value:+.1}"),
    };
    // No change has no sign.
    let text = if text == "-0.0" { "+0.0".to_string() } else { text };
    format!("{}{unit}", text.replace('-', "\u{2212}"))
}

/// Thousands apart by a narrow blank that does not break.
fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::from(if value < 0 { "\u{2212}" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_or_four_digits() {
        let shown: Vec<String> =
            [1.0, -12.34, 9.996, 1234.4, -99_999.0, 15_345_900.0].map(number).into();
        assert_eq!(
            shown,
            [
                "1.00",
                "\u{2212}12.3",
                "10.0",
                "1\u{202f}234",
                "\u{2212}99\u{202f}999",
                "15.35\u{a0}M"
            ]
        );
        assert_eq!([0.0, 0.002_34, 0.0456, 0.456].map(number), ["0.00", "0.0023", "0.046", "0.46"]);
        assert_eq!(signed(-0.04, "%"), "+0.0%");
        assert_eq!(signed(-3.16, ""), "\u{2212}3.2");
    }
}
