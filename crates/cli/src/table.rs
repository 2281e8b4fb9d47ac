//! Formats rows of text under a head: text aligned to the left, numbers to the right.

use std::fmt::Write;

/// Formats `rows` under `head`. A column has numbers if every cell of it starts with a digit or a sign or is empty.
pub(crate) fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    let columns: Vec<(usize, bool)> = (0..head.len())
        .map(|column| {
            let cells = rows.iter().map(|row| cell(row, column));
            let width = cells.clone().map(|text| text.chars().count()).max().unwrap_or(0);
            let numbers =
                cells.clone().all(|text| text.is_empty() || text.starts_with(|c: char| "0123456789-+".contains(c)));
            (width.max(head[column].chars().count()), numbers)
        })
        .collect();
    let mut text = String::new();
    let rule: Vec<String> = columns.iter().map(|(width, _)| "─".repeat(*width)).collect();
    for row in [head, &rule].into_iter().chain(rows.iter().map(Vec::as_slice)) {
        let mut line = String::new();
        for (column, &(width, numbers)) in columns.iter().enumerate() {
            let text = cell(row, column);
            let _ = if numbers { write!(line, "{text:>width$}  ") } else { write!(line, "{text:<width$}  ") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned_right_and_text_left() {
        let row = |cells: &[&str]| cells.iter().map(ToString::to_string).collect::<Vec<_>>();
        let text = table(&row(&["scheme", "ms"]), &[row(&["pcp", "9"]), row(&["tcp", "120"])]);
        assert_eq!(text, "scheme   ms\n──────  ───\npcp       9\ntcp     120\n");
    }
}
