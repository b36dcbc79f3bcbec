//! Gives transfers to the kernel: for the device, or through its page cache.

use heliostat_abi::file::delegated::{OpKind, Operation, Piece, Way};
use heliostat_backend_uring::{Manner, Range};
use heliostat_server_loop::{Step, Token, QUANTUM};

use super::files::Turn;

/// What a request to the kernel costs of a turn. Its bytes count against the session's share of the
/// device instead: charged here, they would leave one request for each submission, and each wakes the
/// device by itself.
const FLIGHT_COST: i64 = QUANTUM / 16;

/// Gives a transfer to the kernel.
pub fn fly(turn: &mut Turn<'_>, way: Way) -> Step {
    let session = &mut *turn.session;
    let Some(entry) = session.operations.get_mut(turn.id.operation) else { return Step::Over };
    let Some(opened) = session.objects.get_mut(entry.operation.object) else {
        return turn.fail(libc::EBADF);
    };
    let direct = opened.file.direct.as_ref().filter(|_| way == Way::Direct);
    let file = direct.unwrap_or(&opened.file.buffered);
    let Operation { kind, offset, pieces, .. } = &entry.operation;
    let (kind, offset, bytes) = (*kind, *offset, pieces.bytes());
    let (one, many);
    let ranges = match pieces.as_slice() {
        [piece] => {
            one = [range(piece)];
            &one[..]
        }
        all => {
            many = all.iter().map(range).collect::<Vec<_>>();
            &many[..]
        }
    };
    let token = Token::Operation(turn.id);
    let memory = (&session.window, ranges);
    let manner = if direct.is_some() { Manner::Direct } else { Manner::Plain };
    let uring = &mut turn.engine.requests;
    let begun = match kind {
        OpKind::Read => uring.read(token, file, offset, memory, manner),
        OpKind::Append => uring.write(token, file, 0, memory, Manner::Append),
        _ => uring.write(token, file, offset, memory, Manner::Plain),
    };
    match begun {
        Ok(flight) => {
            (entry.way, entry.done) = (way, 0);
            if way == Way::Direct {
                opened.at_device.take_off();
            }
            turn.begun(flight, bytes);
            *turn.left -= FLIGHT_COST;
            Step::Over
        }
        Err(error) => turn.not_begun(&error),
    }
}

fn range(piece: &Piece) -> Range {
    Range { offset: piece.offset as usize, len: piece.bytes as usize }
}
