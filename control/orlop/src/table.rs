//! Rows under a head, for people.

use std::fmt::Write;

/// Pads cells to columns; nothing without rows.
pub fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head = head.map(str::to_owned);
    let mut widths = [0; N];
    for row in rows.iter().chain([&head]) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in [&head].into_iter().chain(rows) {
        text.push_str(&line(row, widths));
        text.push('\n');
    }
    text
}

/// One row, its cells as wide as that at least.
pub fn line<const N: usize>(row: &[String; N], widths: [usize; N]) -> String {
    let mut line = String::new();
    for (cell, width) in row.iter().zip(widths) {
        // Writing to a string does not fail.
        let _ = write!(line, "{cell:width$}  ");
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
        let text = table(["A", "LONG"], &[row("xyz", "1"), row("", "2")]);
        assert_eq!(text, "A    LONG\nxyz  1\n     2\n");
        assert_eq!(table(["A"], &[]), "");
    }
}
