//! Why a process has no session: by what the kernel shows of it.
//!
//! `heliostat run` leaves traces that last as long as a program runs: its environment names the
//! control plane, its mappings hold the stub, and the report page once there was a session.

use std::fmt;
use std::path::{Path, PathBuf};

use heliostat_abi::place::{DIRECT_VARIABLE, SOCKET_VARIABLE};

use crate::proc;
use crate::program::{self, Uncovered};
use crate::stub::STUB;

/// Name of the report's memory in a list of mappings.
const REPORT: &[u8] = b"memfd:heliostat-report";

/// Why a process has no session with a control plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cause {
    /// No such process.
    Gone,
    /// Another user's, and not ours to see.
    Hidden {
        /// That user.
        uid: u32,
    },
    /// Never started with `heliostat run`, nor by a program that was.
    NeverUnder,
    /// Under it, and native as a whole.
    Uncovered(Uncovered),
    /// As that, but no reason is known for its loader not to take the stub.
    NotLoaded,
    /// Switched off by option.
    SwitchedOff,
    /// Its control plane is another one.
    Elsewhere(PathBuf),
    /// It had one.
    Ended,
    /// It has not needed one.
    NotYet,
}

impl Cause {
    /// Why `pid` has no session with the control plane that serves `socket`.
    pub fn of(pid: u32, socket: &Path) -> Self {
        let Some(uid) = proc::user(pid) else { return Self::Gone };
        if !proc::is_open(pid) {
            return Self::Hidden { uid };
        }
        let Some(named) = proc::variable(pid, SOCKET_VARIABLE) else { return Self::NeverUnder };
        if !proc::maps(pid, STUB.as_bytes()) {
            // Without a stub that variable alone says little: a person may have set it.
            return match proc::variable(pid, "LD_PRELOAD").is_some_and(|list| names_stub(&list)) {
                true => Self::not_loaded(pid),
                false => Self::NeverUnder,
            };
        }
        if !is_same(Path::new(&named), socket) {
            return Self::Elsewhere(named.into());
        }
        let inherited = proc::parent(pid).map(|parent| proc::inodes(parent, REPORT));
        let inherited = inherited.unwrap_or_default();
        // A forked child has its parent's page in its memory, and none of its own yet.
        match proc::inodes(pid, REPORT).iter().any(|inode| !inherited.contains(inode)) {
            true => Self::Ended,
            false if proc::variable(pid, DIRECT_VARIABLE).is_some_and(|value| value == "0") => {
                Self::SwitchedOff
            }
            false => Self::NotYet,
        }
    }

    fn not_loaded(pid: u32) -> Self {
        match proc::program(pid).map(|program| program::judge(&program)) {
            Some(Err(why)) => Self::Uncovered(why),
            _ => Self::NotLoaded,
        }
    }

    /// True for a program that `heliostat run` started, directly or not.
    pub fn is_under(&self) -> bool {
        !matches!(self, Self::Gone | Self::Hidden { .. } | Self::NeverUnder)
    }
}

fn names_stub(list: &std::ffi::OsStr) -> bool {
    list.to_string_lossy().contains(STUB)
}

/// One path may be written in several ways.
fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    one == other || whole(one) == whole(other)
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("there is no such process, or it has ended"),
            Self::Hidden { uid } => {
                write!(f, "it belongs to user {uid}; ask as that user, or as root")
            }
            Self::NeverUnder => f.write_str("it was not started with `heliostat run`"),
            Self::Uncovered(why) => write!(f, "it is native as a whole: {why}"),
            Self::NotLoaded => {
                f.write_str("it is native as a whole: its loader has not loaded the stub")
            }
            Self::SwitchedOff => f.write_str(
                "it is native as a whole: switched off by option; no TCP connection so far",
            ),
            Self::Elsewhere(socket) => {
                write!(f, "its control plane is {} (--socket)", socket.display())
            }
            Self::Ended => f.write_str(
                "its session has ended (the control plane was restarted or ended it), \
                 and it has made no connection since",
            ),
            Self::NotYet => {
                f.write_str("it is under Heliostat, and has neither connected nor listened so far")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_ours_is_told_from_one_that_is_gone() {
        let socket = Path::new("/nonexistent/control.sock");
        assert_eq!(Cause::of(u32::MAX, socket), Cause::Gone);
        assert_eq!(Cause::of(std::process::id(), socket), Cause::NeverUnder);
        assert!(!Cause::NeverUnder.is_under() && Cause::NotYet.is_under());
    }
}
