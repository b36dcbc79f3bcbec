//! The next part of an operation: which bytes of the device, and which memory.

use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::name::ObjectId;
use heliostat_backend_block::{Buffer, Request};
use heliostat_server_loop::COST_MIN;

use crate::areas::Areas;
use crate::bounce::{BounceId, BOUNCE_BYTES};
use crate::disk::Part;
use crate::job::Job;

/// Bytes of a part that is moved.
const TRANSFER_MAX: u64 = 256 << 10;
/// Bytes of a part that is zeroed, which a device may do by writing.
const ZERO_MAX: u64 = 8 << 20;
/// Bytes of a part that is discarded.
const DISCARD_MAX: u64 = 1 << 30;

impl Areas {
    /// The next part of an operation, if there is memory for it now.
    pub(crate) fn next_part(&mut self, id: ObjectId) -> Result<Option<(Part, Request, Cost)>, i32> {
        let job = self.jobs.get(id).ok_or(libc::EIO)?;
        let mut part = Part {
            job: id,
            area: job.area,
            end: 0,
            at: job.next.unwrap_or(0),
            moved: 0,
            bounce: None,
        };
        if job.kind == OpKind::Fsync {
            return Ok(Some((part, Request::Flush, Cost { covered: 0, spent: COST_MIN })));
        }
        let at = job.offset + part.at;
        let area = self.areas.get(&job.area).ok_or(libc::ESTALE)?;
        // Again for each part: the area may have become smaller.
        if job.offset + job.bytes > area.bytes {
            return Err(libc::ERANGE);
        }
        let geometry = self.disk.geometry();
        let zeroes = matches!(job.kind, OpKind::Discard) && !geometry.discard_zeroes;
        // What a device shows after a discard might be what another one has written.
        let kind = if zeroes { OpKind::Zero } else { job.kind };
        let most = (job.bytes - part.at).min(most_of(kind));
        let run = area.extents.run(at, most).ok_or(libc::ERANGE)?;
        let (offset, bytes) = (run.offset, run.bytes);
        let (request, bytes) = match kind {
            OpKind::Discard => (Request::Discard { offset, bytes }, bytes),
            OpKind::Zero => (Request::Zero { offset, bytes }, bytes),
            kind => {
                let alignment = u64::from(geometry.memory_alignment);
                let memory = place(job, part.at, bytes, alignment)?;
                let Some((buffer, bounce)) = self.memory_for(id, memory)? else { return Ok(None) };
                (part.moved, part.bounce) = (buffer.bytes as u64, bounce);
                (transfer(kind, offset, buffer), part.moved)
            }
        };
        part.end = at + bytes;
        let spent = COST_MIN.max(bytes as i64);
        Ok(Some((part, request, Cost { covered: bytes, spent })))
    }

    /// The memory of a part: where it lies in the window, or a bounce buffer, which has what is written.
    /// `None` where there is none now.
    fn memory_for(
        &mut self,
        id: ObjectId,
        place: Place,
    ) -> Result<Option<(Buffer, Option<BounceId>)>, i32> {
        let job = self.jobs.get(id).ok_or(libc::EIO)?;
        let Place { at, bytes, is_aligned } = place;
        if is_aligned {
            return Ok(Some((Buffer { memory: job.window.clone(), at, bytes }, None)));
        }
        let taken = self.disk.bounce.take(bytes).map_err(|_| libc::ENOMEM)?;
        let Some((bounce, buffer)) = taken else { return Ok(None) };
        if job.kind != OpKind::Read {
            let copied = job.window.copy_to(at, &buffer.memory, buffer.at, bytes);
            if copied.is_err() {
                self.disk.bounce.give_back(bounce);
                return Err(libc::EFAULT);
            }
        }
        Ok(Some((buffer, Some(bounce))))
    }
}

/// What a part takes of its operation, and of its session's turn.
pub struct Cost {
    /// Bytes of the operation.
    pub covered: u64,
    /// Of the turn.
    pub spent: i64,
}

/// Where in the window a part lies.
struct Place {
    at: usize,
    bytes: usize,
    /// Whether the device can use it there.
    is_aligned: bool,
}

/// Where the part of an operation lies that has so many bytes before it, and how long it is.
fn place(job: &Job, done: u64, bytes: u64, alignment: u64) -> Result<Place, i32> {
    let piece = job.pieces.at(done).ok_or(libc::EIO)?;
    let is_aligned = piece.offset % alignment == 0;
    let most = if is_aligned { bytes } else { bytes.min(BOUNCE_BYTES as u64) };
    let bytes = most.min(u64::from(piece.bytes)) as usize;
    Ok(Place { at: piece.offset as usize, bytes, is_aligned })
}

fn transfer(kind: OpKind, offset: u64, buffer: Buffer) -> Request {
    match kind {
        OpKind::Read => Request::Read { offset, into: buffer },
        kind => Request::Write { offset, from: buffer, durable: kind == OpKind::WriteDurable },
    }
}

const fn most_of(kind: OpKind) -> u64 {
    match kind {
        OpKind::Zero => ZERO_MAX,
        OpKind::Discard => DISCARD_MAX,
        _ => TRANSFER_MAX,
    }
}
