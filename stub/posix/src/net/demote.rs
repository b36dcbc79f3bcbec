//! Leaving the direct path, whoever asks, also while it is not known yet what a connection is.
//!
//! How a stream leaves without losing a byte is in `switch`.

use heliostat_abi::code::Native;
use heliostat_abi::stream::channel::direction::SWITCHED;
use heliostat_abi::stream::channel::SlotState;

use super::socket::{self, Stage};
use super::{accept, carried, connect, connecting, delegated, switch, unflushed};
use crate::flush;
use crate::thread::Critical;

/// Moves connection `index` to the kernel's path (`switch::leave`).
#[cold]
pub fn leave(fd: i32, index: u32, reason: Native) {
    if matches!(reason, Native::Ring | Native::Passed) {
        delegated::note_given(socket::at(index));
    }
    settle();
    connecting::give_up(fd, index);
    let _critical = Critical::enter();
    accept::decide(fd, index, Some(reason));
    switch::leave(fd, index, reason);
}

/// What waits for a flush is published before it is taken back for the shadow.
fn settle() {
    if flush::is_busy() {
        unflushed::settle();
    }
}

/// As `leave`, with both directions off the ring when this returns.
#[cold]
pub fn leave_at_once(fd: i32, index: u32, reason: Native) {
    settle();
    connecting::give_up(fd, index);
    let _critical = Critical::enter();
    accept::decide(fd, index, Some(reason));
    switch::leave_at_once(fd, index, reason);
}

/// What the slot or the shadow has said that ends the direct path: nobody took the offer, the claim
/// was given up, the offer was false, the connection has ended early, or the peer has switched.
#[cold]
pub fn follow(fd: i32, index: u32) {
    let _critical = Critical::enter();
    let Some(stream) = socket::at(index).stream() else { return };
    if carried::is_lost(socket::at(index), &stream) {
        return leave(fd, index, Native::LoopEnded);
    }
    match (socket::at(index).stage(), stream.slot.state()) {
        (Stage::Offered, SlotState::Offered) => {
            if switch::withdraw(fd, index, Native::NotAccepted) {
                connect::forget_channel(&stream.slot.channel);
            }
        }
        (Stage::Offered, SlotState::Claimed) => _ = switch::withdraw(fd, index, Native::DoneEarly),
        (Stage::Accepted, _) => _ = switch::resolve(fd, index, Native::DoneEarly),
        (_, state) if state.is_stream() && stream.incoming.flags() & SWITCHED == 0 => {}
        _ => leave(fd, index, Native::PeerAsked),
    }
}

/// Before a connect(2) that dissolves the connection: the peer sees the reset that the kernel sends,
/// and whatever the descriptor is next, is the kernel's.
#[cold]
pub fn dissolve(fd: i32, index: u32) {
    let _critical = Critical::enter();
    accept::decide(fd, index, Some(Native::Call));
    switch::dissolve(fd, index);
}
