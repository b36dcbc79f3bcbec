//! The kernel's own offset, where somebody else looks at it.
//!
//! - A call that needs it (sendfile, a lock from the offset on, a read that is not answered from a
//!   mapping) holds a ticket while it runs; the offset is not taken over meanwhile.
//! - Another process that may move it (fork, exec, a passed descriptor) makes it the kernel's for
//!   ever; positioned reads go on from the mapping.
//! - A child of vfork shares our tables and the kernel's offsets, and often takes descriptors over
//!   an exec. Before it starts all offsets are given back; those it can keep are shared. What other
//!   threads take over meanwhile it leaves alone: its descriptors may be other files by then.

use heliostat_abi::code::Unmapped;
use heliostat_base::process::is_single_threaded;
use heliostat_ring::offset::Entered;

use super::word::{change_candidate, Word};
use super::{description, lease};
use crate::thread::{self, Critical};
use crate::{owner, report, table};

/// What is to be given back by [`done`] after a call that moved the kernel's offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ticket {
    /// Nothing.
    None,
    /// To a candidate's word.
    Candidate,
    /// To this description, if it is the same file's still.
    Described(u32, Entered),
}

impl Ticket {
    /// As a number of 32 bits, for a place that remembers one: a description's place takes 13 bits, and
    /// which file it was as many.
    pub fn number(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Candidate => 1,
            Self::Described(index, entered) => 2 + u64::from(index) + (u64::from(entered.0) << 16),
        }
    }

    /// From that number.
    pub fn from_number(number: u64) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Candidate,
            described => {
                let index = (described & 0xffff).saturating_sub(2);
                Self::Described(index as u32, Entered((described >> 16) as u16))
            }
        }
    }
}

/// Before the kernel does a call that needs the offset of `fd`.
pub fn needs_offset(fd: i32) -> Ticket {
    let word = Word::of(fd);
    // A child of vfork has its parent's offsets, given back, and perhaps other files.
    if !word.is_file() || owner::is_vfork_child() {
        return Ticket::None;
    }
    let _critical = Critical::enter();
    if is_single_threaded() {
        if let Some(index) = word.index() {
            description::at(index).position.0.give_back(fd, false);
        }
        return Ticket::None;
    }
    loop {
        // Another thread may give a candidate its description at any moment.
        let word = Word::of(fd);
        if let Some(index) = word.index() {
            return match description::at(index).position.0.enter(fd) {
                Some(entered) => Ticket::Described(index, entered),
                None => Ticket::None,
            };
        }
        if !word.is_file() || word.is_shared() {
            return Ticket::None;
        }
        // More calls than can be counted: then the offset stays the kernel's for good.
        let counted = word.take_off();
        let next = counted.unwrap_or(word.with_shared());
        if table::change_file(fd, word.0, next.0) {
            return counted.map_or(Ticket::None, |_| Ticket::Candidate);
        }
    }
}

/// `needs_offset`, if it does.
pub fn needs_offset_if(fd: i32, moves: bool) -> Ticket {
    if moves {
        needs_offset(fd)
    } else {
        Ticket::None
    }
}

/// After the call.
pub fn done(fd: i32, ticket: Ticket) {
    match ticket {
        Ticket::None => {}
        Ticket::Candidate => {
            change_candidate(fd, |word| Some(word.land()));
        }
        Ticket::Described(index, entered) => description::at(index).position.0.leave(entered),
    }
}

/// Another process may move the offset from now on. In a critical section.
pub(super) fn share(fd: i32, word: Word) {
    let mut word = word;
    while word.is_file() {
        if let Some(index) = word.index() {
            let position = &description::at(index).position.0;
            if !position.is_shared() {
                report::count_unmapped(Unmapped::Shared);
                position.give_back(fd, true);
            }
            return;
        }
        if table::change_file(fd, word.0, word.with_shared().0) {
            return;
        }
        // Counted, closed, or described by another thread.
        word = Word::of(fd);
    }
}

fn share_all() {
    let _critical = Critical::enter();
    table::walk_files(0, u32::MAX).for_each(|(fd, word)| share(fd, Word(word)));
}

/// Before a fork: both processes move the offsets.
pub fn before_fork() {
    share_all();
}

/// After it, in the parent: what another thread has opened meanwhile.
pub fn after_fork() {
    share_all();
}

/// In the child of a fork, before anything else. Allocates nothing.
pub fn in_forked_child() {
    lease::forget_leaving();
    description::reset_in_forked_child();
    for (fd, word) in table::walk_files(0, u32::MAX) {
        match Word(word).index() {
            Some(index) => description::at(index).position.0.end_move(fd),
            None => share(fd, Word(word)),
        }
    }
}

/// Before a child that shares our memory is made, other than a thread.
pub fn before_spawn() {
    thread::spawns();
    thread::end_guard();
    let _critical = Critical::enter();
    for (fd, word) in table::walk_files(0, u32::MAX) {
        let word = Word(word);
        match word.index() {
            _ if word.is_kept() => share(fd, word),
            Some(index) => description::at(index).position.0.give_back(fd, false),
            None => {}
        }
    }
}

/// Before execve(2): the new image knows the kernel's offsets only, and inherits the mask. True
/// when `exec_failed` has to be called should it return: other threads read on until it does not.
pub fn before_exec() -> bool {
    thread::end_guard();
    // What a child of vfork can keep is shared by now, and the rest may be other files than ours.
    if owner::is_vfork_child() {
        return false;
    }
    let has_others = !is_single_threaded();
    if has_others {
        lease::begin_leaving();
    } else if lease::is_none_mapped() {
        return false;
    }
    let _critical = Critical::enter();
    for (fd, word) in table::walk_files(0, u32::MAX) {
        if let Some(index) = Word(word).index() {
            let file = description::at(index);
            // Who had it before us has taken the offset over, and who has it after us sees that
            // we leave: `lease::adopt` looks while it has it.
            let _held = has_others.then(|| file.held.lock());
            file.position.0.give_back(fd, false);
        }
    }
    has_others
}

/// After an execve(2) that came back.
pub fn exec_failed() {
    lease::end_leaving();
}

/// Before a descriptor travels in a message (SCM_RIGHTS).
pub fn passing(fd: i32) {
    let word = Word::of(fd);
    if word.is_file() {
        let _critical = Critical::enter();
        share(fd, word);
    }
}
