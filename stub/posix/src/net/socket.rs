//! The table of connections and what this process knows of each.
//!
//! A place is found through the descriptor table, is never freed memory, and guards its two
//! halves by one lock each: one thread may read while another writes. Two descriptors of one
//! connection (dup) share a place.

mod connection;
mod halves;
mod holders;
mod places;
mod sleepers;
mod stage;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};

use heliostat_abi::code::Native;
use heliostat_abi::session::report::Path;
use heliostat_abi::stream::channel::slot;
use heliostat_base::lock::Lock;
use heliostat_ring::stream::Lane;

use super::channel::{Secret, Side, Slot};
use crate::waiting::HabitCell;

pub use connection::*;
pub use halves::*;
pub use places::*;
pub use sleepers::*;
pub use stage::*;

/// A direct stream as one process holds it.
#[derive(Clone)]
pub struct Stream {
    /// Its place in the channel.
    pub slot: Slot,
    /// Which end this is.
    pub side: Side,
    /// What comes in.
    pub incoming: Lane,
    /// What goes out.
    pub outgoing: Lane,
}

/// What one connection is, in this process.
pub struct Socket {
    /// The reading half and its lock.
    pub receiver: Lock<Receiver>,
    /// The writing half and its lock.
    pub sender: Lock<Sender>,
    /// Epoll sets that hold it (indices), so that closing and demoting find them.
    pub sets: Lock<BTreeSet<u32>>,
    /// Held while the connection leaves the direct path, so that it does so once.
    pub leaving: Lock<()>,
    /// Who sleeps on the shadow; held while bells are taken off.
    pub on_shadow: Lock<Sleepers>,
    /// Sleepers and cold interests that rely on a bell.
    pub armed: Lock<Armed>,
    /// This end stopped reading the ring for good (see `switch`).
    pub frozen: AtomicBool,
    /// The peer has switched, and its last bell is not here yet: nothing is to be seen before it.
    pub awaits_bell: AtomicBool,
    /// exec(2) was tried while it would have closed this descriptor: the holder is given back.
    pub holder_given: AtomicBool,
    /// Descriptors of this process that refer to it.
    descriptors: AtomicU32,
    /// Given out this often; tells an interest that its socket is another one now.
    generation: AtomicU32,
    /// True when this place is in use.
    live: AtomicBool,
    /// O_NONBLOCK of the open file description, as last seen.
    pub nonblocking: AtomicBool,
    /// `Stage`, as a number.
    stage: AtomicU32,
    /// What proves the offer.
    secret: [AtomicU64; 2],
    /// The client has begun its ring, and has not told the secret yet.
    pub is_secret_due: AtomicBool,
    /// When its offer was made (monotonic ns).
    pub offered_at_ns: AtomicU64,
    /// Counts news of the shadow while the connection is early, and how many of them the reader
    /// has been through: as long as they are one number, nothing early is to be read.
    pub shadow_news: AtomicU32,
    /// See there.
    pub shadow_news_read: AtomicU32,
    /// True for the accepting side.
    pub accepted: AtomicBool,
    /// Processes that this one had made when the connection began (`delegated::note_given`).
    pub children: AtomicU32,
    /// It was another process's before a fork.
    pub inherited: AtomicBool,
    /// Forks since it began: after one, other processes hold this end too.
    forks: AtomicU32,
    /// shutdown(SHUT_RD) was called here.
    pub read_shut: AtomicBool,
    /// shutdown(SHUT_WR) was called here.
    pub write_shut: AtomicBool,
    /// The shadow reached its end: the peer closed or died.
    pub shadow_ended: AtomicBool,
    /// The error that the kernel told with it; 0 for none.
    pub shadow_error: AtomicI32,
    /// The peer may have ended without a word, and the shadow has been looked at since.
    pub doubted: AtomicBool,
    /// Held while it is judged how the peer ended (see `end`).
    pub ending: Lock<()>,
    /// The shadow's end has been judged.
    pub end_settled: AtomicBool,
    /// The peer is gone as after a FIN: what comes in has ended, without an error.
    pub ended_in_order: AtomicBool,
    /// The error to be told once, as the kernel's socket would; 0 for none.
    pub pending_error: AtomicI32,
    /// Closed in both directions, by a reset or a write to nobody: writing fails from now on.
    pub broken: AtomicBool,
    /// Tail before the write that rang the last bell.
    pub bell_at: AtomicU64,
    /// SO_LINGER of zero seconds: closing resets.
    pub closes_with_reset: AtomicBool,
    /// A write found the ring full: who watches for room must look.
    pub starved: AtomicBool,
    /// The reader's head as the last write saw it: tells of room without a look at its line.
    pub head_seen: AtomicU64,
    /// Counts writes, to look at the shadow now and then.
    pub writes: AtomicU32,
    /// TSC of the last look at the shadow.
    pub probed_at: AtomicU64,
    /// Threads asleep in calls for this connection: on the shadow, or on `wakes` beside one that sleeps there.
    pub sleepers: AtomicU32,
    /// Bumped when one of them wakes.
    pub wakes: AtomicU32,
    /// How waits for bytes have ended, and waits for room.
    habits: [HabitCell; 2],
    /// SO_SNDBUF of the shadow before it was widened for bells.
    pub send_buffer: AtomicI32,
    /// TCP_NODELAY and TCP_CORK as the program set them (bits 0 and 1); see `option`.
    pub delay_options: AtomicU32,
    /// The hidden number of its TCP socket while a loop has that too (see `delegated`); 0: none has.
    pub carried: AtomicI32,
    /// A loop has had that: its shadow was another socket.
    pub was_carried: AtomicBool,
    /// Tells its shadow from other descriptors: the inode of that.
    pub shadow_inode: AtomicU64,
    /// How far that socket had come when the loop got it.
    pub base_taken: AtomicU64,
    /// See there.
    pub base_given: AtomicU64,
    /// It came from the queue of a shared listener: the place of its page, and one; else 0.
    pub shared_page: AtomicU32,
    /// The kernel connects it still, or its program does not know yet that it has: the reason why it is
    /// native unless it is carried then (see `connecting`). 0 otherwise.
    pub connecting: AtomicU32,
    /// Why it is native, once both halves are.
    reason: AtomicU32,
}

impl Socket {
    const fn new() -> Self {
        Self {
            receiver: Lock::new(Receiver::empty()),
            sender: Lock::new(Sender::empty()),
            sets: Lock::new(BTreeSet::new()),
            leaving: Lock::new(()),
            on_shadow: Lock::new(Sleepers::NONE),
            armed: Lock::new(Armed { readers: 0, writers: 0 }),
            frozen: AtomicBool::new(false),
            awaits_bell: AtomicBool::new(false),
            holder_given: AtomicBool::new(false),
            descriptors: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            live: AtomicBool::new(false),
            nonblocking: AtomicBool::new(false),
            stage: AtomicU32::new(0),
            secret: [const { AtomicU64::new(0) }; 2],
            is_secret_due: AtomicBool::new(false),
            offered_at_ns: AtomicU64::new(0),
            shadow_news: AtomicU32::new(0),
            shadow_news_read: AtomicU32::new(0),
            accepted: AtomicBool::new(false),
            children: AtomicU32::new(0),
            inherited: AtomicBool::new(false),
            forks: AtomicU32::new(0),
            read_shut: AtomicBool::new(false),
            write_shut: AtomicBool::new(false),
            shadow_ended: AtomicBool::new(false),
            shadow_error: AtomicI32::new(0),
            doubted: AtomicBool::new(false),
            ending: Lock::new(()),
            end_settled: AtomicBool::new(false),
            ended_in_order: AtomicBool::new(false),
            pending_error: AtomicI32::new(0),
            broken: AtomicBool::new(false),
            bell_at: AtomicU64::new(0),
            closes_with_reset: AtomicBool::new(false),
            starved: AtomicBool::new(false),
            head_seen: AtomicU64::new(0),
            writes: AtomicU32::new(0),
            probed_at: AtomicU64::new(0),
            sleepers: AtomicU32::new(0),
            wakes: AtomicU32::new(0),
            habits: [const { HabitCell::new() }; 2],
            send_buffer: AtomicI32::new(0),
            delay_options: AtomicU32::new(0),
            carried: AtomicI32::new(0),
            was_carried: AtomicBool::new(false),
            shadow_inode: AtomicU64::new(0),
            base_taken: AtomicU64::new(0),
            base_given: AtomicU64::new(0),
            shared_page: AtomicU32::new(0),
            connecting: AtomicU32::new(0),
            reason: AtomicU32::new(0),
        }
    }

    /// How far it is on its way to the rings.
    #[inline]
    pub fn stage(&self) -> Stage {
        Stage::from_word(self.stage.load(Acquire))
    }

    /// True while some of it is still the kernel's: see `early`. One load for all others.
    #[inline]
    pub fn is_early(&self) -> bool {
        self.stage.load(Relaxed) != 0
    }

    /// True while bytes that come in on the shadow may be payload, which nobody may take for bells.
    #[inline]
    pub fn reads_shadow(&self) -> bool {
        self.stage.load(Acquire) != 0
    }

    /// Notes how far it has come.
    pub fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u32, Release);
    }

    /// What proves the offer of this connection: the acceptor's, or as the client read it.
    pub fn secret(&self) -> Secret {
        let mut secret = [0; slot::SECRET_BYTES];
        for (part, word) in secret.chunks_exact_mut(8).zip(&self.secret) {
            part.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        secret
    }

    /// Keeps it.
    pub fn set_secret(&self, secret: &Secret) {
        for (part, word) in secret.chunks_exact(8).zip(&self.secret) {
            word.store(part.try_into().map_or(0, u64::from_le_bytes), Relaxed);
        }
    }

    /// This place's generation.
    pub fn generation(&self) -> u32 {
        self.generation.load(Acquire)
    }

    /// The stream, if any half is still direct.
    pub fn stream(&self) -> Option<Stream> {
        if let Some(stream) = &self.receiver.lock().stream {
            return Some(stream.clone());
        }
        self.sender.lock().stream.clone()
    }

    /// How the waits of this connection have ended.
    #[inline]
    pub fn habit(&self, for_room: bool) -> &HabitCell {
        &self.habits[usize::from(for_room)]
    }

    /// True when neither half is direct.
    pub fn is_native(&self) -> bool {
        self.reason.load(Acquire) != 0
    }

    /// How its bytes travel, for the report.
    pub fn path(&self) -> Path {
        match Native::from_number(self.reason.load(Acquire) as u8) {
            None | Some(Native::None) if self.carried.load(Relaxed) != 0 => Path::Delegated,
            None | Some(Native::None) => Path::Direct,
            Some(reason) => Path::Native(reason),
        }
    }

    /// Counts one write, under the sender's lock.
    #[inline]
    pub fn count_write(&self) -> u32 {
        let count = self.writes.load(Relaxed).wrapping_add(1);
        self.writes.store(count, Relaxed);
        count
    }

    /// True when this end must not read the ring any more.
    #[inline]
    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Relaxed)
    }

    /// Notes why it is native from now on.
    pub fn set_native(&self, reason: Native) {
        self.reason.store(reason as u32, Release);
    }

    /// It is carried from now on, after it was the kernel's while it was connected.
    pub fn leave_native(&self) {
        self.reason.store(0, Release);
    }

    fn begin(&self) {
        self.generation.fetch_add(1, AcqRel);
        self.descriptors.store(1, Relaxed);
        for flag in [&self.nonblocking, &self.read_shut] {
            flag.store(false, Relaxed);
        }
        for flag in [&self.closes_with_reset, &self.frozen, &self.holder_given, &self.inherited] {
            flag.store(false, Relaxed);
        }
        *self.armed.lock() = Armed { readers: 0, writers: 0 };
        *self.on_shadow.lock() = Sleepers::NONE;
        self.sleepers.store(0, Relaxed);
        for flag in [&self.write_shut, &self.shadow_ended, &self.broken, &self.starved] {
            flag.store(false, Relaxed);
        }
        for flag in [&self.end_settled, &self.ended_in_order, &self.doubted] {
            flag.store(false, Relaxed);
        }
        for flag in [&self.awaits_bell, &self.is_secret_due] {
            flag.store(false, Relaxed);
        }
        for word in [&self.stage, &self.shadow_news, &self.shadow_news_read, &self.forks] {
            word.store(0, Relaxed);
        }
        self.writes.store(0, Relaxed);
        for word in [&self.offered_at_ns, &self.probed_at, &self.head_seen, &self.bell_at] {
            word.store(0, Relaxed);
        }
        self.habits.iter().for_each(HabitCell::reset);
        self.shadow_error.store(0, Relaxed);
        self.pending_error.store(0, Relaxed);
        self.delay_options.store(0, Relaxed);
        self.carried.store(0, Relaxed);
        self.was_carried.store(false, Relaxed);
        self.connecting.store(0, Relaxed);
        self.reason.store(0, Relaxed);
        self.live.store(true, Release);
    }

    /// In the child of a fork: frees what other threads held, and leaves the parent's report.
    pub fn reset_in_forked_child(&self) {
        self.receiver.reset_in_forked_child();
        self.sender.reset_in_forked_child();
        self.sets.reset_in_forked_child();
        self.leaving.reset_in_forked_child();
        self.on_shadow.reset_in_forked_child();
        self.ending.reset_in_forked_child();
        self.armed.reset_in_forked_child();
        // The lines lie in the parent's page: dropping them here would clear them there.
        std::mem::forget(self.receiver.lock().line.take());
        std::mem::forget(self.sender.lock().line.take());
        std::mem::forget(self.receiver.lock().undecided.take());
        std::mem::forget(self.receiver.lock().left.take()); // its slot is the parent's to give back
        *self.on_shadow.lock() = Sleepers::NONE;
        self.sleepers.store(0, Relaxed);
        self.inherited.store(true, Relaxed);
    }
}
