//! Published against modelled: one line a row of the table, the tolerance as a band around what was
//! published.

use super::page::{number, sign, signed};
use super::scale::{Scale, tick};
use super::svg::Svg;
use crate::experiment::evaluate::Compared;

const WIDTH: f64 = 360.0;
/// Ends of the axis; signs need room beyond.
const ENDS: (f64, f64) = (10.0, WIDTH - 10.0);
/// Height of a row: a line of words and a track.
const ROW: f64 = 36.0;
/// Characters of a row's name that fit beside its figures.
const NAME_MAX: usize = 24;

/// How a figure came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Made to agree.
    Fitted,
    /// Within its tolerance.
    Within,
    /// Outside.
    Miss,
    /// Shown, not judged.
    Shown,
    /// Not run.
    Open,
}

impl Mark {
    /// Of a published figure.
    #[must_use]
    pub fn of(compared: &Compared) -> Mark {
        match (compared.modelled, compared.fitted, compared.within) {
            (None, ..) => Mark::Open,
            (_, true, _) => Mark::Fitted,
            (_, _, Some(true)) => Mark::Within,
            (_, _, Some(false)) => Mark::Miss,
            _ => Mark::Shown,
        }
    }

    /// A character beside the figure.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Mark::Fitted => "=",
            Mark::Within => "\u{2713}",
            Mark::Miss => "\u{2717}",
            Mark::Shown => "",
            Mark::Open => "\u{2013}",
        }
    }

    /// Draws it.
    pub fn draw(self, svg: &mut Svg, place: (f64, f64)) {
        match self {
            Mark::Fitted => svg.marker(1, "fit", place),
            Mark::Within => svg.circle("ok", place, 4.6),
            Mark::Miss => svg.cross("no", place),
            Mark::Shown => svg.circle("plain", place, 3.2),
            Mark::Open => {}
        }
    }
}

/// Lowest and highest figure that counts as reproduced.
fn band(compared: &Compared) -> Option<(f64, f64)> {
    let within = compared.tolerance.filter(|_| !compared.fitted)?;
    let room = if compared.in_points { within } else { compared.published.abs() * within / 100.0 };
    Some((compared.published - room, compared.published + room))
}

/// Signs and their words.
#[must_use]
pub fn keys() -> Vec<(String, String)> {
    let mark = |mark: Mark| sign(|svg| mark.draw(svg, (12.0, 7.0)));
    vec![
        (sign(|svg| svg.diamond("pub", (12.0, 7.0))), "published".to_string()),
        (sign(|svg| svg.rect("band", (2.0, 3.0), (20.0, 8.0))), "its tolerance".to_string()),
        (mark(Mark::Within), "\u{2713} modelled, within".to_string()),
        (mark(Mark::Miss), "\u{2717} modelled, a miss".to_string()),
        (mark(Mark::Fitted), "= fitted".to_string()),
        (mark(Mark::Shown), "modelled, not judged".to_string()),
    ]
}

/// The chart of one column; rows that were not run are left out, `None` if that leaves none.
#[must_use]
pub fn chart(column: &str, rows: &[&Compared]) -> Option<String> {
    let rows: Vec<&&Compared> = rows.iter().filter(|row| row.modelled.is_some()).collect();
    if rows.is_empty() {
        return None;
    }
    let mut values = Vec::new();
    // Zero per cent is always there.
    if rows.iter().any(|row| row.in_points) {
        values.push(0.0);
    }
    for row in &rows {
        values.push(row.published);
        values.extend(row.modelled);
        values.extend(band(row).map(|(low, high)| [low, high]).into_iter().flatten());
    }
    let scale = Scale::fitting(&values, ENDS);
    let bottom = ROW * rows.len() as f64 + 4.0;
    let mut svg = Svg::new(WIDTH, bottom + 18.0);
    axis(&mut svg, &scale, rows.len());
    for (n, row) in rows.iter().enumerate() {
        draw(&mut svg, &scale, row, n as f64 * ROW);
    }
    Some(svg.inline(&format!("{column}: published and modelled by row; the table has the figures")))
}

fn axis(svg: &mut Svg, scale: &Scale, rows: usize) {
    let bottom = ROW * rows as f64 + 4.0;
    let mut last = f64::NEG_INFINITY;
    for mark in scale.marks(4) {
        let x = scale.at(mark);
        // Only beside the tracks: words stay free of lines.
        for row in 0..rows {
            let top = row as f64 * ROW;
            svg.path("ax", &[(x, top + 18.0), (x, top + 34.0)], false);
        }
        // Words of neighbours must not touch.
        if x - last >= 34.0 {
            svg.text("m c", (x.clamp(8.0, WIDTH - 14.0), bottom + 12.0), &tick(mark));
            last = x;
        }
    }
}

fn draw(svg: &mut Svg, scale: &Scale, row: &Compared, top: f64) {
    let Some(modelled) = row.modelled else { return };
    let mark = Mark::of(row);
    let (words, track) = (top + 13.0, top + 26.0);
    svg.text("b", (0.0, words), &shortened(&row.row));
    let unit = if row.in_points { "" } else { " %" };
    let error = row.error.map_or(String::new(), |error| signed(error, unit));
    let class = match mark {
        Mark::Miss => "e no2",
        Mark::Within => "e ok2",
        _ => "e m",
    };
    let text = match mark {
        Mark::Fitted => format!("{} fitted =", number(modelled)),
        _ => format!("{} / {}  {error} {}", number(row.published), number(modelled), mark.symbol()),
    };
    svg.text(class, (WIDTH, words), text.trim_end());
    if let Some((low, high)) = band(row) {
        let (from, to) = (scale.at(low), scale.at(high));
        svg.rect("band", (from, track - 5.0), ((to - from).max(2.0), 10.0));
    }
    let (published, place) = (scale.at(row.published), scale.at(modelled));
    svg.path("gap", &[(published, track), (place, track)], false);
    svg.diamond("pub", (published, track));
    mark.draw(svg, (place, track));
}

fn shortened(name: &str) -> String {
    match name.chars().count() > NAME_MAX {
        true => name.chars().take(NAME_MAX - 1).chain(['\u{2026}']).collect(),
        false => name.to_string(),
    }
}
