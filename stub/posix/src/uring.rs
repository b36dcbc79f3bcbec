//! Rings of the program (io_uring): what its entries name leaves the direct path, all else stays.
//!
//! The kernel works on a ring's entries where no stub sees it, but it takes them up in
//! io_uring_enter(2), which is caught. Before that call the entries that it will take up are looked
//! at here, in the ring's own memory:
//!
//! - an entry that moves bytes of a direct stream, polls it or shuts it: the stream makes a complete
//!   leave first, then the entry finds everything on the kernel's connection;
//! - one that closes a descriptor closes it as close(2) would;
//! - one that changes an epoll set is carried out here as epoll_ctl(2) is, and becomes an entry that
//!   only gives the answer (`entry`), so that event loops which send these by a ring lose nothing;
//! - a descriptor that is registered with a ring leaves at once, since entries name it by a place.
//!
//! What cannot be looked at makes the whole program native: a ring that the kernel polls (SQPOLL),
//! one of a kind that is not known here, and one whose setup was not seen.
//!
//! - `layout`: where head, tail and entries lie; `memory`: how they are reached
//! - `entry`: what one entry comes to; `register`: io_uring_register(2)

mod entry;
mod layout;
mod memory;
mod register;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::Arc;

use heliostat_base::lock::Lock;

use crate::owner;
use crate::thread::{self, Critical};
use entry::Fate;
use layout::{Shape, ENTRY_BYTES};
use memory::Memory;

pub use layout::PARAMS_BYTES;
pub use register::{registered, registering};

/// Rings of one process, each under one descriptor or registered place; one more, and the program
/// is native.
const RINGS_MAX: usize = 1024;

static KNOWN: Lock<Vec<Known>> = Lock::new(Vec::new());
/// Entries of `KNOWN`, so that a program without rings asks no lock when it closes something.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// By what a ring is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name {
    /// Its descriptor.
    Descriptor(i32),
    /// Its place among the rings that a thread has registered: thread id, place.
    Place(i32, u32),
}

struct Known {
    name: Name,
    ring: Arc<Ring>,
}

struct Ring {
    shape: Shape,
    /// Nothing in a forked child until it looks.
    memory: Lock<Option<Memory>>,
    /// Held while entries are looked at, so that none is carried out twice.
    looking: Lock<()>,
    /// It takes some kinds of entries only; what it would say to an answer of ours is not known.
    is_restricted: AtomicBool,
}

/// What a ring does cannot be seen: the whole program has to be native.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unseen;

/// The program's memory, which may not be there.
pub trait Program {
    /// Copies what lies at `address`; false where nothing does.
    fn fetch(&self, address: u64, room: &mut [u8]) -> bool;
    /// Copies `bytes` there; false where that cannot be.
    fn store(&self, address: u64, bytes: &[u8]) -> bool;
}

/// After io_uring_setup(2) gave `answer` and filled `params` in.
///
/// # Errors
/// A ring that cannot be looked at.
pub fn begin(answer: i32, params: &[u8; PARAMS_BYTES]) -> Result<(), Unseen> {
    let _critical = Critical::enter();
    let shape = Shape::of(params)?;
    let (name, memory) = match shape.is_place() {
        true => (Name::Place(thread::tid(), answer as u32), shape.given().ok_or(Unseen)?),
        false => (Name::Descriptor(answer), Memory::of(answer, &shape)?),
    };
    let ring = Ring {
        shape,
        memory: Lock::new(Some(memory)),
        looking: Lock::new(()),
        is_restricted: AtomicBool::new(false),
    };
    note(name, Arc::new(ring))
}

fn note(name: Name, ring: Arc<Ring>) -> Result<(), Unseen> {
    let mut known = KNOWN.lock();
    known.retain(|known| known.name != name);
    if known.len() >= RINGS_MAX {
        return Err(Unseen);
    }
    known.push(Known { name, ring });
    COUNT.store(known.len() as u32, Release);
    Ok(())
}

fn find(name: Name) -> Option<Arc<Ring>> {
    let known = KNOWN.lock();
    known.iter().find(|known| known.name == name).map(|known| known.ring.clone())
}

fn forget(name: Name) {
    let mut known = KNOWN.lock();
    let place = known.iter().position(|known| known.name == name);
    let gone = place.map(|place| known.swap_remove(place));
    COUNT.store(known.len() as u32, Release);
    drop(known);
    drop(gone); // unmaps, so that the kernel ends the ring with its last descriptor
}

/// How io_uring_enter(2) and io_uring_register(2) name a ring.
pub fn name(number: i32, is_place: bool) -> Name {
    match is_place {
        true => Name::Place(thread::tid(), number as u32),
        false => Name::Descriptor(number),
    }
}

/// Before io_uring_enter(2) takes up to `count` entries of the ring.
///
/// # Errors
/// They cannot be looked at.
pub fn submitting(name: Name, count: u32, program: &impl Program) -> Result<(), Unseen> {
    if owner::is_borrowed() {
        return Ok(());
    }
    let _critical = Critical::enter();
    let ring = find(name).ok_or(Unseen)?;
    let _alone = ring.looking.lock();
    let mut memory = ring.memory.lock();
    let memory = match (memory.take(), name) {
        (Some(known), _) => memory.insert(known),
        (None, Name::Descriptor(fd)) => memory.insert(Memory::of(fd, &ring.shape)?),
        (None, Name::Place(..)) => return Err(Unseen),
    };
    ring.look(memory, count, program).ok_or(Unseen)
}

impl Ring {
    /// Looks at what the kernel will take; `None` when it is not there.
    fn look(&self, memory: &Memory, count: u32, program: &impl Program) -> Option<()> {
        let shape = &self.shape;
        let word = |offset| memory.word(offset, program);
        let (head, tail) = (word(shape.head)?, word(shape.tail)?);
        let count = tail.wrapping_sub(head).min(count).min(shape.entries);
        let mut follows = false;
        for step in 0..count {
            let mut place = head.wrapping_add(step) & (shape.entries - 1);
            if let Some(array) = shape.array {
                place = word(array + place as usize * 4)?;
                if place >= shape.entries {
                    continue; // the kernel drops it
                }
            }
            let at = place as usize * shape.stride;
            let mut bytes = [0; ENTRY_BYTES];
            memory.fetch_entry(at, &mut bytes, program)?;
            let is_free = !follows && !self.is_restricted.load(Relaxed);
            follows = entry::is_linked(&bytes);
            let fate = entry::judge(&bytes, is_free, program);
            if fate != Fate::Kernels && entry::rewrite(&mut bytes, fate) {
                memory.store_entry(at, &bytes, program)?;
            }
        }
        Some(())
    }
}

/// Before the kernel closes `fd`. One load where there are no rings.
#[inline]
pub fn closing(fd: i32) {
    if COUNT.load(Acquire) != 0 && !owner::is_borrowed() {
        let _critical = Critical::enter();
        forget(Name::Descriptor(fd));
    }
}

/// Before the kernel closes the descriptors from `first` to `last`.
pub fn closing_range(first: u32, last: u32) {
    if COUNT.load(Acquire) == 0 {
        return;
    }
    let _critical = Critical::enter();
    let is_in =
        |name| matches!(name, Name::Descriptor(fd) if (first..=last).contains(&(fd as u32)));
    let names: Vec<Name> = KNOWN.lock().iter().map(|known| known.name).collect();
    names.into_iter().filter(|name| is_in(*name)).for_each(forget);
}

/// In the child of a fork: our mappings are not there, registered places are the parent's, and
/// nothing is freed.
pub fn reset_in_forked_child() {
    KNOWN.reset_in_forked_child();
    for known in KNOWN.lock().iter_mut() {
        known.ring.memory.reset_in_forked_child();
        known.ring.looking.reset_in_forked_child();
        std::mem::forget(known.ring.memory.lock().take());
        if let Name::Place(thread, _) = &mut known.name {
            *thread = 0; // nobody's
        }
    }
}
