//! Devices of delegated files in words: the threshold of each, what was measured, and the load's rule.

use serde_json::Value;

use crate::table::{bytes, cell, list, Table};

/// One line for each device, and what was measured of it; nothing where there is none.
pub fn text(devices: &[Value], rule: &Value) -> String {
    if devices.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["device", "to the device from", "in force", "#under way", "why"]);
    for device in devices {
        table.row([
            cell(device, "device"),
            size(&device["direct_from_bytes"]),
            size(&device["in_force_bytes"]),
            cell(device, "under_way"),
            why_text(device),
        ]);
    }
    let measured: String = devices.iter().map(measured_text).collect();
    format!("\n{}{measured}{}", table.render(), load_text(&rule["load"]))
}

/// Blocks that were read ahead of sessions that come to a file, and what became of them.
pub fn ahead_text(delegated: &Value) -> String {
    match delegated["blocks_ahead"].as_u64() {
        None | Some(0) => String::new(),
        Some(ahead) => format!(
            "files that are read in one order: {ahead} blocks were read ahead of the session that came \
             next, {} were there when it came\n",
            delegated["blocks_ahead_found"].as_u64().unwrap_or(0),
        ),
    }
}

fn size(value: &Value) -> String {
    value.as_u64().map_or("never".into(), bytes)
}

fn why_text(device: &Value) -> String {
    let full = if device["is_full"] == true { "; doubled while it is full" } else { "" };
    let node = match device["node"].as_u64() {
        Some(node) => {
            format!("; on node {node}, from other nodes at {}", size(&device["in_force_far_bytes"]))
        }
        None => String::new(),
    };
    format!("{}{full}{node}", cell(device, "why"))
}

/// `measured 8:1, us per read, direct/filled: 64.0 KiB 40/35, ...`
fn measured_text(device: &Value) -> String {
    let samples = list(device, "measured");
    if samples.is_empty() {
        return String::new();
    }
    let us = |sample: &Value, name: &str| sample[name].as_u64().unwrap_or(0) as f64 / 1000.0;
    let one = |sample: &Value| {
        let (direct, filled) = (us(sample, "direct_ns"), us(sample, "filled_ns"));
        format!("{} {direct:.0}/{filled:.0}", size(&sample["bytes"]))
    };
    let each: Vec<_> = samples.iter().map(one).collect();
    format!(
        "measured of {}, us for a read past the caches/through the cache: {} ({} in {:.0} ms)\n",
        cell(device, "device"),
        each.join(", "),
        size(&device["measured_bytes"]),
        us(device, "measured_ns") / 1000.0,
    )
}

/// How loads move thresholds.
fn load_text(load: &Value) -> String {
    if !load.is_object() {
        return String::new();
    }
    format!(
        "load: a device with {} reads past the caches under way and more has twice its threshold, a \
         loop whose time goes to copies by {} % half of it, from {} to {}\n",
        cell(load, "full_from_reads"),
        cell(load, "copying_from_percent"),
        size(&load["direct_from_bytes_min"]),
        size(&load["direct_from_bytes_max"]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_device_has_a_line_with_its_threshold_and_why() {
        let measured = json!([{ "bytes": 65536, "direct_ns": 40_000, "filled_ns": 35_400 }]);
        let devices = [
            json!({
                "device": "8:1", "direct_from_bytes": 131072, "in_force_bytes": 262144,
                "under_way": 40, "is_full": true, "node": 1, "in_force_far_bytes": 524288,
                "why": "measured", "measured": measured,
                "measured_bytes": 1048576, "measured_ns": 2_000_000,
            }),
            json!({
                "device": "0:9", "direct_from_bytes": null, "in_force_bytes": null, "under_way": 0,
                "why": "the fixed threshold: its files lie in memory",
            }),
        ];
        let text = text(&devices, &json!({}));
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<_> = text.lines().map(words).collect();
        let why = "measured; doubled while it is full; on node 1, from other nodes at 512.0 KiB";
        assert_eq!(lines[2], format!("8:1 128.0 KiB 256.0 KiB 40 {why}"));
        assert_eq!(lines[3], "0:9 never never 0 the fixed threshold: its files lie in memory");
        assert!(lines[4].ends_with("64.0 KiB 40/35 (1.0 MiB in 2 ms)"), "{text}");
        assert_eq!(super::text(&[], &json!({})), "");
    }

    #[test]
    fn blocks_that_were_read_ahead_are_told_where_there_were_any() {
        assert_eq!(ahead_text(&json!({ "blocks_ahead": 0 })), "");
        let told = ahead_text(&json!({ "blocks_ahead": 20, "blocks_ahead_found": 16 }));
        assert!(told.contains("20 blocks") && told.contains("16 were there"), "{told}");
    }
}
