//! Why transfers of delegated files took their ways, in words: the reasons with their counts.

use serde_json::Value;

use crate::table::{bytes, cell, list, Table};

/// One line for each reason of each file, and what would serve a file better; nothing where nothing was
/// transferred.
pub fn text(files: &[Value]) -> String {
    let mut table = Table::new(&["delegated file", "#times", "last", "reason"]);
    let mut is_any = false;
    for file in files {
        let mut name = cell(file, "path");
        for reason in list(file, "reasons") {
            is_any = true;
            let times = cell(reason, "count");
            let last = last_text(file, reason).to_owned();
            table.row([std::mem::take(&mut name), times, last, cell(reason, "text")]);
        }
    }
    let table = if is_any { format!("\n{}", table.render()) } else { String::new() };
    let advice: String = files.iter().filter_map(advice).collect();
    table + &advice
}

/// Whether the last read or write took its way for this reason.
fn last_text(file: &Value, reason: &Value) -> &'static str {
    let is = |last: &str| file[last].is_string() && file[last] == reason["reason"];
    match (is("last_read"), is("last_write")) {
        (true, true) => "read and write",
        (true, false) => "read",
        (false, true) => "write",
        (false, false) => "",
    }
}

/// That a program which can map would read a file without a server, and what says so.
fn advice(file: &Value) -> Option<String> {
    let mapping = file["mapping"].as_object()?;
    let number = |name: &str| mapping.get(name).and_then(Value::as_u64).unwrap_or(0);
    Some(format!(
        "{}: {} reads of at most {} were copied by a server loop, {} % of the file lies in the kernel's \
         page cache, and it is under a lease: a program that reads it by read(2) under `heliostat run` \
         reads it from a mapping\n",
        cell(file, "path"),
        number("small_reads"),
        bytes(number("of_bytes")),
        number("resident_percent"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reasons_are_listed_with_the_last_ones_marked() {
        let reasons = json!([
            { "reason": "small", "count": 3, "text": "below" },
            { "reason": "hit", "count": 9, "text": "there" },
        ]);
        let file =
            json!({ "path": "/a", "reasons": reasons, "last_read": "hit", "last_write": null });
        let text = text(&[file, json!({ "path": "/b", "reasons": [] })]);
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<_> = text.lines().map(words).collect();
        assert_eq!(lines[2..], ["/a 3 below", "9 read there"]);
        assert_eq!(super::text(&[]), "");
    }

    #[test]
    fn what_a_mapping_would_read_is_said_with_its_numbers() {
        let mapping = json!({ "small_reads": 700, "of_bytes": 32768, "resident_percent": 99 });
        let text = text(&[json!({ "path": "/a", "mapping": mapping })]);
        assert!(text.starts_with("/a: 700 reads of at most 32.0 KiB"), "{text}");
        assert!(text.contains("99 %"), "{text}");
    }
}
