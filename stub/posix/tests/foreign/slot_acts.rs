//! The steps of a slot's two sides, each beside what the words in memory say it must do.

use std::io::{IoSlice, IoSliceMut};

use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::stream::channel::{self as layout, slot as at, SlotState};
use heliostat_ring::stream::{MoveError, WriteCache};
use heliostat_stub_posix::net::channel::{Side, Slot};

use super::reply::check_address;
use super::slot::Player;

/// A slot in somebody's hands, with what that somebody was told.
#[derive(Clone)]
pub struct TakenSlot {
    pub slot: Slot,
    pub index: u32,
    pub generation: u32,
}

/// A slot just taken is Connecting, and both its lanes are empty.
pub fn check_fresh(player: &Player, held: &TakenSlot) {
    assert_eq!(held.slot.state(), SlotState::Connecting);
    assert_ne!(player.channel.offers() & 1 << held.index, 0, "not on offer");
    let (back, forth) = held.slot.lanes(Side::Client).expect("inside the channel");
    let ring_bytes = u64::from(player.channel.entry.ring_bytes);
    for lane in [back, forth] {
        assert_eq!((lane.unread(), lane.room(), lane.flags()), (Ok(0), Ok(ring_bytes), 0));
    }
}

/// State of a holder's stream as the word says: `None` for nonsense or another generation.
fn state(player: &Player, held: &TakenSlot) -> Option<SlotState> {
    let word = player.load(held.index, at::STATE);
    (word >> 8 == held.generation).then(|| SlotState::from_word(word)).flatten()
}

/// One step, chosen by `word`; true when the slot was given back.
pub fn act(player: &Player, held: &TakenSlot, side: Side, word: u64) -> bool {
    match word % 16 {
        0..=3 => step(player, held, word),
        4 => assert_eq!(held.slot.state(), state(player, held).unwrap_or(SlotState::Free)),
        5 => held.slot.share(side),
        6 => {
            let holders =
                player.load(held.index, at::HOLDERS + 4 * usize::from(side == Side::Server));
            assert_eq!(held.slot.let_go(side, false), holders <= 1);
        }
        7 => held.slot.leave(side),
        8 => check_peer(player, held, side),
        9 => check_addresses(player, held),
        10 => from(player, held, SlotState::Claimed, SlotState::Declined, Slot::revoke),
        12 => from(player, held, SlotState::Claimed, SlotState::Started, Slot::start),
        13 => from(player, held, SlotState::Claimed, SlotState::Left, Slot::retreat),
        14 => from(player, held, SlotState::Started, SlotState::Proven, Slot::prove),
        15 => from(player, held, SlotState::Started, SlotState::Declined, Slot::refuse),
        _ if side == Side::Client => {
            let is_acceptors = state(player, held) == Some(SlotState::Left);
            held.slot.clone().abandon();
            assert_eq!(player.channel.offers() & 1 << held.index, 0, "still on offer");
            return !is_acceptors;
        }
        _ => drop(held.slot.lanes(side).expect("inside the channel")),
    }
    false
}

/// A step of the state word: what it may do depends on that word alone.
fn step(player: &Player, held: &TakenSlot, word: u64) {
    use SlotState::*;
    let (before, state) = (player.load(held.index, at::STATE), state(player, held));
    let (said, wanted, next) = match (word % 16, state) {
        (0, _) => (Some(offer(held, word)), state == Some(Connecting), Offered),
        (1, _) => (
            Some(held.slot.claim(acceptor(word), &[word as u8; 16])),
            state == Some(Offered),
            Claimed,
        ),
        (2, _) => (Some(held.slot.decline()), state == Some(Offered), Declined),
        (_, Some(Declined | Withdrawn)) => {
            assert!(held.slot.withdraw(), "it is no stream already");
            (None, false, Withdrawn)
        }
        _ => {
            let is_open = matches!(state, Some(Connecting | Offered));
            (Some(held.slot.withdraw()), is_open, Withdrawn)
        }
    };
    assert!(said.is_none_or(|said| said == wanted), "{state:?}: step {} said {said:?}", word % 16);
    let after = if wanted { next.in_word(before) } else { before };
    assert_eq!(player.load(held.index, at::STATE), after, "{state:?}: step {}", word % 16);
}

/// A step that one state alone allows.
fn from(
    player: &Player,
    held: &TakenSlot,
    wanted: SlotState,
    to: SlotState,
    step: fn(&Slot) -> bool,
) {
    let (before, state) = (player.load(held.index, at::STATE), state(player, held));
    assert_eq!(step(&held.slot), state == Some(wanted), "{state:?} to {to:?}");
    let after = if state == Some(wanted) { to.in_word(before) } else { before };
    assert_eq!(player.load(held.index, at::STATE), after, "{state:?} to {to:?}");
}

fn acceptor(word: u64) -> ObjectId {
    ObjectId { index: (word >> 8) as u32, generation: (word >> 40) as u32 }
}

fn address(word: u64) -> NetAddress {
    let port = (word >> 8) as u16;
    match word >> 24 & 1 {
        0 => NetAddress::new((((word >> 32) as u32).to_be_bytes(), port).into()),
        _ => NetAddress::new(([(word >> 48) as u16; 8], port).into()),
    }
}

/// Offers the slot under two addresses of one family, which must lie there afterwards.
fn offer(held: &TakenSlot, word: u64) -> bool {
    let (client, server) = (address(word), address(word ^ 1 << 8));
    let offered = held.slot.offer(client, server, word);
    assert_eq!(held.slot.offered_by(), Some((client, word)));
    assert_eq!(held.slot.ends(), Some((client, server)));
    offered
}

fn check_peer(player: &Player, held: &TakenSlot, side: Side) {
    let bit = if side == Side::Client { at::CLOSED_SERVER } else { at::CLOSED_CLIENT };
    let has_left = player.load(held.index, at::CLOSED) & bit != 0;
    assert_eq!(held.slot.peer_left(side), has_left);
    assert!(held.slot.peer_may_be_gone(side) || !has_left);
}

/// Foreign addresses are none, or in the one form that the kernel's answers are compared with.
fn check_addresses(player: &Player, held: &TakenSlot) {
    let family = player.load(held.index, at::FAMILY) & 0xff;
    let (offered, ends) = (held.slot.offered_by(), held.slot.ends());
    assert_eq!((offered.is_some(), ends.is_some()), (matches!(family, 4 | 6), offered.is_some()));
    let (Some((client, _)), Some(ends)) = (offered, ends) else { return };
    assert_eq!(client, ends.0);
    [ends.0, ends.1].into_iter().for_each(check_address);
}

/// Writes and reads at most `length` bytes; counts stay inside what was asked and the ring.
pub fn move_bytes(player: &Player, held: &TakenSlot, side: Side, length: u16) {
    let (incoming, outgoing) = held.slot.lanes(side).expect("inside the channel");
    let (mut bytes, limit) = (vec![0xa5; usize::from(length)], player.channel.entry.ring_bytes);
    let written = outgoing.write(&[IoSlice::new(&bytes)], &mut WriteCache::new());
    let read = incoming.read(&mut [IoSliceMut::new(&mut bytes)], false).map(|done| done.bytes);
    let taken = outgoing.take_back().map(|bytes| bytes.len()).map_err(MoveError::from);
    for count in [written, read, taken] {
        assert!(count.is_err() || count.is_ok_and(|count| count <= limit as usize));
    }
    assert!(written.is_err() || written.is_ok_and(|count| count <= usize::from(length)));
    assert_eq!(layout::ring_offset(0, 0, limit), layout::DATA);
}
