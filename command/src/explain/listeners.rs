//! The shared listeners that a process works for, as people read it: its part, and that of the others.

use serde_json::Value;

use crate::table::{cell, list};

/// Other workers that are told one by one.
const OTHERS_MAX: usize = 8;

/// One paragraph for each listener.
pub fn explain_text(listeners: &Value) -> String {
    listeners.as_array().into_iter().flatten().map(listener_text).collect()
}

fn listener_text(listener: &Value) -> String {
    let (own, others): (Vec<&Value>, Vec<&Value>) =
        list(listener, "workers").iter().partition(|it| it["is_its"].as_bool() == Some(true));
    let mut text = format!(
        "\nshared listener {} by {}, of {} workers\n",
        cell(listener, "address"),
        cell(listener, "rule"),
        own.len() + others.len(),
    );
    own.into_iter().for_each(|worker| text.push_str(&own_text(worker)));
    if !others.is_empty() {
        text.push_str(&others_text(&others));
    }
    text
}

fn number(worker: &Value, key: &str) -> u64 {
    worker[key].as_u64().unwrap_or(0)
}

fn own_text(worker: &Value) -> String {
    let mut text = format!(
        "  this process: place {}, {}; got {} connections, {} of them not taken yet; load {} ({} open, {})",
        cell(worker, "place"),
        standing(worker),
        number(worker, "given"),
        number(worker, "untaken"),
        number(worker, "load"),
        number(worker, "connections"),
        counted_by(worker),
    );
    for (key, words) in [("passed_over", "passed over"), ("lies", "its word found wrong")] {
        match number(worker, key) {
            0 => {}
            times => text.push_str(&format!("; {words} {times} times")),
        }
    }
    text + "\n"
}

/// Whether connections go to it.
fn standing(worker: &Value) -> &str {
    match worker["state"].as_str() {
        Some("joined") => "it has not waited for a connection yet",
        Some(word) => word,
        None => "gone",
    }
}

/// Whose count its load is.
fn counted_by(worker: &Value) -> &'static str {
    let is = |key: &str| worker[key].as_bool() == Some(true);
    match (is("believed"), is("counted")) {
        (true, true) => "by its own count, which the kernel's corrects",
        (true, false) => "by its own count alone",
        (false, _) => "by the kernel's count alone: it has said what was not so",
    }
}

fn others_text(others: &[&Value]) -> String {
    let all: u64 = others.iter().map(|it| number(it, "given")).sum();
    let each = |it: &&Value| {
        let (place, standing) = (cell(it, "place"), cell(it, "state"));
        format!(
            "place {place} got {} (load {}, {standing})",
            number(it, "given"),
            number(it, "load")
        )
    };
    let told: Vec<String> = others.iter().take(OTHERS_MAX).map(each).collect();
    let mut text = format!("  the others got {all} connections: {}", told.join(", "));
    if others.len() > OTHERS_MAX {
        text.push_str(&format!(", and {} workers more", others.len() - OTHERS_MAX));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn worker(place: u32, is_its: bool, given: u64) -> Value {
        json!({
            "place": place, "is_its": is_its, "state": "ready", "given": given, "untaken": 1, "load": 2,
            "connections": 2, "believed": true, "counted": true, "passed_over": 0, "lies": 0,
        })
    }

    #[test]
    fn the_part_of_a_process_is_told_beside_that_of_the_others() {
        let workers = [worker(0, false, 7), worker(1, true, 9)];
        let told = json!([{ "address": "127.0.0.1:80", "rule": "least-load", "workers": workers }]);
        let wanted = "\nshared listener 127.0.0.1:80 by least-load, of 2 workers\n  \
            this process: place 1, ready; got 9 connections, 1 of them not taken yet; load 2 (2 open, \
            by its own count, which the kernel's corrects)\n  \
            the others got 7 connections: place 0 got 7 (load 2, ready)\n";
        assert_eq!(explain_text(&told), wanted);
        assert_eq!(explain_text(&json!([])), "");
    }

    #[test]
    fn a_worker_that_was_found_wrong_or_slow_hears_of_it() {
        let mut worker = worker(0, true, 9);
        worker["believed"] = json!(false);
        worker["passed_over"] = json!(3);
        let told = own_text(&worker);
        assert!(told.contains("by the kernel's count alone"), "{told}");
        assert!(told.ends_with("; passed over 3 times\n"), "{told}");
    }

    #[test]
    fn of_many_others_some_are_told_and_all_are_counted() {
        let workers: Vec<Value> = (0..12).map(|place| worker(place, place == 0, 5)).collect();
        let told = listener_text(&json!({ "workers": workers }));
        assert!(told.contains("the others got 55 connections"), "{told}");
        assert!(told.ends_with(", and 3 workers more\n"), "{told}");
    }
}
