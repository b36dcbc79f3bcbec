//! Where the executors of a process run, and whether that is where they were to run.
//!
//! The kernel tells: an executor is a thread with a name of its own, and the cores that were asked for
//! stand in the environment that the program was started with. A cpuset without such a core is no
//! reason to fail, but one to be told.

use std::fs;

use heliostat_abi::cores::CpuMask;
use heliostat_abi::place::{OFFLOAD_CORES_VARIABLE, OFFLOAD_VARIABLE};
use serde_json::{json, Value};

use crate::proc;
use crate::table::{cell, list};

/// The name of an executor among a process's threads.
const NAME: &str = "heliostat-exec";
/// Threads of a process that are looked at.
const THREADS_MAX: usize = 65_536;

/// Adds the executors of a process that asks for call offload.
pub fn name_them(explained: &mut Value, pid: u32) {
    if proc::variable(pid, OFFLOAD_VARIABLE).is_none() {
        return;
    }
    let wanted = proc::variable(pid, OFFLOAD_CORES_VARIABLE).unwrap_or_default();
    let wanted = wanted.to_string_lossy().into_owned();
    let each = executors(pid).map(|(thread, runs_on)| {
        let is_displaced = !wanted.is_empty() && !is_among(&runs_on, &wanted);
        json!({ "thread": thread, "runs_on": runs_on, "is_displaced": is_displaced })
    });
    explained["executors"] = each.collect();
    explained["executors_wanted"] = json!(wanted);
}

/// Each executor of a process, and the cores on which it may run.
fn executors(pid: u32) -> impl Iterator<Item = (u32, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.take(THREADS_MAX).filter_map(|task| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let status = (name.trim_end() == NAME).then(|| task.path().join("status"))?;
        let status = fs::read_to_string(status).ok()?;
        let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some((task.file_name().to_str()?.parse().ok()?, cores.trim().to_owned()))
    })
}

/// Whether an executor runs on cores that were asked for, and nowhere else.
fn is_among(runs_on: &str, wanted: &str) -> bool {
    let (Ok(on), Ok(wanted)) = (CpuMask::parse(runs_on), CpuMask::parse(wanted)) else {
        return false;
    };
    on.intersection(&wanted) == on
}

/// A line for each executor.
pub fn explain_text(explained: &Value) -> String {
    let wanted = cell(explained, "executors_wanted");
    let line = |executor: &Value| {
        let on = cell(executor, "runs_on");
        match executor["is_displaced"].as_bool() {
            Some(true) => format!(
                "executor on cores {on}: those that were asked for ({wanted}) are not this process's to use\n"
            ),
            _ => format!("executor on cores {on}\n"),
        }
    };
    list(explained, "executors").iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executor_that_is_elsewhere_is_told_and_one_in_its_place_too() {
        let told = json!({ "executors_wanted": "3,7", "executors": [
            { "thread": 5, "runs_on": "1", "is_displaced": true },
            { "thread": 6, "runs_on": "7", "is_displaced": false },
        ]});
        let wanted =
            "executor on cores 1: those that were asked for (3,7) are not this process's to use\n\
            executor on cores 7\n";
        assert_eq!(explain_text(&told), wanted);
        assert_eq!(explain_text(&json!({})), "");
    }

    #[test]
    fn only_cores_that_were_asked_for_are_its_place() {
        assert!(is_among("7", "3,7") && is_among("3,7", "7,3"));
        assert!(!is_among("0-1", "1") && !is_among("", "x") && !is_among("0", "8192"));
    }
}
