//! Delegated operations in words: what the server loops have done, and how each open file is served.

mod devices;
mod reasons;

use serde_json::Value;

use crate::table::{bytes, cell, list, Table};

const WAYS: [&str; 4] = ["cached", "filled", "direct", "kernel"];

/// For status: one paragraph and a table of loops; nothing where nobody has asked for one.
pub fn status_text(status: &Value) -> String {
    let delegated = &status["delegated"];
    if !delegated.is_object() {
        return String::new();
    }
    let number = |name: &str| delegated[name].as_u64().unwrap_or(0);
    let way = |way: &&str| {
        let sum = bytes(number(&format!("bytes_{way}")));
        format!("{way} {} ({sum})", number(&format!("transfers_{way}")))
    };
    let ways: Vec<_> = WAYS.iter().map(way).collect();
    format!(
        "\ndelegated: {} sessions; transfers: {}; {} failed; cache {} of {}\n{}{}{}{}",
        number("sessions"),
        ways.join(", "),
        number("failed"),
        bytes(number("cache_bytes")),
        bytes(number("cache_bytes_max")),
        loops_text(delegated),
        devices::ahead_text(delegated),
        devices::text(list(delegated, "devices"), &delegated["rule"]),
        rule_text(&delegated["rule"]),
    )
}

/// One line for each server loop.
fn loops_text(delegated: &Value) -> String {
    let loops = list(delegated, "loops");
    if loops.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["server loop", "core", "#sessions", "#operations", "#sleeps"]);
    for (number, one) in loops.iter().enumerate() {
        let counted = |name: &str| cell(one, name);
        table.row([
            number.to_string(),
            core_text(one),
            counted("sessions"),
            counted("operations"),
            counted("sleeps"),
        ]);
    }
    let by = match delegated["requests"].as_str() {
        Some("threads") => "the kernel gives no io_uring: threads make the loops' requests\n",
        _ => "",
    };
    format!("{}{by}", table.render())
}

/// The core that a loop has for itself.
fn core_text(one: &Value) -> String {
    one["core"].as_u64().map_or("shared".into(), |core| core.to_string())
}

/// For explain: one line for each file that is open for delegated operations.
pub fn explain_text(explained: &Value) -> String {
    let loops = list(explained, "delegated_loops").iter().map(|one| {
        let (session, number) = (cell(one, "session"), cell(one, "loop"));
        format!("\ndelegating session {session}: server loop {number}, core {}\n", core_text(one))
    });
    let loops: String = loops.collect();
    let files = list(explained, "delegated");
    if files.is_empty() {
        return loops;
    }
    let mut table = Table::new(&["delegated file", "#reads and writes", "way", "#bytes", "why"]);
    for file in files {
        let taken = file["ways"].as_object().into_iter().flatten();
        let mut name = cell(file, "path");
        let mut why = cell(file, "why");
        if let Some(reads @ 1..) = file["followed"].as_u64() {
            why += &format!("; {reads} large reads filled the cache for a session behind this one");
        }
        for (way, counted) in taken {
            let sum = bytes(counted["bytes"].as_u64().unwrap_or(0));
            let (name, why) = (std::mem::take(&mut name), std::mem::take(&mut why));
            table.row([name, cell(counted, "transfers"), way.clone(), sum, why]);
        }
        if !name.is_empty() {
            table.row([name, "0".into(), String::new(), bytes(0), why]);
        }
    }
    let rule = &explained["delegated_rule"];
    format!(
        "{loops}\n{}{}{}{}",
        table.render(),
        reasons::text(files),
        devices::text(list(explained, "delegated_devices"), rule),
        rule_text(rule),
    )
}

/// Which threshold decides about what.
fn rule_text(rule: &Value) -> String {
    let size = |name: &str| bytes(rule[name].as_u64().unwrap_or(0));
    format!(
        "rule: reads of the device's threshold ({} where it is the fixed one) and more, in multiples of \
         {}, go to the device unless they begin in the cache, the file was opened buffered, or another \
         session reads behind; others are read by blocks of {}, up to {} blocks ahead, where a lease \
         says that nobody writes\n",
        size("direct_from_bytes"),
        size("direct_grain_bytes"),
        size("block_bytes"),
        cell(rule, "ahead_blocks"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_way_of_a_file_has_a_line_and_the_file_is_named_once() {
        let ways = json!({
            "cached": { "transfers": 3, "bytes": 12288 },
            "kernel": { "transfers": 1, "bytes": 10 },
        });
        let rule = json!({
            "direct_from_bytes": 262144, "direct_grain_bytes": 4096, "block_bytes": 65536,
            "ahead_blocks": 32,
        });
        let files = json!([
            { "path": "/a\nb", "ways": ways, "why": "a writer came", "followed": 2 },
            { "path": "/c", "ways": {}, "why": "empty" },
        ]);
        let text = explain_text(&json!({ "delegated": files, "delegated_rule": rule }));
        let lines: Vec<_> = text.lines().collect();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words(lines[2]),
            "/ab 3 cached 12.0 KiB a writer came; 2 large reads \
             filled the cache for a session behind this one"
        );
        assert_eq!(words(lines[3]), "1 kernel 10 B");
        assert_eq!(words(lines[4]), "/c 0 0 B empty");
        assert!(lines[5].starts_with("rule: reads of the device's threshold (256.0 KiB"), "{text}");
        assert_eq!(explain_text(&json!({})), "");
    }

    #[test]
    fn loops_are_shown_with_their_cores_and_sessions() {
        let loops = json!([
            { "core": 3, "sessions": 2, "operations": 70, "sleeps": 1 },
            { "core": null, "sessions": 0, "operations": 0, "sleeps": 9 },
        ]);
        let text = status_text(&json!({ "delegated": { "loops": loops } }));
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<_> = text.lines().map(words).collect();
        assert!(lines.contains(&"0 3 2 70 1".to_owned()), "{text}");
        assert!(lines.contains(&"1 shared 0 0 9".to_owned()), "{text}");
        let one = json!([{ "session": "4.1", "loop": 1, "core": null }]);
        let text = explain_text(&json!({ "delegated_loops": one }));
        assert_eq!(text, "\ndelegating session 4.1: server loop 1, core shared\n");
    }

    #[test]
    fn status_says_nothing_of_a_loop_that_nobody_has_asked_for() {
        assert_eq!(status_text(&json!({ "delegated": null })), "");
        let status = json!({ "delegated": { "sessions": 2, "transfers_cached": 5 } });
        assert!(status_text(&status).contains("2 sessions; transfers: cached 5 (0 B)"));
    }
}
