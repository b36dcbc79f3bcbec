//! A session as what was granted in it sees it: bound to its epoch, and to the process that greeted.

use heliostat_abi::session::node::State;
use heliostat_abi::session::record::{OwnRequest, Request};
use heliostat_base::process::pid;

use crate::session::{ask_in, Standing};
use crate::{Answered, ControlError};

/// The session that handles, tickets and functions belong to: in the next one they are something else,
/// and a child of a fork holds none of them.
pub struct OwnSession {
    standing: Standing,
    pid: i32,
}

impl OwnSession {
    /// The session that stands, of this process.
    pub fn new(standing: Standing) -> Self {
        Self { standing, pid: pid() }
    }

    /// Returns whether this process greeted; a child of its fork did not. One system call.
    pub fn is_own(&self) -> bool {
        self.pid == pid()
    }

    /// Returns whether it is the session of this number, in this process.
    pub fn is(&self, epoch: u64) -> bool {
        self.is_own() && self.standing.epoch == epoch
    }

    /// Returns its lasting parts.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Returns whether the control plane still counts it among its sessions. Two loads.
    pub fn stands(&self) -> bool {
        let node = &self.standing.node;
        node.is_kept() && node.session(self.standing.id) == State::Active
    }

    /// Asks for something of a service; what travels along is [fds]. Blocks as [`ask_in`] does.
    ///
    /// # Errors
    /// `SessionEnded` when it stands no more, and in a child of a fork, whose parent's the connection is.
    pub fn ask(&self, request: OwnRequest, fds: &[i32]) -> Result<Answered, ControlError> {
        if !self.is_own() {
            return Err(ControlError::SessionEnded);
        }
        ask_in(self.standing.epoch, &Request::Own(request), fds)
    }
}
