//! An explanation as people read it.

use std::collections::BTreeMap;

use heliostat_abi::code::{Native, Unheld, Unlogged, Unmapped, Unoffloaded};
use serde_json::Value;

use super::{executors, listeners, offload};
use crate::quality::classes_text;
use crate::table::{bytes, cell, list, Table};
use crate::{delegated, store};

/// What a sealed program asked for in vain.
fn refused_text(explained: &Value) -> String {
    let Some(refused) = explained["refused"].as_array() else { return String::new() };
    if refused.is_empty() {
        return "sealed; nothing was refused\n".to_owned();
    }
    let line = |refused: &Value| {
        let clean = refused.as_str().unwrap_or_default().replace(char::is_control, "?");
        format!("refused, being sealed: {clean}\n")
    };
    refused.iter().map(line).collect()
}

/// How the control plane begins a reason that it has from the other end.
const AT_OTHER_END: &str = "at the other end: ";

/// The whole explanation, that of descendants included where it was asked for.
pub fn explain_text(explained: &Value) -> String {
    let mut text = process_text(explained);
    text.push_str(&classes_text(&explained["cluster"]));
    let count = explained["descendant_count"].as_u64().unwrap_or(0);
    match explained["descendants"].as_array() {
        None if count > 0 => text.push_str(&format!(
            "\n{count} process(es) started by it and by these: --tree shows them\n"
        )),
        None => {}
        Some(all) => all.iter().for_each(|one| text.push_str(&format!("\n{}", process_text(one)))),
    }
    text
}

/// Who it is: the program, its process, and its parent and control plane where these are of interest.
fn heading(explained: &Value) -> String {
    let mut text = format!("{} ({})", cell(explained, "program"), cell(explained, "pid"));
    if !explained["parent"].is_null() {
        text.push_str(&format!(", started by {}", cell(explained, "parent")));
    }
    if !explained["control_plane"].is_null() {
        text.push_str(&format!(", control plane {}", cell(explained, "control_plane")));
    }
    text
}

/// Who is at the other end, as far as that is known.
fn other_end(connection: &Value) -> String {
    let name = |one: &Value| match one["pid"].is_null() {
        true => "another user's".to_owned(),
        false => format!("{} ({})", cell(one, "program"), cell(one, "pid")),
    };
    let mut names: Vec<_> = list(connection, "peers").iter().map(name).collect();
    if connection["outside"].is_object() {
        names.push(name(&connection["outside"]));
    }
    names.dedup();
    names.join(", ")
}

fn connections_text(connections: &[Value]) -> String {
    if connections.is_empty() {
        return "no connections now\n".to_owned();
    }
    let columns =
        ["#fd", "role", "local", "peer", "other end", "path", "#received", "#sent", "reason"];
    let mut table = Table::new(&columns);
    for connection in connections {
        let accepted = connection["accepted"].as_bool().unwrap_or(false);
        table.row([
            cell(connection, "fd"),
            if accepted { "accepted" } else { "connected" }.to_owned(),
            cell(connection, "local"),
            cell(connection, "peer"),
            other_end(connection),
            cell(connection, "path"),
            bytes(connection["received"].as_u64().unwrap_or(0)),
            bytes(connection["sent"].as_u64().unwrap_or(0)),
            cell(connection, "reason_text"),
        ]);
    }
    table.render()
}

fn process_text(explained: &Value) -> String {
    if let Some(why) = explained["no_session"].as_str() {
        let clean: String = why.chars().filter(|c| !c.is_control()).collect();
        return format!("{}: no session: {clean}\n", heading(explained));
    }
    let mut text = format!("{}\n\n", heading(explained));
    if let Some(why) = explained["native_as_a_whole"].as_str().and_then(native_words) {
        text.push_str(&format!("native as a whole: {why}\n"));
    }
    text.push_str(&connections_text(list(explained, "connections")));
    let counted = explained["counters"].as_object().into_iter().flatten();
    let counted = counted.filter(|(_, value)| value.as_u64().unwrap_or(0) > 0);
    let counted: Vec<_> =
        counted.map(|(name, value)| format!("{}: {value}", name.replace('_', " "))).collect();
    if !counted.is_empty() {
        text.push_str(&format!("\nsince its start: {}\n", counted.join(", ")));
    }
    text.push_str(&reasons_text("native", &explained["reasons"], native_words));
    text.push_str(&told_by_others(list(explained, "connections")));
    text.push_str(&listeners::explain_text(&explained["shared_listeners"]));
    text.push_str(&files_text(explained));
    text.push_str(&offload::groups_text(&explained["offloaded"]));
    text.push_str(&executors::explain_text(explained));
    text.push_str(&reasons_text(
        "call made plainly",
        &explained["unoffloaded_reasons"],
        unoffloaded_words,
    ));
    text.push_str(&delegated::explain_text(explained));
    text.push_str(&store::explain_text(explained));
    text.push_str(&cores_text(&explained["cores"]));
    text.push_str(&network_text(&explained["network"]));
    text.push_str(&sockets_text(list(explained, "sockets")));
    text.push_str(&refused_text(explained));
    text
}

/// Who has the sockets of each session that could have them delegated, and why.
fn sockets_text(sessions: &[Value]) -> String {
    sessions.iter().map(|one| format!("\nsockets: {}\n", cell(one, "why"))).collect()
}

/// Where it runs, while cores are parted.
fn cores_text(cores: &Value) -> String {
    if cores.is_null() {
        return String::new();
    }
    let (place, runs_on) = (cell(cores, "place"), cell(cores, "runs_on"));
    let partition = cell(cores, "partition");
    format!("\ncores: runs on {runs_on} ({place}), parted: {partition}\n")
}

/// Whether connections to remote peers are carried, and why so.
fn network_text(network: &Value) -> String {
    let Some(is_on) = network["on"].as_bool() else { return String::new() };
    let state = if is_on { "on" } else { "off" };
    let mut text = format!("\nnetwork service: {state}, since {}", cell(network, "why"));
    if let (Some(stack), Some(line)) = (network["stack_ns"].as_u64(), network["line_ns"].as_u64()) {
        text.push_str(&format!(" (a message by TCP {stack} ns, a line between cores {line} ns)"));
    }
    text.push('\n');
    for full in list(network, "full") {
        let (said, count) = (cell(full, "text"), cell(full, "count"));
        text.push_str(&format!("network service: {said}, {count} times left to the kernel\n"));
    }
    text
}

/// What the other ends say of connections that are native for a reason of theirs, and are open now.
fn told_by_others(connections: &[Value]) -> String {
    let mut counts = BTreeMap::new();
    for text in connections.iter().filter_map(|one| one["reason_text"].as_str()) {
        if text.starts_with(AT_OTHER_END) {
            *counts.entry(text).or_insert(0) += 1;
        }
    }
    let line = |(text, count): (&str, u64)| format!("of these {count} open ones: {text}\n");
    counts.into_iter().map(line).collect()
}

fn native_words(name: &str) -> Option<&'static str> {
    Native::ALL.iter().find(|reason| format!("{reason:?}") == name).map(|it| it.text())
}

fn unoffloaded_words(name: &str) -> Option<&'static str> {
    Unoffloaded::ALL.iter().find(|reason| format!("{reason:?}") == name).map(|it| it.text())
}

/// Which files are under a lease now, and why the reads of others, closed ones included, stayed or
/// became the kernel's.
fn files_text(explained: &Value) -> String {
    let files = list(explained, "files").iter().filter_map(Value::as_str);
    let mut text: String = files.map(|path| format!("file under a lease: {path:?}\n")).collect();
    text.push_str(&reasons_text("file read by the kernel", &explained["file_reasons"], |name| {
        Unmapped::ALL.iter().find(|reason| format!("{reason:?}") == name).map(|it| it.text())
    }));
    text.push_str(&reasons_text(
        "durable flush waited for",
        &explained["unheld_reasons"],
        |name| Unheld::ALL.iter().find(|reason| format!("{reason:?}") == name).map(|it| it.text()),
    ));
    text.push_str(&reasons_text(
        "durable flush of the file, not its log,",
        &explained["unlogged_reasons"],
        |name| {
            Unlogged::ALL.iter().find(|reason| format!("{reason:?}") == name).map(|it| it.text())
        },
    ));
    text
}

/// Why something, closed ones included, was or went native: one line for each reason.
fn reasons_text(
    what: &str,
    reasons: &Value,
    words: impl Fn(&str) -> Option<&'static str>,
) -> String {
    let counted = reasons.as_object().into_iter().flatten();
    let line = |(name, count): (&String, &Value)| {
        format!("{what} {count} times: {}\n", words(name).unwrap_or("an unknown reason"))
    };
    counted.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_explanation_shows_path_bytes_and_reason() {
        let explained = json!({
            "pid": 7, "program": "re\u{1b}dis", "counters": {"direct_streams": 1, "bells": 0},
            "connections": [{
                "fd": 5, "local": "127.0.0.1:9", "peer": "127.0.0.1:8", "path": "native",
                "reason": "NotLocal", "reason_text": "the other end is on another machine",
                "accepted": false, "received": 2048, "sent": 1,
                "peers": [{ "pid": 8, "program": "cu\u{1b}rl" }],
            }],
        });
        let wanted = "redis (7)\n\n\
            fd  role       local        peer         other end  path    received  sent  reason\n \
            5  connected  127.0.0.1:9  127.0.0.1:8  curl (8)   native   2.0 KiB   1 B  \
            the other end is on another machine\n\n\
            since its start: direct streams: 1\n";
        assert_eq!(explain_text(&explained), wanted);
    }

    #[test]
    fn refusals_of_a_sealed_program_are_explained() {
        let explained = json!({ "refused": ["connect: x\ny"] });
        assert_eq!(refused_text(&explained), "refused, being sealed: connect: x?y\n");
        assert_eq!(refused_text(&json!({ "refused": [] })), "sealed; nothing was refused\n");
        assert_eq!(refused_text(&json!({})), "");
    }

    #[test]
    fn files_are_explained_in_words() {
        let explained = json!({ "files": ["/a\nb"], "file_reasons": { "Written": 2 } });
        let wanted = "file under a lease: \"/a\\nb\"\n\
            file read by the kernel 2 times: somebody has it open for writing\n";
        assert_eq!(files_text(&explained), wanted);
    }

    #[test]
    fn descendants_follow_and_say_why_they_have_no_session() {
        let below = json!({ "pid": 8, "parent": 7, "program": "go", "no_session": "static\n" });
        let counted = json!({ "pid": 7, "program": "sh", "descendant_count": 1 });
        assert!(explain_text(&counted).ends_with("--tree shows them\n"));
        let mut whole = counted;
        whole["descendants"] = json!([below]);
        let wanted = "sh (7)\n\nno connections now\n\ngo (8), started by 7: no session: static\n";
        assert_eq!(explain_text(&whole), wanted);
    }
}
