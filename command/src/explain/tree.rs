//! The processes that a process has started, and theirs.

use std::collections::HashMap;

use heliostat_abi::place::Surroundings;
use serde_json::{json, Value};

use super::{asked, explained_there, own_place};
use crate::client::connect;
use crate::proc;
use crate::show::ShowError;

/// Processes of one tree that are looked at.
const PROCESSES_MAX: usize = 4096;

/// A process below another one.
pub struct Descendant {
    pid: u32,
    parent: u32,
}

/// All processes below `pid`, each after its parent; those that left for another parent (daemons)
/// are nobody's.
pub fn descendants(pid: u32) -> Vec<Descendant> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for each in proc::all() {
        if let Some(parent) = proc::parent(each) {
            children.entry(parent).or_default().push(each);
        }
    }
    let mut found = Vec::new();
    let mut left = vec![pid];
    while let Some(parent) = left.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            if found.len() < PROCESSES_MAX {
                found.push(Descendant { pid: child, parent });
                left.push(child);
            }
        }
    }
    found
}

/// What is known of each; of one without a session, why it has none.
pub fn explained(all: &[Descendant], here: &Surroundings, is_asked_for: bool) -> Value {
    let connection = connect(here);
    let each = |one: &Descendant| {
        let answer = match &connection {
            Ok(connection) => asked(one.pid, here, connection),
            Err(error) => Err(ShowError::NoPlace(error.to_string())),
        };
        let elsewhere = || own_place(one.pid, here).filter(|_| !is_asked_for);
        let answer = answer.or_else(|error| match elsewhere() {
            Some(there) => explained_there(one.pid, &there),
            None => Err(error),
        });
        let mut told = answer.unwrap_or_else(|error| {
            let why = match error {
                ShowError::NoSession { why, .. } => why,
                error => error.to_string(),
            };
            let program = proc::name(one.pid).unwrap_or_default();
            json!({ "pid": one.pid, "program": program, "no_session": why })
        });
        told["parent"] = json!(one.parent);
        told
    };
    all.iter().map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_children_come_after_their_parents() {
        let script = "sleep 60 & sleep 60 & wait";
        let shell = std::process::Command::new("sh").args(["-c", script]).spawn();
        let mut shell = shell.unwrap();
        let own = std::process::id();
        let found = loop {
            let found = descendants(own);
            if found.iter().filter(|one| one.parent == shell.id()).count() == 2 {
                break found;
            }
            std::thread::yield_now();
        };
        let place = |pid| found.iter().position(|one| one.pid == pid);
        let children = found.iter().filter(|one| one.parent == shell.id());
        for child in children {
            assert!(place(shell.id()) < place(child.pid));
            let pid = rustix::process::Pid::from_raw(child.pid as i32).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        shell.wait().unwrap();
    }
}
