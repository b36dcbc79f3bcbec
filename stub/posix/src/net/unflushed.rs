//! What direct connections have to say after an fdatasync(2) that has not ended: written, and not
//! published (output commit).
//!
//! The bytes lie in the ring behind its tail, where nobody but this process knows of them
//! (`heliostat_ring`'s `stream::unpublished`): with a process that is killed they are gone. They
//! wait for a ticket of `flush`, the newest that had been issued when they were written, whichever
//! thread wrote them. The program's waits publish what is due (`outlast`); all other ways out wait
//! until nothing is left to flush (`settle`).
//!
//! Locks, in this order: `PUBLISHING` -> a sender's -> `LIST` -> those of `flush`. What is published
//! is published under the first, so that who has settled knows that nobody is in the middle of it.

use std::io::IoSlice;
use std::sync::atomic::Ordering::Relaxed;

use heliostat_abi::code::Native;
use heliostat_abi::session::report::Counter;
use heliostat_base::lock::Lock;
use heliostat_base::{clock, spin};
use heliostat_ring::stream::MoveError;

use super::shadow::options::{CORK, HOLDS};
use super::socket::{self, Connection, Sender};
use super::{demote, end, shadow};
use crate::thread::Critical;
use crate::{flush, report};

/// Connections that hold something back; one more waits for the flush instead.
const LISTED_MAX: usize = 4096;
/// Peers that ask for the kernel's path while bytes are published to them; seldom one.
const ASKED_MAX: usize = 16;
/// A flush that is nearly done is looked for this long before a sleep.
const LOOK_NS: u64 = 30_000;

static PUBLISHING: Lock<()> = Lock::new(());
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

/// What a connection has written and not published, by ticket. There are two at most that have not
/// ended: a flush under way, and the next one.
#[derive(Clone, Copy, Default, Debug)]
pub struct Unflushed {
    first: Waiting,
    second: Waiting,
    is_listed: bool,
}

#[derive(Clone, Copy, Default, Debug)]
struct Waiting {
    ticket: u64,
    bytes: u64,
}

impl Unflushed {
    /// Nothing.
    pub const fn new() -> Self {
        let none = Waiting { ticket: 0, bytes: 0 };
        Self { first: none, second: none, is_listed: false }
    }

    fn add(&mut self, ticket: u64, bytes: u64) {
        let part = match self.first.bytes == 0 || self.first.ticket == ticket {
            true => &mut self.first,
            false => &mut self.second,
        };
        (part.ticket, part.bytes) = (ticket, part.bytes + bytes);
    }

    fn take_due(&mut self, done: u64) -> Option<Waiting> {
        let due = self.first;
        if due.bytes == 0 || due.ticket > done {
            return None;
        }
        (self.first, self.second) = (self.second, Waiting::default());
        Some(due)
    }

    fn forget(&mut self) {
        (self.first, self.second) = (Waiting::default(), Waiting::default());
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
    is_plain && flags & libc::MSG_MORE == 0 && socket.delay_options.load(Relaxed) & (CORK | HOLDS) == 0
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
    if publish_due(connection, half) == Published::CutOff {
        return Ok(Held::CutOff);
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
    Ok(Held::Bytes(bytes))
}

#[derive(PartialEq, Eq)]
enum Published {
    /// The peer asks for the kernel's path (D3).
    Asked,
    Done,
    CutOff,
}

/// Publishes what no flush is waited for any more. Under the sender's lock.
fn publish_due(connection: Connection<'_>, half: &mut Sender) -> Published {
    let Connection { fd, socket, stream } = connection;
    let lane = &stream.outgoing;
    let done = flush::done();
    let mut bytes = 0;
    while let Some(due) = half.unflushed.take_due(done) {
        if due.ticket >= flush::failed_from() {
            cut_off(connection, half);
            return Published::CutOff;
        }
        bytes += lane.publish_unpublished(due.bytes, &mut half.cache);
    }
    if bytes == 0 {
        return Published::Done;
    }
    if lane.take_sleeping_reader() {
        shadow::ring_bell(fd, socket, lane, bytes as usize);
    }
    match lane.is_native_wanted() {
        true => Published::Asked,
        false => Published::Done,
    }
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
    let asked = {
        let _critical = Critical::enter();
        flush::progress();
        publish()
    };
    for (fd, index) in asked.into_iter().flatten() {
        demote::leave(fd, index, Native::PeerAsked);
    }
}

fn publish() -> [Option<(i32, u32)>; ASKED_MAX] {
    let mut asked = [None; ASKED_MAX];
    let mut places = asked.iter_mut();
    let _alone = PUBLISHING.lock();
    let mut left = LIST.lock().used;
    while left > 0 {
        left -= 1;
        let Some((fd, index)) = at(left) else { continue };
        let socket = socket::at(index);
        let mut half = socket.sender.lock();
        let Some(stream) = half.stream.clone() else {
            half.cache.drop_unpublished();
            half.unflushed.forget();
            remove(left, &mut half);
            continue;
        };
        let published = publish_due(Connection::new(fd, socket, &stream), &mut half);
        if half.cache.unpublished() == 0 {
            remove(left, &mut half);
        }
        if published == Published::Asked {
            places.next().into_iter().for_each(|place| *place = Some((fd, index)));
        }
    }
    let list = LIST.lock();
    if list.used == 0 {
        flush::rest();
    }
    drop(list);
    asked
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

/// Waits until nothing is left to flush or to let out.
#[cold]
pub fn settle() {
    while flush::is_busy() {
        {
            let _critical = Critical::enter();
            flush::finish();
        }
        progress();
    }
}

/// A call that finds nothing and does not wait: publishes what is due, and has the next flush begun.
#[cold]
pub fn look_in() {
    flush::note_wait();
    progress();
    start();
}

/// What a wait does first: publishes what is due while flushes end, until `look` finds something for the
/// program to do, or `ends`, or all is flushed. True when `look` found something. `sleep` sleeps
/// for the given descriptor and for what `look` looks at.
#[cold]
pub fn outlast(
    ends: Option<u64>,
    mut look: impl FnMut() -> bool,
    mut sleep: impl FnMut(i32),
) -> bool {
    flush::note_wait();
    loop {
        progress();
        if !flush::is_busy() {
            return false;
        }
        if look() {
            start();
            return true;
        }
        if ends.is_some_and(|ends| clock::monotonic_ns() >= ends) {
            start();
            return false;
        }
        if !flush::is_flying() {
            let _critical = Critical::enter();
            flush::flush_here();
        } else if !is_soon_done(&mut look) {
            match flush::ring_fd() {
                Some(ring) => sleep(ring),
                None => flush::wait(),
            }
        }
    }
}

fn start() {
    let _critical = Critical::enter();
    flush::start();
}

/// Looks for a short while; true when the flush has ended, or there is something to do.
fn is_soon_done(look: &mut impl FnMut() -> bool) -> bool {
    let ends = clock::monotonic_ns() + LOOK_NS;
    let done = flush::done();
    let mut turns = spin::Spin::new();
    while clock::monotonic_ns() < ends {
        flush::progress();
        if flush::done() != done || look() {
            return true;
        }
        turns.turn();
    }
    false
}

/// In the child of a fork: the parent lets out what the parent has held back.
pub fn reset_in_forked_child() {
    PUBLISHING.reset_in_forked_child();
    LIST.reset_in_forked_child();
    LIST.lock().used = 0;
    for (_, socket) in socket::each_live() {
        let mut half = socket.sender.lock();
        half.cache.drop_unpublished();
        half.unflushed = Unflushed::new();
    }
    flush::reset_in_forked_child();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_due_by_its_ticket_and_in_order() {
        let mut unflushed = Unflushed::new();
        for (ticket, bytes) in [(4, 10), (4, 5), (5, 7), (5, 1)] {
            unflushed.add(ticket, bytes);
        }
        assert!(unflushed.take_due(3).is_none());
        let due = unflushed.take_due(4).expect("the first");
        assert_eq!((due.ticket, due.bytes), (4, 15));
        assert!(unflushed.take_due(4).is_none());
        unflushed.add(6, 2);
        let due = unflushed.take_due(6).expect("the second");
        assert_eq!((due.ticket, due.bytes), (5, 8));
        assert_eq!(unflushed.take_due(6).map(|due| due.bytes), Some(2));
        assert!(unflushed.take_due(u64::MAX).is_none());
    }
}
