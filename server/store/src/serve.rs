//! Takes operations on areas: each is checked as a whole, and waits for its turn at the device.

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::store::operation::changed_bytes;
use heliostat_abi::store::AreaRights;
use heliostat_server_loop::{Step, Turn, COST_MIN};

use crate::areas::Areas;
use crate::job::Job;

/// Why an operation is not taken.
enum Refusal {
    /// It ends with this errno.
    Errno(i32),
    /// Its session has no such handle, as far as the loop knows.
    Unknown,
}

/// Takes an operation, or ends it.
pub fn serve(turn: &mut Turn<'_, Areas>) -> Step {
    let Some(entry) = turn.entry() else { return Step::Over };
    let asked = entry.operation;
    *turn.left -= COST_MIN;
    match check(turn, &asked) {
        Ok(job) => match turn.engine.service.accept(job) {
            true => Step::Over,
            // Sessions that have ended have too much at the device.
            false => Step::Blocked,
        },
        Err(Refusal::Errno(errno)) => turn.fail(errno),
        Err(Refusal::Unknown) => {
            let looks = turn.engine.looks_for_orders;
            match turn.session.service.is_none(turn.id.operation, looks) {
                true => turn.fail(libc::EBADF),
                // Rings are looked at more often than orders, and a handle may be used as soon as the
                // control plane has answered.
                false => Step::GoesOn,
            }
        }
    }
}

fn check(turn: &Turn<'_, Areas>, asked: &Operation) -> Result<Job, Refusal> {
    let fail = |errno| Err(Refusal::Errno(errno));
    let Some(wanted) = wanted(asked.kind) else { return fail(libc::EINVAL) };
    let (areas, session) = (&turn.engine.service, turn.session.id);
    let held = areas.handles.get(&asked.object);
    let held = held.filter(|held| held.session == session && !held.is_closed);
    let held = held.ok_or(Refusal::Unknown)?;
    if !held.rights.have(wanted) {
        return fail(libc::EACCES);
    }
    if let Some(errno) = areas.disk.failure() {
        return fail(errno);
    }
    let bytes = bytes_of(asked);
    let sector = u64::from(areas.disk.geometry().sector_bytes);
    let is_whole = |bytes: u64| bytes % sector == 0;
    let mut pieces = asked.pieces.as_slice().iter();
    if !is_whole(asked.offset | bytes) || !pieces.all(|piece| is_whole(u64::from(piece.bytes))) {
        return fail(libc::EINVAL);
    }
    let end = asked.offset.checked_add(bytes);
    let limit = areas.areas.get(&held.area).map_or(0, |area| area.bytes);
    if end.is_none_or(|end| end > limit) {
        return fail(libc::ERANGE);
    }
    Ok(Job {
        id: turn.id,
        session,
        handle: asked.object,
        area: held.area,
        kind: asked.kind,
        offset: asked.offset,
        bytes,
        pieces: asked.pieces,
        window: turn.session.window.clone(),
        next: Some(0),
        under_way: 0,
        failed: None,
        is_paid: false,
    })
}

/// What a handle has to allow; `None` of what is no operation on an area.
fn wanted(kind: OpKind) -> Option<AreaRights> {
    match kind {
        OpKind::Read => Some(AreaRights::READ),
        // It changes nothing, and who reads beside a writer shows nothing before it is durable; as of a
        // file that is open for reading (source: fsync(2)).
        OpKind::Fsync => Some(AreaRights::NONE),
        OpKind::Write | OpKind::WriteDurable | OpKind::Zero | OpKind::Discard => {
            Some(AreaRights::WRITE)
        }
        _ => None,
    }
}

/// How many bytes of its area an operation is about.
pub fn bytes_of(asked: &Operation) -> u64 {
    match asked.kind {
        OpKind::Zero | OpKind::Discard => changed_bytes(asked.argument).unwrap_or(0),
        OpKind::Fsync => 0,
        _ => asked.pieces.bytes(),
    }
}
