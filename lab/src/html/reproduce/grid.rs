//! The table itself: published, modelled and error for each column, a few columns to a block, each
//! block in a box that scrolls by itself.

use std::fmt::Write;

use super::in_order;
use crate::experiment::evaluate::Compared;
use crate::html::page::{breakable, number, signed};
use crate::html::points::Mark;
use crate::html::svg::escape;

/// Published columns side by side: what fits a printed page.
const COLUMNS: usize = 4;

/// All blocks of a table; slopes have columns of their own.
pub fn section(out: &mut String, compared: &[Compared]) {
    out.push_str("<h3>Figures</h3>\n");
    let (slopes, figures): (Vec<&Compared>, Vec<&Compared>) =
        compared.iter().partition(|compared| compared.row.starts_with("slope "));
    for part in [figures, slopes] {
        let columns = in_order(part.iter().map(|compared| compared.column.as_str()));
        for columns in columns.chunks(COLUMNS) {
            block(out, &part, columns);
        }
    }
}

fn block(out: &mut String, part: &[&Compared], columns: &[&str]) {
    out.push_str(
        "<div class=\"box\" tabindex=\"0\"><table>\n<thead><tr><th rowspan=\"2\">row</th>",
    );
    for column in columns {
        let _ = write!(out, "<th class=\"grp mid\" colspan=\"3\">{}</th>", breakable(column));
    }
    out.push_str("</tr>\n<tr>");
    for _ in columns {
        out.push_str("<th class=\"grp\">published</th><th>modelled</th><th>error</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in in_order(part.iter().map(|compared| compared.row.as_str())) {
        let find = |column: &&str| part.iter().find(|c| c.row == row && c.column == *column);
        let cells: Vec<Option<&&Compared>> = columns.iter().map(find).collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let fit = cells.iter().flatten().any(|cell| cell.fitted);
        let _ = write!(out, "<tr{}>", if fit { " class=\"fit\"" } else { "" });
        let _ = write!(out, "<td>{}{}</td>", escape(row), if fit { " (fitted)" } else { "" });
        cells.into_iter().for_each(|cell| figures(out, cell));
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn figures(out: &mut String, cell: Option<&&Compared>) {
    let Some(compared) = cell else {
        out.push_str("<td class=\"grp\"></td><td></td><td></td>");
        return;
    };
    let mark = Mark::of(compared);
    let unit = if compared.in_points { "" } else { " %" };
    let error = compared.error.map_or(String::new(), |error| signed(error, unit));
    let modelled = compared.modelled.map_or("\u{2013}".to_string(), number);
    let class = match mark {
        Mark::Miss => " class=\"miss\"",
        Mark::Within => " class=\"good\"",
        _ => "",
    };
    let symbol = if mark == Mark::Open { "" } else { mark.symbol() };
    let _ = write!(
        out,
        "<td class=\"grp\">{}</td><td>{modelled}</td><td{class}>{} {symbol}</td>",
        number(compared.published),
        escape(&error).replace(' ', "&nbsp;"),
    );
}
