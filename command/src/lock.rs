//! `heliostat lock`: locks, semaphores and barriers, from the command line.
//!
//! Asked as any program does it, through `heliostat-stub-lock`.

use std::fmt;
use std::process::ExitCode;

use heliostat_stub_lock::{Kind, ListedLock, LockError, Locks, OWN_USER};
use serde_json::{json, Value};

use crate::args::lock::{LockCommand, LockListArguments};
use crate::client::{open_session, ClientError};
use crate::show::{print, ShowError};
use crate::table::Table;

/// Why it was not done.
#[derive(Debug)]
enum LockFault {
    /// There is no control plane, or none to be trusted.
    Client(ClientError),
    /// The control plane says no.
    Lock(LockError),
    /// It could not be shown.
    Show(ShowError),
}

impl fmt::Display for LockFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Lock(error) => error.fmt(f),
            Self::Show(error) => error.fmt(f),
        }
    }
}

/// Does what the command line says.
pub fn run(command: &LockCommand) -> ExitCode {
    let LockCommand::List(arguments) = command;
    match list(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heliostat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list(arguments: &LockListArguments) -> Result<(), LockFault> {
    open_session(&arguments.format.place).map_err(LockFault::Client)?;
    let locks = Locks::open().map_err(LockFault::Lock)?;
    let locks = arguments.node.map_or(locks.clone(), |node| locks.on(node));
    let owner = arguments.owner.unwrap_or(OWN_USER);
    let listed = locks.list_of(owner, &arguments.beginning).map_err(LockFault::Lock)?;
    let text = if arguments.format.json {
        format!("{}\n", Value::Array(listed.iter().map(lock_json).collect()))
    } else {
        table(&listed)
    };
    print(&text).map_err(LockFault::Show)
}

fn lock_json(lock: &ListedLock) -> Value {
    json!({
        "name": lock.name.as_str(),
        "uid": lock.user,
        "kind": lock.shape.kind.word(),
        "count": lock.shape.count,
        "opened": lock.opened,
        "held": lock.held,
        "waiting": lock.waiting,
        "owner_died": lock.has_owner_died,
        "broken": lock.is_broken,
        "age_s": lock.age_s,
        "last": lock.last,
    })
}

fn table(locks: &[ListedLock]) -> String {
    if locks.is_empty() {
        return "there is no lock that you may see\n".to_owned();
    }
    let columns = ["name", "#uid", "kind", "#opened", "#held", "#waiting", "#age", "state"];
    let mut table = Table::new(&columns);
    for lock in locks {
        table.row([
            lock.name.as_str().to_owned(),
            lock.user.to_string(),
            kind(lock),
            lock.opened.to_string(),
            lock.held.to_string(),
            lock.waiting.to_string(),
            format!("{} s", lock.age_s),
            state(lock).to_owned(),
        ]);
    }
    table.render()
}

/// What it is, with its count where it has one.
fn kind(lock: &ListedLock) -> String {
    let word = lock.shape.kind.word();
    match lock.shape.kind {
        Kind::Lock | Kind::ReaderWriter => word.to_owned(),
        Kind::Semaphore | Kind::Barrier => format!("{word} of {}", lock.shape.count),
    }
}

fn state(lock: &ListedLock) -> &'static str {
    match (lock.is_broken, lock.has_owner_died) {
        (true, _) => "broken",
        (_, true) => "a holder died",
        _ => "-",
    }
}

#[cfg(test)]
mod tests {
    use heliostat_stub_lock::{LockId, LockName, Shape};

    use super::*;

    #[test]
    fn the_table_tells_what_each_is_and_what_is_wrong_with_it() {
        let lock = ListedLock {
            lock: LockId { index: 0, generation: 1 },
            user: 1000,
            shape: Shape::LOCK,
            opened: 2,
            held: 1,
            waiting: 1,
            has_owner_died: true,
            is_broken: false,
            age_s: 61,
            last: 7,
            name: LockName::parse("jobs/0").unwrap(),
        };
        let shape = Shape::barrier(4).unwrap();
        let barrier = ListedLock { shape, is_broken: true, held: 0, ..lock.clone() };
        let wanted = "\
            name     uid  kind          opened  held  waiting   age  state\n\
            jobs/0  1000  lock               2     1        1  61 s  a holder died\n\
            jobs/0  1000  barrier of 4       2     0        1  61 s  broken\n";
        assert_eq!(table(&[lock, barrier]), wanted);
    }
}
