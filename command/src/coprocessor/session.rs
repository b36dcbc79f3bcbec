//! One worker's session: its memory, and what the control plane gives it.

use std::os::fd::{AsRawFd, RawFd};

use heliostat_abi::lean::{Facts, HAS_FILES, HAS_SOCKETS, OVER_AT, WINDOW_BYTES_MIN};
use heliostat_abi::place::Surroundings;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::socket::SocketRequest;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_base::packet::PacketSocket;
use heliostat_base::sync::Ordering::Release;
use heliostat_client::{exchange, ControlError};

use super::grants::Reach;
use super::Fault;
use crate::client::{connect, ClientError};

/// A worker's memory, and the connection by which it lasts.
pub(super) struct WorkerSession {
    connection: PacketSocket,
    /// Numbers are inherited by the worker alone: this process marks them so when it starts it.
    pub window: OwnedFd,
    pub files: OwnedFd,
    pub sockets: OwnedFd,
    /// The page of facts.
    facts: SharedMapping,
}

impl WorkerSession {
    /// Makes a worker's memory and has its operations delegated, within what it may reach.
    ///
    /// # Errors
    /// There is no memory, or the control plane says no.
    pub fn open(
        here: &Surroundings,
        reach: &Reach,
        window_bytes: u64,
        (worker, workers): (u32, u32),
    ) -> Result<WorkerSession, Fault> {
        let bytes = window_bytes.max(WINDOW_BYTES_MIN).next_multiple_of(4096);
        let memory = |error| Fault::Word(format!("memory of {bytes} bytes: {error}"));
        let length = usize::try_from(bytes).map_err(|error| Fault::Word(error.to_string()))?;
        let window = SharedMapping::create_fd(c"heliostat-lean", length).map_err(memory)?;
        let facts =
            SharedMapping::map(window.as_raw_fd(), 0, 4096, Access::ReadWrite).map_err(memory)?;
        let connection = connect(here).map_err(Fault::Client)?;
        let asker = Asker { connection: &connection };
        asker.ask(&Request::Hello { program: format!("lean worker {worker}") }, &[])?;
        asker.confine(reach)?;
        let files = asker.rings(&Request::Delegate { members: 0 }, window.as_raw_fd())?;
        let session = Request::Own(SocketRequest::Session.encode());
        let sockets = asker.rings(&session, window.as_raw_fd())?;
        let told = Facts { window_bytes: bytes, worker, workers, queues: HAS_FILES | HAS_SOCKETS };
        // The page has room for them.
        let _ = facts.copy_in(0, &told.encode());
        Ok(WorkerSession { connection, window, files, sockets, facts })
    }

    /// The connection: it hangs up when the control plane ends, or ends the session.
    pub fn connection(&self) -> RawFd {
        self.connection.fd()
    }

    /// Tells the worker that nobody answers it any more.
    pub fn end(&self, errno: i32) {
        self.facts.atomic_u32(OVER_AT).store(errno.unsigned_abs(), Release);
    }
}

struct Asker<'a> {
    connection: &'a PacketSocket,
}

impl Asker<'_> {
    fn ask(&self, request: &Request, fds: &[RawFd]) -> Result<Vec<OwnedFd>, Fault> {
        let answered = exchange(self.connection, request, fds, 1);
        let (reply, fds) = answered.map_err(|error| Fault::Client(error.into()))?;
        match reply {
            Reply::Refused { .. } => Err(Fault::Client(ControlError::from(&reply).into())),
            _ => Ok(fds),
        }
    }

    fn own(&self, request: SocketRequest, fds: &[RawFd]) -> Result<(), Fault> {
        self.ask(&Request::Own(request.encode()), fds).map(drop)
    }

    fn confine(&self, reach: &Reach) -> Result<(), Fault> {
        for (access, destination) in &reach.addresses {
            self.own(SocketRequest::Reach(*access, *destination), &[])?;
        }
        for folder in &reach.folders {
            let request = SocketRequest::Folder { reads: true, writes: folder.writes };
            self.own(request, &[folder.held.as_raw_fd()])?;
        }
        self.own(SocketRequest::Confine, &[])
    }

    fn rings(&self, request: &Request, window: RawFd) -> Result<OwnedFd, Fault> {
        let mut fds = self.ask(request, &[window])?;
        let missing = || ClientError::Text("the answer brings no rings".to_owned());
        fds.pop().ok_or_else(missing).map_err(Fault::Client)
    }
}
