//! Asking the control plane for a session, and whether it still stands.

use std::os::fd::AsRawFd;

use heliostat_abi::name::ObjectId;
use heliostat_abi::session::node::State;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::fd::OwnedFd;
use heliostat_client::session::{self, Standing};
use heliostat_client::NodePage;

use super::DelegatedError;

/// What the control plane has given.
pub(super) struct Delegation {
    /// The memory of the rings.
    pub(super) rings: OwnedFd,
    /// In which session with the control plane.
    pub(super) standing: Standing,
    /// What was opened for the device may be read by the program's own ring.
    pub(super) lends: bool,
    /// Files come by showing them only: names are the program's own to open.
    pub(super) shows_only: bool,
}

impl Delegation {
    /// Asks for a window to be served, for one process (`members` is 0) or for several.
    pub(super) fn ask(window: &OwnedFd, members: u32) -> Result<Delegation, DelegatedError> {
        // A session that has ended is noticed here, so that the next one is asked.
        session::check_alive();
        let standing = session::standing().map_err(DelegatedError::Control)?;
        let request = Request::Delegate { members };
        let asked = session::ask_in(standing.epoch, &request, &[window.as_raw_fd()]);
        let (reply, mut fds) = asked.map_err(DelegatedError::Control)?;
        match (reply, fds.pop()) {
            (Reply::Delegated { lends, shows_only, .. }, Some(rings)) => {
                Ok(Delegation { rings, standing, lends, shows_only })
            }
            (Reply::Refused { code, limit, .. }, _) => Err(DelegatedError::Refused(code, limit)),
            _ => Err(DelegatedError::Corrupt),
        }
    }
}

/// Tells the control plane that nobody needs the session any more, if that is still the same one.
pub(super) fn end(epoch: u64) {
    let _ = session::ask_in(epoch, &Request::EndDelegate, &[]);
}

/// Whether the control plane lives and has not revoked the session.
pub(super) fn is_kept(node: &NodePage, session: ObjectId) -> bool {
    node.is_kept() && node.session(session) == State::Active
}
