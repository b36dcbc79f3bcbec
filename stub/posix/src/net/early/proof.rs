//! Proof of an offer: its maker tells the acceptor's secret on the shadow itself.
//!
//! The secret is made for one claim, lies in the slot for the client to read, and follows the client's
//! prefix on the shadow. Whoever does not hold that connection cannot put it there; who made an offer
//! for another's connection has offered nothing.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::OnceLock;

use heliostat_abi::stream::channel::direction::SWITCHED;
use heliostat_abi::stream::channel::slot::SECRET_BYTES;
use heliostat_abi::stream::channel::SlotState;
use heliostat_base::lock::Lock;
use heliostat_base::mapping::SharedMapping;
use heliostat_base::{call, clock, spin};

use super::prepare;
use crate::net::channel::Secret;
use crate::net::side_lock::{self, Half};
use crate::net::socket::{Connection, Sender, Socket, Stage};

/// Bytes of secrets that are drawn at once.
const DRAWN_BYTES: usize = 128 * SECRET_BYTES;
/// A secret is looked for behind this many bytes of unread payload at most.
const FAR_BYTES: u64 = 256 * 1024;
/// A client sends its secret whole. Where TCP has cut it nonetheless, the rest is under way.
const REST_NS: u64 = 500_000;

struct Drawn {
    bytes: [u8; DRAWN_BYTES],
    left: usize,
}

static DRAWN: Lock<Drawn> = Lock::new(Drawn { bytes: [0; DRAWN_BYTES], left: 0 });

/// A secret that nobody has had before; `None` where the kernel gives no random bytes.
pub fn new_secret() -> Option<Secret> {
    let mut drawn = DRAWN.lock();
    if drawn.left < SECRET_BYTES {
        if call::random(&mut drawn.bytes) != Ok(DRAWN_BYTES) {
            return None;
        }
        drawn.left = DRAWN_BYTES;
    }
    drawn.left -= SECRET_BYTES;
    let at = drawn.left;
    drawn.bytes[at..at + SECRET_BYTES].try_into().ok()
}

/// In the child of a fork: what is left is the parent's.
pub fn reset_in_forked_child() {
    DRAWN.reset_in_forked_child();
    DRAWN.lock().left = 0;
}

/// What the shadow says of an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// The secret is there.
    True,
    /// Something else is, or nothing more can come.
    False,
    /// The secret may still come.
    Unknown,
}

/// Looks for the secret behind what is left of the prefix. Nothing is taken off the shadow. Under the
/// receiver's lock, of a slot that was seen Started.
pub fn verdict(connection: Connection<'_>) -> Proof {
    let Connection { fd, socket, stream } = connection;
    let Some(left) = stream.incoming.prefix_left() else { return Proof::False };
    let (secret, began) = (socket.secret(), clock::monotonic_ns());
    let mut has_ended = false;
    loop {
        match seen_behind(fd, left, &secret) {
            Some(SECRET_BYTES) => return Proof::True,
            None => return Proof::False,
            Some(_) if has_ended => return Proof::False,
            // Looked at before the bytes: none comes after the end.
            Some(_) if call::events_now(fd, libc::POLLRDHUP) != 0 => has_ended = true,
            Some(0) => return Proof::Unknown,
            Some(_) if clock::monotonic_ns() - began > REST_NS => return Proof::False,
            Some(_) => spin::yield_now(),
        }
    }
}

/// How many bytes of `secret` lie behind `left` others; `None` where something else does.
fn seen_behind(fd: i32, left: u64, secret: &Secret) -> Option<usize> {
    let queued = call::bytes_queued(fd).unwrap_or(0) as u64;
    if queued <= left || left > FAR_BYTES {
        return Some(0);
    }
    let mut bytes = vec![0; left as usize + SECRET_BYTES];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    let count = call::recv(fd, &mut bytes, flags).unwrap_or(0);
    let told = bytes[..count].get(left as usize..)?;
    secret.starts_with(told).then_some(told.len())
}

/// Looks once more whether an accepted connection's offer is proven, and begins its ring then. Under
/// no lock.
#[cold]
pub fn look(connection: Connection<'_>) -> Proof {
    let Connection { socket, stream, .. } = connection;
    let _receiver = socket.receiver.lock();
    if socket.stage() != Stage::Accepted {
        return Proof::Unknown;
    }
    let Some(_shared) = side_lock::enter(socket, stream, Half::Reading) else {
        return Proof::Unknown;
    };
    look_locked(connection)
}

/// As `look`, under the locks for reading.
pub fn look_locked(connection: Connection<'_>) -> Proof {
    let Connection { socket, stream, .. } = connection;
    let proof = match stream.slot.state() {
        SlotState::Started => verdict(connection),
        SlotState::Proven if follow_other(socket) => return Proof::True,
        SlotState::Proven => Proof::False,
        _ => Proof::Unknown,
    };
    if proof == Proof::True {
        begin(connection, &socket.sender.lock());
    }
    proof
}

/// Begins the ring of an acceptor whose client has proven its offer: its own prefix is final.
pub fn begin(connection: Connection<'_>, sender: &Sender) {
    let Connection { socket, stream, .. } = connection;
    let _shared = side_lock::enter(socket, stream, Half::Writing);
    let has_switched = sender.stream.is_none() || stream.outgoing.flags() & SWITCHED != 0;
    if !has_switched {
        prepare(connection);
        note_for_others(socket);
        stream.slot.prove();
    }
    socket.set_stage(match stream.incoming.prefix_left() {
        Some(0) => Stage::Settled,
        _ => Stage::Started,
    });
}

/// Where processes of one fork note what is proven, since the slot's word is the peer's to write:
/// each secret has a place, which holds another part of it once it was seen.
static NOTED: OnceLock<Option<SharedMapping>> = OnceLock::new();
const NOTES: u64 = 1 << 16;

/// Before a fork that shares connections whose offer is not proven.
pub fn share_notes() {
    NOTED.get_or_init(|| {
        let (_fd, notes) = SharedMapping::create(c"heliostat-proofs", NOTES as usize * 8).ok()?;
        Some(notes)
    });
}

fn note(socket: &Socket) -> Option<(&'static std::sync::atomic::AtomicU64, u64)> {
    let notes = NOTED.get()?.as_ref()?;
    let [place, value] = [0, 8].map(|at| {
        let part = socket.secret()[at..at + 8].try_into();
        part.map_or(0, u64::from_le_bytes)
    });
    Some((notes.atomic_u64((place % NOTES) as usize * 8), value))
}

fn note_for_others(socket: &Socket) {
    if let Some((word, value)) = note(socket) {
        word.store(value, Release);
    }
}

/// True when another process that holds this end has seen the secret: then this one goes on as it does.
pub fn follow_other(socket: &Socket) -> bool {
    let is_noted = note(socket).is_some_and(|(word, value)| word.load(Acquire) == value);
    if is_noted {
        socket.set_stage(Stage::Started);
    }
    is_noted
}
