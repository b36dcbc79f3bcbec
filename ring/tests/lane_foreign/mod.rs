//! What the fuzz target and the replay test do with one input: a peer's writes among own calls.
//!
//! ```text
//! input = [shape u8] and records of 11 bytes:  [what u8][a u16][word u64]
//! shape = low 3 bits: ring of 64 << n bytes   bit 3: words change inside calls   high: stagger
//! what  = 0 a position   1 another word   2 a ring byte    (the peer writes it: all as `strike`)
//!         3 the same, but inside a later call
//!         4 write   5 read or peek   6 discard   7 take back   8 fill from a file
//!         9 look at everything   10 sleep words, flags, bells, wish   11 start anew
//! ```
//! As long as the peer has written nothing the lane must be a queue (`model`). After that every
//! answer is right that stays inside the ring: no panic, no byte outside, no count above what was
//! asked or above the ring, and no word written by the side that it does not belong to.

pub mod memory;
pub mod model;
mod play;
pub mod step;

use std::sync::Arc;

use heliostat_abi::stream::channel::direction as at;
use heliostat_ring::stream::Lane;
use memory::{Arena, Restless, DATA, WORDS};
use play::Player;
use step::{steps, Step};

/// Kinds of steps.
const KINDS: u8 = 12;
/// Words of a direction: positions first, then all others.
pub const POSITIONS: [usize; 7] =
    [at::TAIL, at::ORIGIN, at::HEAD, at::PREFIX, at::TAKEN, at::HELD, at::HELD_UNTIL];
pub const OTHERS: [usize; 6] =
    [at::FLAGS, at::BELLS, at::READER_ASLEEP, at::WANT_NATIVE, at::WRITER_ASLEEP, at::DRAINED];
/// Kinds of step 10, by `a`: raise; reader sleeps, is awake, is taken; the same of the writer;
/// want, retract, accept; a bell counted, not counted after all, drained; bytes before the ring sent,
/// and taken.
pub const SIGNALS: u16 = 15;

pub fn exercise(input: &[u8]) {
    let Some((shape, script)) = input.split_first() else { return };
    let (capacity, stagger) = (64u32 << (shape & 7), u64::from(shape >> 4) * 320);
    let Some(arena) = Arena::new(capacity).map(Arc::new) else { return };
    let steps = steps(script, KINDS);
    if shape & 8 == 0 {
        let lane = Lane::new(&arena.memory, WORDS, DATA, capacity).expect("inside the mapping");
        let mut player = Player::new(lane.clone(), &arena, stagger);
        player.file_lane = Some(lane);
        steps.for_each(|step| player.step(step));
    } else {
        let place = Restless::new(&arena);
        let mut player = Player::new(Lane::over(place.clone()), &arena, stagger);
        player.strikes = Some(place);
        steps.for_each(|step| player.step(step));
    }
    arena.check_guards();
}
