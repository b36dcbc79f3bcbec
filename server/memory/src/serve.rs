//! Begins operations on regions and goes on with them, a turn at a time.

use heliostat_abi::file::delegated::{OneRead, OpKind, Operation};
use heliostat_abi::memory::Rights;
use heliostat_server_loop::{Engine, Session, Step, Turn, COST_MIN};

use super::handles::Refusal;
use super::memories::Memories;
use super::work::Work;

/// How far an operation has come in this turn.
enum Progress {
    /// So many bytes more, of so many.
    Moved(u64, u64),
    /// It is over, with a result.
    Ended(u64),
}

/// Begins an operation or goes on with it.
pub fn serve(turn: &mut Turn<'_, Memories>) -> Step {
    let Some(entry) = turn.entry() else { return Step::Over };
    let (asked, done) = (entry.operation, entry.done);
    match go_on(turn, &asked, done) {
        Ok(Progress::Ended(result)) => {
            *turn.left -= COST_MIN;
            turn.end(result as i64)
        }
        Ok(Progress::Moved(bytes, whole)) => {
            *turn.left -= cost(bytes);
            if done + bytes >= whole {
                return turn.end(whole as i64);
            }
            if let Some(entry) = turn.entry_mut() {
                entry.done = done + bytes;
            }
            Step::GoesOn
        }
        Err(Refusal::Errno(errno)) => {
            *turn.left -= COST_MIN;
            turn.fail(errno)
        }
        Err(Refusal::Unknown) => {
            *turn.left -= COST_MIN;
            let looks = turn.engine.looks_for_orders;
            match turn.session.service.is_none(turn.id.operation, looks) {
                true => turn.fail(libc::EBADF),
                // Rings are looked at more often than orders, and a handle may be used as soon as the
                // control plane has answered.
                false => Step::GoesOn,
            }
        }
        Err(Refusal::Moves(region)) => {
            *turn.left -= COST_MIN;
            turn.session.service.wait(region, turn.id.operation);
            Step::Over
        }
    }
}

/// Copies a read of one piece that needs no further turn; its bytes.
pub fn read_at_once(
    engine: &Engine<Memories>,
    session: &Session<Memories>,
    read: &OneRead,
    left: &mut i64,
) -> Option<u64> {
    let bytes = u64::from(read.piece.bytes);
    if i64::from(read.piece.bytes) > *left {
        return None;
    }
    let page = &engine.service.page;
    let area = session.service.find(page, read.object, Rights::READ).ok()?;
    let place = (&*session.window, read.piece.offset);
    area.read_to(read.offset, place, bytes, bytes).ok()?;
    *left -= cost(bytes);
    Some(bytes)
}

fn go_on(turn: &mut Turn<'_, Memories>, asked: &Operation, done: u64) -> Result<Progress, Refusal> {
    let id = turn.id.operation;
    let work = Work {
        handles: &turn.session.service,
        page: &turn.engine.service.page,
        window: &turn.session.window,
        most: (*turn.left).max(COST_MIN) as u64,
    };
    match asked.kind {
        OpKind::Read | OpKind::Write => {
            let moved = work.transfer(asked, done)?;
            Ok(Progress::Moved(moved, asked.pieces.bytes()))
        }
        OpKind::Set => work.set(asked, done).map(|(moved, whole)| Progress::Moved(moved, whole)),
        OpKind::Copy => {
            let known = work.handles.copy_source(id);
            let source = known.map_or_else(|| work.copy_source(asked), Ok)?;
            let copied = work.copy(asked, &source, done);
            let is_over = matches!(copied, Ok(now) if done + now >= source.bytes);
            if !is_over && known.is_none() {
                // Also for one that waits: its words in the window may be others by then.
                turn.session.service.keep_copy_source(id, source);
            }
            Ok(Progress::Moved(copied?, source.bytes))
        }
        OpKind::FetchAdd | OpKind::CompareSwap | OpKind::Swap => {
            work.change_word(asked).map(Progress::Ended)
        }
        _ => Err(Refusal::Errno(libc::EINVAL)),
    }
}

/// What a part costs of a turn: its bytes, and at least what its handling takes.
fn cost(bytes: u64) -> i64 {
    COST_MIN.max(bytes as i64)
}
