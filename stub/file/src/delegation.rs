//! Asking the control plane for a session of files, and its terms.

use std::os::fd::AsRawFd;

use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::fd::OwnedFd;
use heliostat_client::session::{self, Standing};
use heliostat_stub_link::ServerConnection;

use super::DelegatedError;

/// What the control plane has given.
pub(super) struct Delegation {
    /// The memory of the rings.
    pub(super) rings: OwnedFd,
    /// In which session with the control plane.
    pub(super) standing: Standing,
    /// What it lets the session do besides.
    pub(super) terms: Terms,
}

/// What a session of files may do besides.
#[derive(Clone, Copy, Default)]
pub(super) struct Terms {
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
                Ok(Delegation { rings, standing, terms: Terms { lends, shows_only } })
            }
            (Reply::Refused { code, limit, .. }, _) => Err(DelegatedError::Refused(code, limit)),
            _ => Err(DelegatedError::Corrupt),
        }
    }
}

/// Asks for a window to be served for this process, and connects to the server.
pub(super) fn connect(window: &OwnedFd) -> Result<(ServerConnection, Terms), DelegatedError> {
    let Delegation { rings, standing, terms } = Delegation::ask(window, 0)?;
    let epoch = standing.epoch;
    let connected = ServerConnection::attach(standing, &rings).inspect_err(|_| end(epoch));
    Ok((connected?, terms))
}

/// Tells the control plane that nobody needs the session any more, if that is still the same one.
pub(super) fn end(epoch: u64) {
    let _ = session::ask_in(epoch, &Request::EndDelegate, &[]);
}
