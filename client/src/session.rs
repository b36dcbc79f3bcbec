//! The session with the control plane: greeted lazily, asked rarely, never waited for long.
//!
//! One per process. A child of a fork starts its own; a control plane that went away is tried
//! again after a pause, and until then everything new is native.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, OnceLock};

use heliostat_abi::limits::CONTROL_DEADLINE_MS;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::session::report;
use heliostat_base::clock;
use heliostat_base::descriptor_limit;
use heliostat_base::lock::Lock;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_base::packet::PacketSocket;
use heliostat_base::sys::Errno;
use std::os::fd::AsRawFd;

use crate::exchange::{exchange, Answered};
use crate::{ControlError, NodePage};

/// After a failure the control plane is left alone for this long.
const RETRY_PAUSE_NS: u64 = 200_000_000;
/// The control socket lives above the numbers that programs use or close one by one.
const CONTROL_FD_LOWEST: i32 = 900;

static SOCKET_PATH: OnceLock<String> = OnceLock::new();
static PROGRAM: OnceLock<String> = OnceLock::new();
/// `be_known` has been called.
static TOLD: AtomicBool = AtomicBool::new(false);
static CONTROL_FD: AtomicI32 = AtomicI32::new(-1);
/// Takes the report page of every session from its greeting on.
static REPORT: OnceLock<fn(SharedMapping)> = OnceLock::new();
const NOT_YET: ControlConnection = ControlConnection {
    session: None,
    retry_at_ns: 0,
    refused: ControlError::Unconfigured,
    epoch: 0,
};
#[cfg(not(loom))]
static STATE: Lock<ControlConnection> = Lock::new(NOT_YET);
// Loom's atomics cannot be made at compile time. No model uses this one.
#[cfg(loom)]
static STATE: std::sync::LazyLock<Lock<ControlConnection>> =
    std::sync::LazyLock::new(|| Lock::new(NOT_YET));

struct Session {
    socket: PacketSocket,
    id: ObjectId,
    boot: u64,
    node: Arc<NodePage>,
    /// The same page, once a mapping may look at it at any time: it stays for ever.
    lasting: Option<&'static NodePage>,
    sequence: u32,
}

struct ControlConnection {
    session: Option<Session>,
    retry_at_ns: u64,
    /// Why there is no session, until the next try.
    refused: ControlError,
    epoch: u64,
}

/// A session's lasting parts, for callers that keep them.
#[derive(Clone)]
pub struct Standing {
    /// This session.
    pub id: ObjectId,
    /// The node page of this run of the control plane.
    pub node: Arc<NodePage>,
    /// Counts sessions of this process; another number means everything must be asked anew.
    pub epoch: u64,
    /// Number of this run of the control plane.
    pub boot: u64,
}

/// Says where the control plane listens and what this program is called; once, at start.
pub fn configure(socket_path: String, program: String) {
    let _ = SOCKET_PATH.set(socket_path);
    let _ = PROGRAM.set(program);
}

/// Says who takes the report page of each session to come, which is its only writer; once, at start.
/// Called with the session locked: it must not ask anything.
pub fn report_to(writer: fn(SharedMapping)) {
    let _ = REPORT.set(writer);
}

/// The standing session, greeted now if there is none.
pub fn standing() -> Result<Standing, ControlError> {
    let mut connection = STATE.lock();
    connection.connect()?;
    let epoch = connection.epoch;
    let session = connection.session.as_ref().ok_or(ControlError::SessionEnded)?;
    let (id, node, boot) = (session.id, session.node.clone(), session.boot);
    Ok(Standing { id, node, epoch, boot })
}

/// The number of the standing session, greeted now if there is none, and its node page, which then
/// stays mapped for ever: for mappings that look at its words at any time.
pub fn lasting() -> Result<(u64, &'static NodePage), ControlError> {
    let mut connection = STATE.lock();
    connection.connect()?;
    let epoch = connection.epoch;
    let session = connection.session.as_mut().ok_or(ControlError::SessionEnded)?;
    Ok((epoch, session.lasting_node()))
}

/// Greets for a connection that needs nothing of the control plane, so that people can ask about it;
/// tried once, and no answer is no loss.
pub fn be_known() {
    if !TOLD.swap(true, Relaxed) {
        let _ = standing();
    }
}

/// Number of the session that stands now, as in `Standing`.
pub fn epoch() -> Option<u64> {
    let connection = STATE.lock();
    connection.session.as_ref().map(|_| connection.epoch)
}

/// True when the control plane has hung up; the next request greets anew.
pub fn check_alive() -> bool {
    let mut connection = STATE.lock();
    let Some(session) = &connection.session else { return false };
    let mut byte = [0; 1];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    match heliostat_base::call::recv(session.socket.fd(), &mut byte, flags) {
        Err(Errno(libc::EAGAIN)) => true,
        _ => {
            connection.lose(ControlError::SessionEnded);
            false
        }
    }
}

/// Asks, in a session that is greeted now if there is none. What travels along is [fds].
pub fn ask(request: &Request, fds: &[i32]) -> Result<Answered, ControlError> {
    let mut connection = STATE.lock();
    connection.connect()?;
    connection.ask(request, fds)
}

/// Asks in the session of this number, as in `Standing`; `SessionEnded` when it stands no more.
/// For requests about what that session was given: in the next one, which another run of the control
/// plane may have greeted, the same name is something else.
pub fn ask_in(epoch: u64, request: &Request, fds: &[i32]) -> Result<Answered, ControlError> {
    let mut connection = STATE.lock();
    if connection.epoch != epoch {
        return Err(ControlError::SessionEnded);
    }
    connection.ask(request, fds)
}

impl ControlConnection {
    fn connect(&mut self) -> Result<(), ControlError> {
        if self.session.is_some() {
            return Ok(());
        }
        let now = clock::monotonic_ns();
        let path = SOCKET_PATH.get().ok_or(ControlError::Unconfigured)?;
        if now < self.retry_at_ns {
            return Err(self.refused);
        }
        match descriptor_limit::with_room(0, || Session::greet(path)) {
            Ok((session, report)) => {
                CONTROL_FD.store(session.socket.fd(), Release);
                self.session = Some(session);
                self.epoch += 1;
                if let Some(take) = REPORT.get() {
                    take(report);
                }
                Ok(())
            }
            Err(reason) => {
                self.retry_at_ns = now + RETRY_PAUSE_NS;
                self.refused = reason;
                Err(reason)
            }
        }
    }

    fn ask(&mut self, request: &Request, fds: &[i32]) -> Result<Answered, ControlError> {
        let session = self.session.as_mut().ok_or(ControlError::SessionEnded)?;
        let answer = session.ask(request, fds);
        match answer {
            // Where the program has no descriptor left, the session stands: its end would free one.
            Ok(_) | Err(ControlError::NoDescriptors) => {}
            Err(error) => self.lose(error),
        }
        answer
    }

    fn lose(&mut self, why: ControlError) {
        CONTROL_FD.store(-1, Release);
        self.session = None;
        self.refused = why;
        self.retry_at_ns = clock::monotonic_ns() + RETRY_PAUSE_NS;
    }
}

impl Session {
    fn greet(path: &str) -> Result<(Self, SharedMapping), ControlError> {
        let socket = PacketSocket::connect(path, CONTROL_DEADLINE_MS)
            .map_err(ControlError::NotRunning)?
            .move_above(CONTROL_FD_LOWEST);
        let program = PROGRAM.get().cloned().unwrap_or_default();
        let (reply, fds) = exchange(&socket, &Request::Hello { program }, &[], 0)?;
        let Reply::Welcome { session, boot } = reply else { return Err((&reply).into()) };
        let [node, page] = fds.as_slice() else { return Err(ControlError::Unexpected) };
        let node = Arc::new(NodePage::map(node).ok_or(ControlError::Unexpected)?);
        let page = SharedMapping::from_fd(page.as_raw_fd(), report::BYTES, Access::ReadWrite);
        let page = page.map_err(|_| ControlError::Unexpected)?;
        // Nothing is listed yet: the control plane need not look.
        page.atomic_u32(report::ENTRIES_USED).store(1, Relaxed);
        Ok((Self { socket, id: session, boot, node, lasting: None, sequence: 0 }, page))
    }

    fn lasting_node(&mut self) -> &'static NodePage {
        self.lasting.get_or_insert_with(|| &**Box::leak(Box::new(self.node.clone())))
    }

    fn ask(&mut self, request: &Request, fds: &[i32]) -> Result<Answered, ControlError> {
        self.sequence = self.sequence.wrapping_add(1);
        descriptor_limit::with_room(self.socket.fd(), || {
            exchange(&self.socket, request, fds, self.sequence)
        })
    }
}

/// True when `fd` is this process's own control socket, which the program must not close.
#[inline]
pub fn owns(fd: i32) -> bool {
    fd >= 0 && fd == CONTROL_FD.load(Relaxed)
}

/// The control socket's number, if there is one.
pub fn control_fd() -> Option<u32> {
    u32::try_from(CONTROL_FD.load(Relaxed)).ok()
}

/// Gives the number `fd` up because the program wants it (dup2).
pub fn vacate(fd: i32) {
    if owns(fd) {
        STATE.lock().lose(ControlError::SessionEnded);
    }
}

/// In the child of a fork: the parent's session is not ours. Its socket is closed at once, since
/// the control plane notices the parent's end by the last copy of it.
pub fn forget_in_forked_child() {
    STATE.reset_in_forked_child();
    let mut connection = STATE.lock();
    CONTROL_FD.store(-1, Release);
    connection.retry_at_ns = 0;
    TOLD.store(false, Relaxed);
    if let Some(session) = connection.session.take() {
        let _ = heliostat_base::call::close(session.socket.fd());
        std::mem::forget(session);
    }
}
