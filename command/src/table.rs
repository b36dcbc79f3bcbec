//! Plain-text tables: columns as wide as their widest cell, numbers to the right.

use std::fmt::Write;

use serde_json::Value;

/// A table with a heading.
pub struct Table {
    rows: Vec<Vec<String>>,
    numeric: Vec<bool>,
}

impl Table {
    /// A table with these column names; a name that begins with `#` heads a column of numbers.
    pub fn new(columns: &[&str]) -> Self {
        let numeric = columns.iter().map(|name| name.starts_with('#')).collect();
        let heading = columns.iter().map(|name| name.trim_start_matches('#').to_owned()).collect();
        Self { rows: vec![heading], numeric }
    }

    /// Adds a row; missing cells are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as text, without blanks at the ends of lines.
    pub fn render(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.numeric.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (width, numeric)) in widths.iter().zip(&self.numeric).enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                // Writing into a String cannot fail.
                let _ = match numeric {
                    true => write!(line, "{cell:>width$}  "),
                    false => write!(line, "{cell:<width$}  "),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Bytes in the largest unit that keeps at least one digit before the point.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// What stands in a list; nothing where there is none.
pub fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A value as it stands in a cell. Texts may come from programs: nothing that acts on a terminal.
pub fn cell(value: &Value, key: &str) -> String {
    match &value[key] {
        Value::String(text) => text.chars().filter(|c| is_printable(*c)).collect(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Neither a control character nor one that is not seen, as those are that turn a line round.
fn is_printable(c: char) -> bool {
    matches!(c, '\'' | '"' | '\\') || c.escape_debug().len() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_at_their_text() {
        let mut table = Table::new(&["name", "#bytes"]);
        table.row(["a".into(), "10".into()]);
        table.row(["longer".into()]);
        assert_eq!(table.render(), "name    bytes\na          10\nlonger\n");
    }

    #[test]
    fn texts_of_programs_do_not_act_on_a_terminal() {
        let value =
            serde_json::json!({ "a": "it's \"\u{e9}\" \u{1b}[2J\u{202e}x\u{9b}\u{2028}y\\" });
        assert_eq!(cell(&value, "a"), "it's \"\u{e9}\" [2Jxy\\");
    }

    #[test]
    fn bytes_are_shown_in_their_unit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
    }
}
