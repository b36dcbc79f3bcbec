//! A session that threads of several processes submit on together.
//!
//! One process opens it and says how many may take part. Others join it by two descriptors, which
//! travel as descriptors do: inherited, or over a socket. All have one window, one table of files,
//! and one order of writes; each thread has a [`Submitter`], to which its own completions come.
//!
//! ```text
//! opener   start -> submitter -> open ... submit ... wait
//!            | descriptors
//! member   join  -> submitter -> submit ... wait       as many threads as it likes, each with its own
//! ```
//!
//! The server opens names as the process that has opened the session, whoever asks. A member that is
//! killed or stopped costs the others nothing, unless it was just submitting: killed, it costs them
//! some 20 ms, and stopped, their submissions are put off until it goes on. When it is gone another
//! process may join in its place, for which what it still had under way is ended. The session ends with
//! its opener. A child of a fork joins by itself before it submits.

mod arrivals;
mod member;
mod submitter;
mod succession;

use std::sync::Arc;

use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::SharedMapping;

use super::error::DelegatedError;
use super::window;
use member::Member;

pub use heliostat_abi::file::delegated::joint::MEMBERS_MAX;
pub use submitter::Submitter;

/// This process's part of a joint session. Clones are the same part.
#[derive(Clone)]
pub struct JointSession {
    member: Arc<Member>,
}

impl JointSession {
    /// A session for as many processes at a time as `members` says, this one among them; with a window
    /// of `window_bytes` (whole pages), all zero. Asks the control plane as `Delegated::start` does,
    /// and as there a process has opened one session at most.
    ///
    /// # Errors
    /// As `Delegated::start`; a number of members that is 0 or beyond `MEMBERS_MAX` is refused.
    pub fn start(window_bytes: usize, members: u32) -> Result<JointSession, DelegatedError> {
        let (window_fd, window) = window::create(window_bytes)?;
        let member = Member::open(window_fd, window, members)?;
        Ok(JointSession { member: Arc::new(member) })
    }

    /// Joins a session whose two descriptors another process has given: the rings, and the window.
    /// Takes 20 ms where it is in the place of a process that is gone, and half a second at most for
    /// each of these whose operations do not end.
    ///
    /// # Errors
    /// `Corrupt` when they are none, `Refused` with `Code::Full` when as many processes as may take
    /// part, `Gone` when the session has ended.
    pub fn join(rings: OwnedFd, window: OwnedFd) -> Result<JointSession, DelegatedError> {
        Ok(JointSession { member: Arc::new(Member::join(rings, window)?) })
    }

    /// The descriptors that another process needs to join: the rings, and the window. Whoever has
    /// them can do with the session what its opener can.
    pub fn descriptors(&self) -> (&OwnedFd, &OwnedFd) {
        self.member.descriptors()
    }

    /// The window's memory, which all members share. The server writes the pieces of reads that are
    /// under way.
    pub fn window(&self) -> &Arc<SharedMapping> {
        &self.member.window
    }

    /// Operations that this process may have under way, its threads together.
    pub fn depth(&self) -> usize {
        self.member.depth()
    }

    /// An end for one thread.
    ///
    /// # Errors
    /// `Refused` with `Code::Full` when this process has 65,535 of them.
    pub fn submitter(&self) -> Result<Submitter, DelegatedError> {
        Submitter::new(self.member.clone())
    }
}
