//! Classes of calls between nodes, as people read them: `heliostat cluster list` and `explain`.

use serde_json::Value;

use crate::table::{bytes, cell, Table};

/// How each class fares on the way to each node; nothing where all calls are one class.
pub fn classes_text(cluster: &Value) -> String {
    let quality = &cluster["quality"];
    let Some(ways) = quality["ways"].as_object().filter(|ways| !ways.is_empty()) else {
        return String::new();
    };
    let is = |key: &str| quality[key].as_bool() == Some(true);
    let scheme = match (is("separate"), is("back_off")) {
        (true, true) => "separate resources, back-off",
        (false, true) => "back-off",
        _ => "separate resources",
    };
    let mut table = Table::new(&[
        "#to node",
        "class",
        "#calls",
        "#bytes",
        "#waited",
        "#under way",
        "#waiting",
        "#served",
        "pace",
        "#a second",
    ]);
    for (node, way) in ways {
        for class in ["high", "normal", "low"] {
            let counts = &way[class];
            let (pace, rate) = if class == "low" { pace_of(way) } else { Default::default() };
            table.row([
                node.clone(),
                class.to_owned(),
                cell(counts, "calls"),
                bytes(counts["bytes"].as_u64().unwrap_or(0)),
                cell(counts, "waited"),
                cell(counts, "under_way"),
                cell(counts, "waiting"),
                cell(counts, "served"),
                pace,
                rate,
            ]);
        }
    }
    format!("\nclasses of calls ({scheme}):\n{}", table.render())
}

/// How fast low calls may be, and why.
fn pace_of(way: &Value) -> (String, String) {
    let rate = way["low_bytes_per_second"].as_u64().map_or("any".to_owned(), bytes);
    (cell(way, "pace"), rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn classes_are_a_line_each_and_nothing_where_there_is_one() {
        let counts = json!({ "calls": 7, "bytes": 2048, "waited": 1, "under_way": 2, "waiting": 3, "served": 4 });
        let way = json!({
            "high": counts, "normal": counts, "low": counts,
            "pace": "late", "low_bytes_per_second": 1 << 20,
        });
        let cluster = json!({
            "quality": { "separate": true, "back_off": true, "ways": { "2": way } },
        });
        let text = classes_text(&cluster);
        assert!(text.contains("(separate resources, back-off)"), "{text}");
        let low = text.lines().last().unwrap();
        assert!(low.contains("low") && low.contains("late") && low.contains("1.0 MiB"), "{text}");
        assert_eq!(
            (text.lines().count(), classes_text(&json!({ "quality": null }))),
            (6, String::new())
        );
    }
}
