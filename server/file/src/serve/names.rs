//! Operations that openers do: names, and the entries of directories.
//!
//! ```text
//! names copied once --Wanted--> control plane --> opener --> control plane --Opened, Done--> here
//! ```
//!
//! What comes back is copied into the window here, and only while its operation is there: one that
//! was cancelled touches the window no more, though what it asked for may be done all the same.

use heliostat_abi::file::delegated::{OpKind, Operation, Way, DEPTH_MAX, MODE_BITS, NOREPLACE};
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{Engine, Session, Step, COST_MIN};

use super::super::files::{Files, Turn};
use super::super::message::{FileEvent, OpenRequest};
use super::super::task::{Change, Task};

/// Asks the control plane for what may wait for a file system; the answer comes as an order.
pub fn ask_opener(turn: &mut Turn<'_>, asked: &Operation) -> Step {
    *turn.left -= COST_MIN;
    if turn.session.service.asking >= DEPTH_MAX {
        return turn.fail(libc::EAGAIN);
    }
    let task = match task_of(turn.session, asked) {
        Ok(task) => task,
        Err(errno) => return turn.fail(errno),
    };
    turn.session.service.asking += 1;
    let (session, serial) = (turn.session.id, turn.session.serial);
    let operation = turn.id.operation;
    turn.engine.tell(FileEvent::Wanted(OpenRequest { session, serial, operation, task }));
    Step::Over
}

fn task_of(session: &Session<Files>, asked: &Operation) -> Result<Task, i32> {
    let argument = asked.argument;
    let name = |index| name(session, asked, index);
    let change = match asked.kind {
        OpKind::Open => return Ok(Task::Open { name: name(0)?, argument }),
        OpKind::Readlink => return Ok(Task::Readlink { name: name(0)? }),
        OpKind::Fetch => {
            let names = u64::from(asked.pieces.as_slice().first().map_or(0, |name| name.bytes));
            let bytes = (asked.pieces.bytes() - names) as usize;
            return Ok(Task::Fetch { name: name(0)?, offset: asked.offset, bytes });
        }
        OpKind::Readdir => return readdir_of(session, asked),
        OpKind::Mkdir => Change::Mkdir(name(0)?, (argument & MODE_BITS) as u32),
        OpKind::Rmdir => Change::Rmdir(name(0)?),
        OpKind::Unlink => Change::Unlink(name(0)?),
        OpKind::Rename => {
            let replaces = argument & NOREPLACE == 0;
            Change::Rename { from: name(0)?, to: name(1)?, replaces }
        }
        OpKind::Symlink => Change::Symlink { target: name(0)?, name: name(1)? },
        _ => return Err(libc::EINVAL),
    };
    Ok(Task::Change(change))
}

fn readdir_of(session: &Session<Files>, asked: &Operation) -> Result<Task, i32> {
    let opened = session.objects.get(asked.object).ok_or(libc::EBADF)?;
    let reading = opened.file.directory.clone().ok_or(libc::ENOTDIR)?;
    let (cookie, bytes) = (asked.offset, asked.pieces.bytes() as usize);
    Ok(Task::Readdir { directory: opened.file.buffered.clone(), reading, cookie, bytes })
}

/// The name in a piece, copied once.
fn name(session: &Session<Files>, asked: &Operation, index: usize) -> Result<Vec<u8>, i32> {
    let piece = asked.pieces.as_slice().get(index).ok_or(libc::EINVAL)?;
    let mut name = vec![0; piece.bytes as usize];
    session.window.copy_out(piece.offset as usize, &mut name).map_err(|_| libc::EFAULT)?;
    Ok(name)
}

/// What an opener has brought goes into the pieces that are no names, as much as they hold.
pub fn take_bytes(
    engine: &mut Engine<Files>,
    session: &mut Session<Files>,
    operation: ObjectId,
    bytes: &[u8],
) {
    session.service.asking = session.service.asking.saturating_sub(1);
    let Some(entry) = session.operations.get_mut(operation) else { return };
    if entry.operation.kind == OpKind::Fetch {
        entry.way = Way::Kernel;
    }
    let (mut rest, names) = (bytes, entry.operation.kind.names());
    for piece in entry.operation.pieces.as_slice().iter().skip(names) {
        let (first, others) = rest.split_at(rest.len().min(piece.bytes as usize));
        // The piece was checked when the record was, and windows do not shrink.
        let _ = session.window.copy_in(piece.offset as usize, first);
        rest = others;
    }
    session.end(engine, operation, (bytes.len() - rest.len()) as i64);
}
