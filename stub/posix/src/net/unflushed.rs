//! What direct connections have to say after an fdatasync(2) that has not ended: written, and not
//! published (output commit).
//!
//! The bytes lie in the ring behind its tail, where nobody but this process knows of them
//! (`heliostat_ring`'s `stream::unpublished`): with a process that is killed they are gone. They
//! wait for a ticket of `flush`, the newest that had been issued when they were written, whichever
//! thread wrote them. The program's waits publish what is due; all other ways out wait until nothing is
//! left to flush (`commit`).
//!
//! Locks, in this order: `PUBLISHING` -> a sender's -> `LIST` -> `ASKED`, those of `flush`. What is published
//! is published under the first, so that who has settled knows that nobody is in the middle of it.

use std::io::IoSlice;

use heliostat_abi::session::report::Counter;
use heliostat_base::lock::Lock;
use heliostat_base::spin;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_ring::stream::MoveError;

use super::shadow::options::{CORK, HOLDS};
use super::socket::{self, Connection, Sender};
use super::{end, shadow};
use crate::table::{self, DescriptorKind};
use crate::thread::Critical;
use crate::{flush, report};

/// Connections that hold something back; one more waits for the flush instead.
const LISTED_MAX: usize = 4096;
/// Peers that ask for the kernel's path while bytes are published to them; seldom one.
const ASKED_MAX: usize = 16;
/// Connections that are published before the first bell is rung.
const BELLS_MAX: usize = 128;
/// With so many, one that is woken by the first is given the core.
const BELLS_WORTH_YIELDING: usize = 8;

static PUBLISHING: Lock<()> = Lock::new(());
static ASKED: Lock<[Option<(i32, u32)>; ASKED_MAX]> = Lock::new([None; ASKED_MAX]);
static LIST: Lock<List> = Lock::new(List { ends: [(0, 0); LISTED_MAX], used: 0 });

/// Descriptors and places of connections.
struct List {
    ends: [(i32, u32); LISTED_MAX],
    used: usize,
}

impl List {
    fn add(&mut self, end: (i32, u32)) -> bool {
        match self.ends.get_mut(self.used) {
            Some(place) => {
                *place = end;
                self.used += 1;
                true
            }
            None => false,
        }
    }
}

/// What became of bytes that are to be sent.
pub(super) enum Held {
    /// So many of them are written, and wait.
    Bytes(usize),
    /// Nothing has to be waited for, or nothing more.
    Free,
    /// A flush has failed: they are never sent.
    CutOff,
}

/// True when what is sent on connection `index` can be held back; otherwise the call waits for the
/// flush. Only the plain case is: a ring of this process alone, with nothing held back as by the kernel.
pub fn can_hold(index: u32, flags: i32) -> bool {
    let socket = socket::at(index);
    let is_plain = !socket.is_native() && !socket.is_early() && !socket.is_shared();
    is_plain
        && flags & libc::MSG_MORE == 0
        && socket.delay_options.load(Relaxed) & (CORK | HOLDS) == 0
}

/// Writes behind what is not published, if a flush has to be waited for. Under the sender's lock.
///
/// # Errors
/// As a write's.
#[cold]
pub(super) fn hold(
    connection: Connection<'_>,
    half: &mut Sender,
    buffers: &[IoSlice<'_>],
) -> Result<Held, MoveError> {
    let Connection { fd, socket, stream } = connection;
    if flush::is_untold() {
        cut_off(connection, half);
        return Ok(Held::CutOff);
    }
    match publish_due(connection, half) {
        Published::CutOff => return Ok(Held::CutOff),
        Published::Bytes(bytes) => _ = ring(connection, bytes),
    }
    let mut list = LIST.lock();
    let ticket = flush::latest();
    if flush::done() >= ticket && half.cache.unpublished() == 0 {
        return Ok(Held::Free);
    }
    if !half.unflushed.is_listed {
        half.unflushed.is_listed = list.add((fd, socket::index_of(socket)));
        if !half.unflushed.is_listed {
            return Ok(Held::Bytes(0)); // as in a full ring, whose writer waits for the flush
        }
    }
    drop(list);
    let bytes = stream.outgoing.write_unpublished(buffers, &mut half.cache)?;
    half.unflushed.add(ticket, bytes as u64);
    report::count(Counter::HeldSends);
    flush::note_held();
    Ok(Held::Bytes(bytes))
}

/// Waits for the flush of what this connection holds back, and publishes it, before it is switched: what
/// follows goes by the shadow. Under the sender's lock.
pub(super) fn see_through(connection: Connection<'_>, half: &mut Sender) {
    if half.stream.is_none() || half.cache.unpublished() == 0 {
        return;
    }
    flush::finish();
    if let Published::Bytes(bytes) = publish_due(connection, half) {
        _ = ring(connection, bytes);
    }
}

enum Published {
    Bytes(u64),
    CutOff,
}

/// Publishes what no flush is waited for any more. Under the sender's lock.
fn publish_due(connection: Connection<'_>, half: &mut Sender) -> Published {
    let lane = &connection.stream.outgoing;
    let done = flush::done();
    let mut bytes = 0;
    while let Some(due) = half.unflushed.take_due(done) {
        if due.ticket >= flush::failed_from() {
            cut_off(connection, half);
            return Published::CutOff;
        }
        bytes += lane.publish_unpublished(due.bytes, &mut half.cache);
    }
    Published::Bytes(bytes)
}

/// Wakes who sleeps for what was published; true when a bell was rung. Under the sender's lock.
fn ring(connection: Connection<'_>, bytes: u64) -> bool {
    let Connection { fd, socket, stream } = connection;
    let sleeps = bytes > 0 && stream.outgoing.take_sleeping_reader();
    if sleeps {
        shadow::ring_bell(fd, socket, &stream.outgoing, bytes as usize);
    }
    sleeps
}

/// A flush has failed that the program has been told was done: the peer hears nothing that may rest on
/// it, and sees a reset.
#[cold]
fn cut_off(connection: Connection<'_>, half: &mut Sender) {
    half.cache.drop_unpublished();
    half.unflushed.forget();
    end::cut_off(connection);
}

/// Takes note of flushes that have ended, and publishes what is due.
pub fn progress() {
    let _critical = Critical::enter();
    flush::progress();
    publish();
}

/// Peers that asked for the kernel's path while bytes were published to them: they have to be followed,
/// and until then this process counts as busy.
pub fn take_asked() -> [Option<(i32, u32)>; ASKED_MAX] {
    let _critical = Critical::enter();
    std::mem::replace(&mut *ASKED.lock(), [None; ASKED_MAX])
}

/// Publishes on all connections, and rings afterwards: a peer that has been woken by one bell looks at
/// all its connections, and the others need none.
fn publish() {
    let _alone = PUBLISHING.lock();
    let mut bells = Bells { ends: [(0, 0, 0); BELLS_MAX], used: 0 };
    let mut left = LIST.lock().used;
    while left > 0 {
        left -= 1;
        let Some((fd, index)) = at(left) else { continue };
        let socket = socket::at(index);
        let mut half = socket.sender.lock();
        // A close that another thread made without waiting: the number may be anything by now.
        let is_ours = table::kind(fd) == DescriptorKind::Socket(index);
        let Some(stream) = half.stream.clone().filter(|_| is_ours) else {
            half.cache.drop_unpublished();
            half.unflushed.forget();
            remove(left, &mut half);
            continue;
        };
        let published = publish_due(Connection::new(fd, socket, &stream), &mut half);
        if half.cache.unpublished() == 0 {
            remove(left, &mut half);
        }
        drop(half);
        if let Published::Bytes(bytes @ 1..) = published {
            bells.add((fd, index, bytes));
        }
    }
    bells.ring();
    let list = LIST.lock();
    if list.used == 0 && ASKED.lock()[0].is_none() {
        flush::rest();
    }
}

/// Connections on which something was published, and nobody has been woken yet.
struct Bells {
    ends: [(i32, u32, u64); BELLS_MAX],
    used: usize,
}

impl Bells {
    fn add(&mut self, end: (i32, u32, u64)) {
        if self.used == BELLS_MAX {
            self.ring();
        }
        self.ends[self.used] = end;
        self.used += 1;
    }

    fn ring(&mut self) {
        let used = std::mem::take(&mut self.used);
        // A few bells cost less than a core that somebody else wants as well.
        let mut may_yield = used >= BELLS_WORTH_YIELDING;
        for (fd, index, bytes) in &self.ends[..used] {
            let socket = socket::at(*index);
            let half = socket.sender.lock();
            let Some(stream) = &half.stream else { continue };
            let has_rung = ring(Connection::new(*fd, socket, stream), *bytes);
            if stream.outgoing.is_native_wanted() {
                let mut asked = ASKED.lock();
                asked.iter_mut().find(|place| place.is_none()).into_iter().for_each(|place| {
                    *place = Some((*fd, *index));
                });
            }
            drop(half);
            if has_rung && may_yield {
                // On one core this lets the peer wake up, and take its other words back.
                spin::yield_now();
                may_yield = false;
            }
        }
    }
}

fn at(place: usize) -> Option<(i32, u32)> {
    let list = LIST.lock();
    list.ends[..list.used].get(place).copied()
}

/// Only `publish` takes ends off, one thread at a time, and from the last one on: what is put in its
/// place has been looked at, or is new.
fn remove(place: usize, half: &mut Sender) {
    let mut list = LIST.lock();
    list.used -= 1;
    let last = list.used;
    list.ends[place] = list.ends[last];
    half.unflushed.is_listed = false;
}

/// Waits until nothing is left to flush or to let out. Peers that ask for the kernel's path are not
/// followed: `take_asked`.
#[cold]
pub fn settle() {
    let _critical = Critical::enter();
    loop {
        flush::finish();
        publish();
        if flush::done() >= flush::latest() && LIST.lock().used == 0 {
            return;
        }
    }
}

/// In the child of a fork: the parent lets out what the parent has held back.
pub fn reset_in_forked_child() {
    PUBLISHING.reset_in_forked_child();
    LIST.reset_in_forked_child();
    LIST.lock().used = 0;
    ASKED.reset_in_forked_child();
    *ASKED.lock() = [None; ASKED_MAX];
    for (_, socket) in socket::each_live() {
        let mut half = socket.sender.lock();
        half.cache.drop_unpublished();
        half.unflushed = flush::Unflushed::new();
    }
    flush::reset_in_forked_child();
}
