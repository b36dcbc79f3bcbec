//! The session with the control plane: greeted lazily, asked rarely, never waited for long.
//!
//! One per process. A child of a fork starts its own; a control plane that went away is tried
//! again after a pause, and until then everything new is native.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, OnceLock};

use heliostat_abi::code::{Code, Native, Unmapped};
use heliostat_abi::limits::CONTROL_DEADLINE_MS;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::record::{ChannelEntry, Reply, Request, REPLY_BYTES};
use heliostat_abi::report;
use heliostat_backend_lease::reader::Promise;
use heliostat_base::clock;
use heliostat_base::descriptor_limit;
use heliostat_base::fd::OwnedFd;
use heliostat_base::lock::Lock;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_base::packet::PacketSocket;
use heliostat_base::sys::Errno;
use std::os::fd::AsRawFd;

pub use page::NodePage;

use crate::report::ReportPage;

mod page;

/// After a failure the control plane is left alone for this long.
const RETRY_PAUSE_NS: u64 = 200_000_000;
/// The control socket lives above the numbers that programs use or close one by one.
const CONTROL_FD_LOWEST: i32 = 900;

static SOCKET_PATH: OnceLock<String> = OnceLock::new();
static PROGRAM: OnceLock<String> = OnceLock::new();
/// `be_known` has been called.
static TOLD: AtomicBool = AtomicBool::new(false);
static CONTROL_FD: AtomicI32 = AtomicI32::new(-1);
static STATE: Lock<Link> =
    Lock::new(Link { session: None, retry_at_ns: 0, refused: Native::NoControl, epoch: 0 });

struct Session {
    socket: PacketSocket,
    id: ObjectId,
    node: Arc<NodePage>,
    /// The same page, once a mapping may look at it at any time: it stays for ever.
    lasting: Option<&'static NodePage>,
    sequence: u32,
}

struct Link {
    session: Option<Session>,
    retry_at_ns: u64,
    /// Why there is no session, until the next try.
    refused: Native,
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
}

/// Says where the control plane listens and what this program is called; once, at start.
pub fn configure(socket_path: String, program: String) {
    let _ = SOCKET_PATH.set(socket_path);
    let _ = PROGRAM.set(program);
}

/// The standing session, greeted now if there is none.
pub fn standing() -> Result<Standing, Native> {
    let mut link = STATE.lock();
    link.connect()?;
    let epoch = link.epoch;
    link.session.as_ref().ok_or(Native::NoControl).map(|session| Standing {
        id: session.id,
        node: session.node.clone(),
        epoch,
    })
}

/// Greets for a connection that needs nothing of the control plane, so that people can ask about it;
/// tried once, and no answer is no loss.
pub fn be_known() {
    if !TOLD.swap(true, Relaxed) {
        let _ = standing();
    }
}

/// Number of the session that stands now, as in `Standing`.
pub(crate) fn epoch() -> Option<u64> {
    let link = STATE.lock();
    link.session.as_ref().map(|_| link.epoch)
}

/// True when the control plane has hung up; the next request greets anew.
pub fn check_alive() -> bool {
    let mut link = STATE.lock();
    let Some(session) = &link.session else { return false };
    let mut byte = [0; 1];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    match heliostat_base::call::recv(session.socket.fd(), &mut byte, flags) {
        Err(heliostat_base::sys::Errno(libc::EAGAIN)) => true,
        _ => {
            link.lose();
            false
        }
    }
}

/// Registers a listening socket; the answer is the address object.
pub fn listen(fd: i32) -> Result<(ObjectId, NetAddress), Native> {
    match ask(&Request::Listen, &[fd])?.0 {
        Reply::Listening { port, address } => Ok((port, address)),
        other => Err(refusal(&other)),
    }
}

/// Takes a registration of the session `epoch` back; nothing is said if that fails, since the
/// session's end does it too.
pub fn unlisten(epoch: u64, port: ObjectId) {
    let _ = ask_in(epoch, &Request::Unlisten { port }, &[]);
}

/// Channels with their memory, as the control plane handed them out.
pub struct Channels {
    /// The address object they belong to.
    pub port: ObjectId,
    /// Entries and descriptors, in order.
    pub entries: Vec<(ChannelEntry, OwnedFd)>,
    /// Another request would bring more.
    pub more: bool,
}

/// A new channel to whoever listens on `address`.
pub fn open(address: NetAddress) -> Result<Channels, Native> {
    channels(ask(&Request::Open { address }, &[])?)
}

/// The channels of a listening address that the session `epoch` has registered and does not have
/// yet.
pub fn attach(epoch: u64, port: ObjectId) -> Result<Channels, Native> {
    channels(ask_in(epoch, &Request::Attach { port }, &[])?)
}

fn channels(answer: (Reply, Vec<OwnedFd>)) -> Result<Channels, Native> {
    match answer {
        (Reply::Channels { port, entries, more }, fds) if fds.len() == entries.len() => {
            Ok(Channels { port, entries: entries.into_iter().zip(fds).collect(), more })
        }
        (other, _) => Err(refusal(&other)),
    }
}

/// A file under a lease.
pub(crate) struct Lease {
    pub id: ObjectId,
    /// The session that it belongs to, as in `Standing`.
    pub epoch: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// The file, opened anew: what may be mapped.
    pub file: OwnedFd,
    /// Active.
    pub active: Promise,
    /// The control plane lives.
    pub life: Promise,
}

/// Asks for a lease on an open file.
pub(crate) fn lease(fd: i32) -> Result<Lease, Unmapped> {
    let mut link = STATE.lock();
    link.connect().map_err(|_| Unmapped::NoControl)?;
    let epoch = link.epoch;
    let session = link.session.as_mut().ok_or(Unmapped::NoControl)?;
    let node = session.lasting_node();
    let life = node.life().ok_or(Unmapped::NoControl)?;
    let Ok((reply, mut fds)) = session.ask(&Request::Lease, &[fd]) else {
        link.lose();
        return Err(Unmapped::NoControl);
    };
    match (reply, fds.pop()) {
        (Reply::Leased { lease: id, bytes }, Some(file)) => {
            Ok(Lease { id, epoch, bytes, file, active: node.lease(id), life })
        }
        (Reply::NotLeased { reason }, _) => Err(reason),
        (Reply::Refused { code: Code::Denied, .. }, _) => Err(Unmapped::Denied),
        (Reply::Refused { code: Code::Full, .. }, _) => Err(Unmapped::Full),
        _ => Err(Unmapped::NoControl),
    }
}

/// Gives a lease back, if the session that has it still stands.
pub(crate) fn end_lease(id: ObjectId, epoch: u64) {
    let mut link = STATE.lock();
    let is_same = link.epoch == epoch;
    let Some(session) = link.session.as_mut().filter(|_| is_same) else { return };
    if session.ask(&Request::EndLease { lease: id }, &[]).is_err() {
        link.lose();
    }
}

fn refusal(reply: &Reply) -> Native {
    match reply {
        Reply::Refused { code: Code::NotFound, .. } => Native::PeerNotOurs,
        Reply::Refused { code: Code::Denied, .. } => Native::Denied,
        Reply::Refused { code: Code::Full, .. } => Native::Full,
        Reply::Refused { code: Code::Revoked, .. } => Native::Revoked,
        _ => Native::NoControl,
    }
}

/// Asks, in a session that is greeted now if there is none. What travels along is [fds].
pub(crate) fn ask(request: &Request, fds: &[i32]) -> Result<(Reply, Vec<OwnedFd>), Native> {
    let mut link = STATE.lock();
    link.connect()?;
    link.ask(request, fds)
}

/// Asks in the session of this number, as in `Standing`; `NoControl` when it stands no more. For
/// requests about what that session was given: in the next one, which another run of the control
/// plane may have greeted, the same name is something else.
pub(crate) fn ask_in(
    epoch: u64,
    request: &Request,
    fds: &[i32],
) -> Result<(Reply, Vec<OwnedFd>), Native> {
    let mut link = STATE.lock();
    match link.epoch == epoch {
        true => link.ask(request, fds),
        false => Err(Native::NoControl),
    }
}

impl Link {
    fn connect(&mut self) -> Result<(), Native> {
        if self.session.is_some() {
            return Ok(());
        }
        let now = clock::monotonic_ns();
        let path = SOCKET_PATH.get().ok_or(Native::NoControl)?;
        if now < self.retry_at_ns {
            return Err(self.refused);
        }
        match descriptor_limit::with_room(0, || Session::greet(path)) {
            Ok((session, report)) => {
                CONTROL_FD.store(session.socket.fd(), Release);
                self.session = Some(session);
                self.epoch += 1;
                crate::report::install(report);
                Ok(())
            }
            Err(reason) => {
                self.retry_at_ns = now + RETRY_PAUSE_NS;
                self.refused = reason;
                Err(reason)
            }
        }
    }

    fn ask(&mut self, request: &Request, fds: &[i32]) -> Result<(Reply, Vec<OwnedFd>), Native> {
        let session = self.session.as_mut().ok_or(Native::NoControl)?;
        let answer = session.ask(request, fds);
        // Where the program has no descriptor left, the session stands: its end would free one.
        if !matches!(answer, Ok(_) | Err(Native::TableFull)) {
            self.lose();
        }
        answer
    }

    fn lose(&mut self) {
        CONTROL_FD.store(-1, Release);
        self.session = None;
        self.refused = Native::NoControl;
        self.retry_at_ns = clock::monotonic_ns() + RETRY_PAUSE_NS;
    }
}

impl Session {
    fn greet(path: &str) -> Result<(Self, ReportPage), Native> {
        let socket = PacketSocket::connect(path, CONTROL_DEADLINE_MS)
            .map_err(|_| Native::NoControl)?
            .move_above(CONTROL_FD_LOWEST);
        let program = PROGRAM.get().cloned().unwrap_or_default();
        let (reply, fds) = exchange(&socket, &Request::Hello { program }, &[], 0)?;
        let Reply::Welcome { session, .. } = reply else { return Err(refusal(&reply)) };
        let [node, page] = fds.as_slice() else { return Err(Native::NoControl) };
        let node = Arc::new(NodePage::map(node).ok_or(Native::NoControl)?);
        let page = SharedMapping::from_fd(page.as_raw_fd(), report::BYTES, Access::ReadWrite);
        let page = ReportPage::new(page.map_err(|_| Native::NoControl)?);
        Ok((Self { socket, id: session, node, lasting: None, sequence: 0 }, page))
    }

    fn lasting_node(&mut self) -> &'static NodePage {
        self.lasting.get_or_insert_with(|| &**Box::leak(Box::new(self.node.clone())))
    }

    fn ask(&mut self, request: &Request, fds: &[i32]) -> Result<(Reply, Vec<OwnedFd>), Native> {
        self.sequence = self.sequence.wrapping_add(1);
        descriptor_limit::with_room(self.socket.fd(), || {
            exchange(&self.socket, request, fds, self.sequence)
        })
    }
}

fn exchange(
    socket: &PacketSocket,
    request: &Request,
    fds: &[i32],
    sequence: u32,
) -> Result<(Reply, Vec<OwnedFd>), Native> {
    socket.send(&request.encode(sequence), fds).map_err(|_| Native::NoControl)?;
    let mut record = [0; REPLY_BYTES];
    loop {
        let (bytes, fds) = socket.receive(&mut record).map_err(|errno| match errno {
            Errno(libc::EMSGSIZE) => Native::TableFull,
            _ => Native::NoControl,
        })?;
        let (reply, answered) = Reply::decode(&record[..bytes]).map_err(|_| Native::NoControl)?;
        // An older answer that came after its deadline is dropped with its descriptors.
        if answered == sequence {
            return Ok((reply, fds));
        }
    }
}

/// True when `fd` is the stub's own control socket, which the program must not close.
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
        STATE.lock().lose();
    }
}

/// In the child of a fork: the parent's session is not ours. Its socket is closed at once, since
/// the control plane notices the parent's end by the last copy of it.
pub fn forget_in_forked_child() {
    STATE.reset_in_forked_child();
    let mut link = STATE.lock();
    CONTROL_FD.store(-1, Release);
    link.retry_at_ns = 0;
    TOLD.store(false, Relaxed);
    if let Some(session) = link.session.take() {
        let _ = heliostat_base::call::close(session.socket.fd());
        std::mem::forget(session);
    }
}
