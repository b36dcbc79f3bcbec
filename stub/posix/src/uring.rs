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
//! Which rings there are is in `program_rings`.
//!
//! - `entry`: what one entry comes to; `register`: io_uring_register(2)

mod entry;
mod register;

use std::sync::atomic::Ordering::Relaxed;

use crate::owner;
use crate::program_rings::{find, Memory, Name, Program, Ring, Unseen, ENTRY_BYTES};
use crate::thread::Critical;
use entry::Fate;

pub use register::{registered, registering};

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
