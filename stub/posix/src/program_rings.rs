//! The program's own rings (io_uring): which there are, and where their submission queues lie.
//!
//! - `layout`: where head, tail and entries lie
//! - `memory`: how they are reached

mod layout;
mod memory;

use std::sync::Arc;

use heliostat_base::lock::Lock;
use heliostat_base::sync::Ordering::{Acquire, Release};
use heliostat_base::sync::{AtomicBool, AtomicU32};

use crate::owner;
use crate::thread::{self, Critical};
use layout::Shape;

pub(crate) use layout::ENTRY_BYTES;
pub use layout::PARAMS_BYTES;
pub(crate) use memory::Memory;

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

/// A ring under one of its names.
struct Known {
    name: Name,
    ring: Arc<Ring>,
}

/// A ring of the program's.
pub(crate) struct Ring {
    /// Where its parts lie.
    pub shape: Shape,
    /// Nothing in a forked child until it looks.
    pub memory: Lock<Option<Memory>>,
    /// Held while entries are looked at, so that none is carried out twice.
    pub looking: Lock<()>,
    /// It takes some kinds of entries only; what it would say to an answer of ours is not known.
    pub is_restricted: AtomicBool,
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
        true => (Name::Place(thread::tid(), answer as u32), Memory::given(&shape).ok_or(Unseen)?),
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

/// Knows a ring by one more name.
///
/// # Errors
/// One ring too many.
pub(crate) fn note(name: Name, ring: Arc<Ring>) -> Result<(), Unseen> {
    let mut known = KNOWN.lock();
    known.retain(|known| known.name != name);
    if known.len() >= RINGS_MAX {
        return Err(Unseen);
    }
    known.push(Known { name, ring });
    COUNT.store(known.len() as u32, Release);
    Ok(())
}

/// The ring of that name.
pub(crate) fn find(name: Name) -> Option<Arc<Ring>> {
    let known = KNOWN.lock();
    known.iter().find(|known| known.name == name).map(|known| known.ring.clone())
}

/// The name is none any more.
pub(crate) fn forget(name: Name) {
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
