//! How a carried connection ends, as the kernel would end it, or goes back to its program.

use std::os::fd::AsRawFd;

use heliostat_abi::stream::channel::direction::{FULL, RESET, SWITCHED};
use heliostat_abi::stream::channel::slot::{CLOSED_SERVER, DONE_SERVER};
use heliostat_base::call;
use heliostat_ring::stream::Lane;

use crate::channel::{Channel, Handed};
use crate::connection::{Connection, Turn};
use crate::counts::Counts;

/// Room asked of the kernel for what a program that is gone has left in its ring.
const LAST_BYTES: i32 = 1 << 20;

/// Ends `connection` as `turn` says, unless its program has taken it back. Its descriptors are closed
/// elsewhere: the program has them too, and their options are its own at any time, so that closing them
/// may wait as long as it has asked.
pub fn end(mut connection: Connection, turn: Turn, channel: &mut Channel, counts: &Counts) {
    // The last turn, which does not end: what follows is told by flags and by the shadow's end.
    let turn = if connection.begin_turn() { turn } else { Turn::WantedBack };
    let bit = match turn {
        Turn::WantedBack => {
            give_back(&connection, counts);
            DONE_SERVER
        }
        Turn::Corrupt => {
            Counts::add(&counts.corrupt, 1);
            reset(&connection, counts);
            call::reset(connection.socket.as_raw_fd()); // the program has the socket still
            CLOSED_SERVER
        }
        Turn::Reset => {
            reset(&connection, counts);
            CLOSED_SERVER
        }
        Turn::Through | Turn::Idle | Turn::Moved(_) => {
            finish(&connection);
            CLOSED_SERVER
        }
    };
    channel.free(connection.slot, bit);
    channel.let_go(connection.socket);
    channel.let_go(connection.shadow);
}

/// Gives back what was handed over, and not touched: its user has its share of connections.
pub fn refuse_full(inward: &Lane, handed: Handed, channel: &mut Channel) {
    let _ = inward.accept_want();
    inward.raise(FULL | SWITCHED);
    channel.free(handed.slot, DONE_SERVER);
    channel.let_go(handed.socket);
    channel.let_go(handed.shadow);
}

/// From here on the loop neither receives nor sends. The flag comes after the last byte, and the
/// shadow's end, which wakes the program, after the flag.
fn give_back(connection: &Connection, counts: &Counts) {
    let _ = connection.inward.accept_want();
    connection.inward.raise(SWITCHED);
    Counts::add(&counts.given_back, 1);
}

/// Both ends see a reset: the program behind what was received, the peer at once.
fn reset(connection: &Connection, counts: &Counts) {
    connection.inward.raise(RESET);
    connection.wake_reader(counts);
    let _ = call::linger_zero(connection.socket.as_raw_fd());
}

/// The socket is closed in order; with a reset where the program has left bytes unread (RFC 2525,
/// 2.17). No close waits for what is unsent, whatever SO_LINGER the program had set.
fn finish(connection: &Connection) {
    let socket = connection.socket.as_raw_fd();
    match connection.is_gone && connection.inward.unread() != Ok(0) {
        true => _ = call::linger_zero(socket),
        false => {
            // The program may have the socket still, whose close alone tells the peer nothing then.
            let _ = call::shutdown(socket, libc::SHUT_WR);
            let _ = call::linger_off(socket);
        }
    }
}

/// What a program that is gone has left is the kernel's to send, as far as it takes it.
pub fn widen(connection: &Connection) {
    let socket = connection.socket.as_raw_fd();
    let _ = call::set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, LAST_BYTES);
}
