//! A picture under construction: shapes with classes, every figure with at most one decimal, so
//! that the same input gives the same bytes. Colours are the style sheet's.

use std::fmt::Write;

/// Text with what HTML and SVG take for markup made harmless; control characters become blanks.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate: one decimal, none if it is zero.
fn at(value: f64) -> String {
    let tenths = (value * 10.0).round() as i64;
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        _ => format!(
            "{}{}.{}",
            if tenths < 0 { "-" } else { "" },
            tenths.abs() / 10,
            tenths.abs() % 10
        ),
    }
}

/// A picture with a size in its own units; shown at the width of its place.
#[derive(Clone, Debug)]
pub struct Svg {
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    /// An empty picture.
    #[must_use]
    pub fn new(width: f64, height: f64) -> Svg {
        Svg { width, height, body: String::new() }
    }

    /// A rectangle from its upper left corner.
    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let (x, y, w, h) = (at(x), at(y), at(width.max(0.0)), at(height.max(0.0)));
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"/>"
        );
    }

    /// A line through points; closed ones are areas.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)], closed: bool) {
        let mut d = String::new();
        for (n, (x, y)) in points.iter().enumerate() {
            let _ = write!(d, "{}{} {}", if n == 0 { 'M' } else { 'L' }, at(*x), at(*y));
        }
        if closed {
            d.push('Z');
        }
        let _ = write!(self.body, "<path class=\"{class}\" d=\"{d}\"/>");
    }

    /// A circle.
    pub fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        let _ = write!(
            self.body,
            "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>",
            at(x),
            at(y),
            at(radius)
        );
    }

    /// A line of text whose base line starts, ends or is centred here, by class `e` or `c`.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let _ = write!(
            self.body,
            "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>",
            at(x),
            at(y),
            escape(text)
        );
    }

    /// A marker of a series: the shape says which as well as the colour.
    pub fn marker(&mut self, shape: usize, class: &str, (x, y): (f64, f64)) {
        let r = 4.0;
        match shape % 6 {
            0 => self.circle(class, (x, y), r),
            1 => self.rect(class, (x - r + 0.5, y - r + 0.5), (2.0 * r - 1.0, 2.0 * r - 1.0)),
            2 => self.path(
                class,
                &[(x, y - r - 1.0), (x + r, y + r - 1.0), (x - r, y + r - 1.0)],
                true,
            ),
            3 => self.diamond(class, (x, y)),
            4 => self.path(
                class,
                &[(x, y + r + 1.0), (x + r, y - r + 1.0), (x - r, y - r + 1.0)],
                true,
            ),
            _ => self.path(class, &[(x - r, y), (x, y - 2.0), (x + r, y), (x, y + 2.0)], true),
        }
    }

    /// A square on its tip.
    pub fn diamond(&mut self, class: &str, (x, y): (f64, f64)) {
        let r = 5.0;
        self.path(class, &[(x, y - r), (x + r, y), (x, y + r), (x - r, y)], true);
    }

    /// A cross.
    pub fn cross(&mut self, class: &str, (x, y): (f64, f64)) {
        let r = 4.2;
        self.path(class, &[(x - r, y - r), (x + r, y + r)], false);
        self.path(class, &[(x - r, y + r), (x + r, y - r)], false);
    }

    /// The picture within a page, with words for who cannot see it.
    #[must_use]
    pub fn inline(&self, alt: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            at(self.width),
            at(self.height),
            escape(alt),
            self.body
        )
    }

    /// The picture as a sign in a legend.
    #[must_use]
    pub fn sign(&self) -> String {
        format!(
            "<svg class=\"key\" viewBox=\"0 0 {} {}\" aria-hidden=\"true\">{}</svg>",
            at(self.width),
            at(self.height),
            self.body
        )
    }

    /// The picture as a file of its own, with its colours for light and dark.
    #[must_use]
    pub fn standalone(&self, title: &str) -> String {
        let (w, h) = (at(self.width), at(self.height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" \
             height=\"{h}\" role=\"img\"><title>{}</title><style>{}{}</style>\
             <rect width=\"{w}\" height=\"{h}\" style=\"fill:var(--bg)\"/>{}</svg>\n",
            escape(title),
            super::page::COLOURS,
            super::page::SVG_STYLE,
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        assert_eq!(escape("<a href='x'>&\"\u{1}"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot; ");
    }

    #[test]
    fn coordinates_have_one_form() {
        let shown: Vec<String> = [0.0, -0.04, -0.5, 12.34, 7.96].map(at).into();
        assert_eq!(shown, ["0", "0", "-0.5", "12.3", "8"]);
    }
}
