//! A session that several processes submit on: what its rings' memory holds besides, and its tags.
//!
//! ```text
//! rings   [submission ring][completion ring 0][call][members' page][completion ring 1] ... [n - 1]
//!
//! page      0 turn u32        whose turn it is to submit: 0, or a member's number plus one
//!          64 members u32     how many there may be; is over u32, 1 when the session has ended
//!          72 session index u32, generation u32, boot u64, epoch u64     written by the opener
//!          96 window u64      its length
//!   128 + 64n member n: life u32, generation u32
//!
//! turn    bits 0..7 the member's number plus one, 8..30 its generation, 31 others sleep
//! tag     bits 56..63 the member, below what is the member's own
//! ```
//!
//! Each member is a process. It writes the submission ring while it has the turn, and is the only
//! consumer of its own completion ring, into which the server puts whatever has its number in the
//! tag. Its life is a word that the kernel changes when it dies. The opener is member 0.
//!
//! A number is given again when its life has ended. Life and generation are one word of 64 bits, so
//! whoever is first to change it from the dead value has the number, lives and is the next generation
//! in one step. Nothing else names a generation but the turn: before a successor uses the number, it
//! has the server end what is under way by it (`all_of`).

use super::{
    CALL_AT, CALL_BYTES, COMPLETION_AT, COMPLETION_BYTES, DEPTH_MAX, RING_BYTES, RING_CONTROL_BYTES,
};

/// Processes that one session may have at a time.
pub const MEMBERS_MAX: u32 = 16;
/// Where the members' page begins in the rings' memory.
pub const MEMBERS_AT: usize = RING_BYTES;
/// Length of the members' page.
pub const MEMBERS_BYTES: usize = 4096;
/// Offset of the turn in the members' page.
pub const TURN_AT: usize = 0;
/// Offset of how many members there may be.
pub const COUNT_AT: usize = 64;
/// Offset of the word that says that the session has ended.
pub const OVER_AT: usize = 68;
/// Offset of the control plane's name for the session: index and generation.
pub const SESSION_AT: usize = 72;
/// Offset of the number of the control plane's run.
pub const BOOT_AT: usize = 80;
/// Offset of a number that no other session's files have.
pub const EPOCH_AT: usize = 88;
/// Offset of the window's length.
pub const WINDOW_AT: usize = 96;
/// Lowest bit of the member in a tag.
const MEMBER_SHIFT: u32 = 56;
/// Bytes of a completion ring with its control page.
const COMPLETION_RING_BYTES: usize = RING_CONTROL_BYTES + COMPLETION_BYTES as usize;

/// Offset in the members' page of the word with a member's life and, above it, its generation.
pub const fn member_at(member: u32) -> usize {
    128 + 64 * member as usize
}

/// Where the completion ring of a member begins in the rings' memory.
pub const fn completion_at(member: u32) -> usize {
    match member {
        0 => COMPLETION_AT,
        _ => MEMBERS_AT + MEMBERS_BYTES + (member as usize - 1) * COMPLETION_RING_BYTES,
    }
}

/// Length of the rings' memory of a session of so many members; of none, one process has it alone.
pub const fn rings_bytes(members: u32) -> usize {
    match members {
        0 => RING_BYTES,
        _ => MEMBERS_AT + MEMBERS_BYTES + (members as usize - 1) * COMPLETION_RING_BYTES,
    }
}

/// Operations that each of so many members may have under way. One of its share is left for who gets
/// its number next, whose first operation ends what it has left.
pub const fn depth(members: u32) -> usize {
    match members {
        0 => DEPTH_MAX,
        _ => DEPTH_MAX / members as usize - 1,
    }
}

/// The member that a tag names.
pub const fn member_of(tag: u64) -> u32 {
    (tag >> MEMBER_SHIFT) as u32
}

/// As Cancel's argument: everything that has the member's number in its tag. The result is how much of
/// that is under way still, at the device or with a thread.
pub const fn all_of(member: u32) -> u64 {
    tag_of(member, u64::MAX)
}

/// A member's tag; `own` is cut to 56 bits. With all of them it is no operation's (`all_of`).
pub const fn tag_of(member: u32, own: u64) -> u64 {
    (member as u64) << MEMBER_SHIFT | own & ((1 << MEMBER_SHIFT) - 1)
}

const _: () = assert!(CALL_AT + CALL_BYTES == MEMBERS_AT);
const _: () = assert!(COMPLETION_AT + COMPLETION_RING_BYTES == CALL_AT);
const _: () = assert!(member_at(MEMBERS_MAX) <= MEMBERS_BYTES);
const _: () = assert!(rings_bytes(1) == MEMBERS_AT + MEMBERS_BYTES);
const _: () = assert!(rings_bytes(2) == rings_bytes(1) + COMPLETION_RING_BYTES);
// All together have no more under way than the server takes, and a member's ring has room for its
// part however late the releases are published.
const _: () = assert!(depth(MEMBERS_MAX) >= 15 && (depth(3) + 1) * 3 <= DEPTH_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_rings_memory_lies_apart_and_inside() {
        for members in 1..=MEMBERS_MAX {
            let mut places: Vec<_> = (0..members).map(completion_at).collect();
            places.push(rings_bytes(members));
            places.iter().skip(1).for_each(|at| assert!(at % 4096 == 0 && *at > MEMBERS_AT));
            let later = places.windows(2).skip(1);
            later.for_each(|two| assert_eq!(two[1] - two[0], COMPLETION_RING_BYTES));
        }
    }

    #[test]
    fn a_tag_names_its_member_and_nothing_of_it_is_lost() {
        for member in [0, 1, MEMBERS_MAX - 1, 255] {
            let tag = tag_of(member, u64::MAX);
            assert_eq!((member_of(tag), tag << 8), (member, u64::MAX << 8));
        }
    }
}
