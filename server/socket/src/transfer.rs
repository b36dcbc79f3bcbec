//! Bytes between a connection and a window, by a buffer of the loop's.

use heliostat_abi::file::delegated::{Operation, Piece, Way};
use heliostat_server_loop::{Step, Turn};
use rustix::io::Errno;
use rustix::net::{recv, send as send_now, RecvFlags, SendFlags};

use super::sockets::Sockets;
use super::wait::{wait, For};

/// Receives what is there, up to what the pieces hold, and waits while there is nothing.
pub(crate) fn receive(turn: &mut Turn<'_, Sockets>, asked: &Operation) -> Step {
    let (done, place) = match next_piece(turn, asked) {
        Ok(next) => next,
        Err(step) => return step,
    };
    let Some(socket) = turn.session.objects.get_mut(asked.object) else {
        return turn.fail(libc::EBADF);
    };
    if let Some(errno) = socket.broken.take() {
        return turn.fail(errno.raw_os_error());
    }
    let buffer = &mut turn.engine.service.buffer;
    let room = buffer.len().min(place.bytes as usize);
    let received = recv(&socket.descriptor, &mut buffer[..room], RecvFlags::DONTWAIT);
    match received.map(|(_, length)| length) {
        Ok(0) => turn.end(done as i64),
        Ok(length) => {
            let copied = turn.session.window.copy_in(place.offset as usize, &buffer[..length]);
            if copied.is_err() {
                return turn.fail(libc::EFAULT);
            }
            *turn.left -= length as i64;
            go_on(turn, length as u64);
            // A buffer that was not filled was all that there was.
            let has_more = length == room && asked.pieces.at(done + length as u64).is_some();
            if has_more {
                Step::GoesOn
            } else {
                turn.end((done + length as u64) as i64)
            }
        }
        Err(Errno::AGAIN) if done > 0 => turn.end(done as i64),
        Err(Errno::AGAIN) => wait(turn, asked.object, For::Something),
        Err(Errno::INTR) => Step::GoesOn,
        // What came before it is told first, and this to the next one.
        Err(errno) if done > 0 => {
            socket.broken = Some(errno);
            turn.end(done as i64)
        }
        Err(errno) => turn.fail(errno.raw_os_error()),
    }
}

/// Sends all bytes of the pieces, and waits for room where there is none.
pub(crate) fn send(turn: &mut Turn<'_, Sockets>, asked: &Operation) -> Step {
    let (done, place) = match next_piece(turn, asked) {
        Ok(next) => next,
        Err(step) => return step,
    };
    let Some(socket) = turn.session.objects.get(asked.object) else {
        return turn.fail(libc::EBADF);
    };
    let buffer = &mut turn.engine.service.buffer;
    let length = buffer.len().min(place.bytes as usize);
    if turn.session.window.copy_out(place.offset as usize, &mut buffer[..length]).is_err() {
        return turn.fail(libc::EFAULT);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match send_now(&socket.descriptor, &buffer[..length], flags) {
        Ok(sent) => {
            *turn.left -= sent as i64;
            go_on(turn, sent as u64);
            let all = done + sent as u64;
            if asked.pieces.at(all).is_none() {
                return turn.end(all as i64);
            }
            Step::GoesOn
        }
        Err(Errno::AGAIN) => wait(turn, asked.object, For::Room),
        Err(Errno::INTR) => Step::GoesOn,
        Err(_) if done > 0 => turn.end(done as i64),
        Err(errno) => turn.fail(errno.raw_os_error()),
    }
}

/// How many bytes have been moved, and where the next ones lie; or how the operation ends without them.
fn next_piece(turn: &mut Turn<'_, Sockets>, asked: &Operation) -> Result<(u64, Piece), Step> {
    let Some(done) = turn.entry().map(|entry| entry.done) else { return Err(Step::Over) };
    let Some(place) = asked.pieces.at(done) else { return Err(turn.end(done as i64)) };
    match turn.session.objects.get(asked.object).map(|socket| socket.is_connected()) {
        Some(true) => Ok((done, place)),
        Some(false) => Err(turn.fail(libc::ENOTCONN)),
        None => Err(turn.fail(libc::EBADF)),
    }
}

fn go_on(turn: &mut Turn<'_, Sockets>, bytes: u64) {
    if let Some(entry) = turn.entry_mut() {
        entry.done += bytes;
        entry.way = Way::Kernel;
    }
}
