//! What the control plane says of areas, carried out between turns.

use heliostat_abi::name::ObjectId;
use heliostat_abi::store::Piece;
use heliostat_backend_block::{Device, Extents, Run};
use heliostat_server_loop::Sessions;
use heliostat_service_grant::Meter;
use tracing::error;

use crate::areas::{Area, Areas, Held};
use crate::disk::Disk;
use crate::flight;
use crate::message::{StoreEvent, StoreOrder};

/// Carries out an order.
pub fn carry_out(sessions: &mut Sessions<Areas>, order: StoreOrder) {
    let number = sessions.engine.number;
    let areas = &mut sessions.engine.service;
    match order {
        StoreOrder::Device(device) => replace_device(sessions, device),
        StoreOrder::Area { area, bytes, pieces, meter } => {
            take_area(areas, area, bytes, &pieces, meter)
        }
        StoreOrder::Gone { area } => drop(areas.areas.remove(&area)),
        StoreOrder::Open { session, handle, area, rights } => {
            let held = Held { session, area, rights, jobs: 0, is_closed: false };
            // No handle is given twice; one that is there has operations.
            areas.handles.entry(handle).or_insert(held);
        }
        StoreOrder::Close { handle, .. } => close(sessions, handle),
        StoreOrder::Bytes { area, bytes, is_asked } => {
            if let Some(area) = areas.areas.get_mut(&area) {
                area.bytes = bytes.min(area.extents.bytes());
            }
            if is_asked {
                areas.ask_quiet(area, bytes);
                areas.answer_quiets(number);
            }
        }
        StoreOrder::Rate { area, meter } => {
            if let Some(area) = areas.areas.get_mut(&area) {
                area.meter = meter;
                // What the rate before has held asks again.
                areas.line.release(u64::MAX);
            }
        }
    }
}

/// Takes an area in. One whose pieces are no places is as good as empty: nobody reads or writes it.
fn take_area(areas: &mut Areas, area: ObjectId, bytes: u64, pieces: &[Piece], meter: Meter) {
    let runs = pieces.iter().map(|piece| Run { offset: piece.offset, bytes: piece.bytes });
    let extents = match Extents::new(runs) {
        Some(extents) => extents,
        None => {
            error!(%area, "the pieces of an area are none");
            let Some(none) = Extents::new([]) else { return };
            none
        }
    };
    let bytes = bytes.min(extents.bytes());
    areas.areas.insert(area, Area { bytes, extents, meter });
}

/// What has not begun by a handle ends, and what the device has is waited for.
fn close(sessions: &mut Sessions<Areas>, handle: ObjectId) {
    let areas = &mut sessions.engine.service;
    let Some(held) = areas.handles.get_mut(&handle) else {
        return areas.tell(StoreEvent::LetGo { handle });
    };
    held.is_closed = true;
    let has_jobs = held.jobs > 0;
    if has_jobs {
        let its = areas.jobs.iter().filter(|(_, job)| job.handle == handle);
        let its: Vec<_> = its.map(|(id, _)| id).collect();
        for id in its {
            if sessions.engine.service.cut(id, libc::ECANCELED) {
                flight::end(sessions, id);
            }
        }
    }
    sessions.engine.service.let_go(handle);
}

fn replace_device(sessions: &mut Sessions<Areas>, device: Box<dyn Device>) {
    let (number, mut ended) = (sessions.engine.number, Vec::new());
    let disk = &mut sessions.engine.service.disk;
    disk.fail(libc::EIO, &mut ended);
    flight::take_ended(sessions, &mut ended);
    let areas = &mut sessions.engine.service;
    areas.disk = Disk::new(device);
    areas.answer_quiets(number);
}
