//! The node page: what the control plane tells every session without being asked.
//!
//! One page set, written by the control plane only (sealed against other writers), mapped
//! read-only by every stub. A stub learns with one load whether a cached answer still holds.
//!
//! ```text
//! 0     magic u32, version u32, boot u64
//! 64    registry word u32: changes whenever an address starts or stops being listened on
//! 128   life word u32: a thread id while the control plane lives; the kernel changes it at its death
//! 192   partition word u32: changes whenever the machine's cores are parted otherwise
//! 4096  port words      u32 x PORTS_MAX     change whenever the address gets a new channel
//! ...   channel words   u32 x CHANNELS_MAX  generation and state
//! ...   session words   u32 x SESSIONS_MAX  generation and state
//! ...   region words    u32 x REGIONS_MAX   change whenever a consumer joins or leaves
//! ...   lease words     u32 x LEASES_MAX    generation and state of a file under a lease
//! ```

use crate::limits::{CHANNELS_MAX, LEASES_MAX, PORTS_MAX, REGIONS_MAX, SESSIONS_MAX};
use crate::name::ObjectId;
use crate::table::next_generation;

/// First four bytes of the page: "HNOD".
pub const MAGIC: u32 = u32::from_le_bytes(*b"HNOD");
/// Offset of the boot number (u64).
pub const BOOT: usize = 8;
/// Offset of the registry word.
pub const REGISTRY: usize = 64;
/// Offset of the life word (u32): the id of a thread of the control plane, kept as the owner of a
/// robust futex. The kernel replaces it with FUTEX_OWNER_DIED when the control plane dies in
/// whatever way, and before any lease it held is dropped (source: robust_futex_ABI, do_exit). A
/// stub that maps the page remembers the word; another value means that no lease holds.
pub const LIFE: usize = 128;
/// Offset of the partition word (u32): the generation of `cores::CoresState`, 0 before the first.
pub const PARTITION: usize = 192;
const PORTS: usize = 4096;
const CHANNELS: usize = PORTS + PORTS_MAX * 4;
const SESSIONS: usize = CHANNELS + CHANNELS_MAX * 4;
const REGIONS: usize = SESSIONS + SESSIONS_MAX * 4;
const LEASES: usize = REGIONS + REGIONS_MAX * 4;
/// Length of the whole page set, a multiple of 4096.
pub const BYTES: usize = LEASES + LEASES_MAX * 4;

const _: () = assert!(BYTES % 4096 == 0);

/// Offset of the word of listening address `index`.
pub const fn port_word(index: u32) -> usize {
    PORTS + index as usize * 4
}
/// Offset of the word of channel `index`.
pub const fn channel_word(index: u32) -> usize {
    CHANNELS + index as usize * 4
}
/// Offset of the word of session `index`.
pub const fn session_word(index: u32) -> usize {
    SESSIONS + index as usize * 4
}
/// Offset of the word of snapshot region `index`.
pub const fn region_word(index: u32) -> usize {
    REGIONS + index as usize * 4
}

/// Offset of the word of lease `index`.
pub const fn lease_word(index: u32) -> usize {
    LEASES + index as usize * 4
}

/// State of a granted object, in the two low bits of its word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nobody holds it; what still runs on an old generation runs on, but starts nothing new.
    Free,
    /// In force.
    Active,
    /// Ended by the control plane: leave the direct path now.
    Revoked,
}

/// A word of the page for this generation (30 bits) and state.
pub const fn word(generation: u32, state: State) -> u32 {
    let bits = match state {
        State::Free => 0,
        State::Active => 1,
        State::Revoked => 2,
    };
    (generation << 2) | bits
}

/// The word that says what holds for an object. A freed object's carries the next generation, so
/// that it can never match again.
pub fn word_of(id: ObjectId, state: State) -> u32 {
    let generation = match state {
        State::Free => next_generation(id.generation),
        State::Active | State::Revoked => id.generation,
    };
    word(generation, state)
}

/// State of the object of `generation` according to its word: another generation is `Free`.
pub const fn state(word: u32, generation: u32) -> State {
    if word >> 2 != generation & 0x3fff_ffff {
        return State::Free;
    }
    match word & 3 {
        1 => State::Active,
        2 => State::Revoked,
        _ => State::Free,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_tells_its_own_generation_only() {
        assert_eq!(state(word(7, State::Active), 7), State::Active);
        assert_eq!(state(word(7, State::Revoked), 7), State::Revoked);
        assert_eq!(state(word(8, State::Active), 7), State::Free);
        assert_eq!(state(0, 0), State::Free);
    }
}
