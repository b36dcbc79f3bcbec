//! The file service as its server loop sees it: from operations, orders and completions to the parts
//! that serve them.

use heliostat_abi::delegated::{Kind, OneRead, Way};
use heliostat_abi::name::ObjectId;
use heliostat_backend_uring::Manner;
use heliostat_server_loop::{Engine, OperationId, Server, Service, Session, Step};
use heliostat_service_grant::Meter;

use super::files::{Files, Fill, PerSession, Turn};
use super::message::{FileEvent, FileOrder, Resume};
use super::open_file::Opened;
use super::serve::{locks, names};
use super::{cached, objects, serve};

/// A block's read has completed.
///
/// It counts only if the lease still holds: then nobody has changed the file since it began.
fn filled(server: &mut Server<Files>, Fill { place, word, manner }: Fill, result: i32) {
    let number = server.engine.number;
    let files = &mut server.engine.service;
    let (waiters, resume) = match u32::try_from(result) {
        Ok(bytes) if bytes > 0 && word.is_active() => {
            files.shared.count_filled();
            (files.cache.filled(place, bytes), Resume::InCache)
        }
        // It is only this manner that the file system does not have.
        Err(_) if result == -libc::EOPNOTSUPP && manner != Manner::Plain => {
            files.fill_manner = Manner::Plain;
            (files.cache.failed(place), Resume::InCache)
        }
        _ => (files.cache.failed(place), Resume::ByKernel),
    };
    let own = files.tell_loops(number, waiters, resume);
    resume_all(server, own, resume);
}

/// Operations that have waited for a block go on; some may have ended meanwhile.
fn resume_all(server: &mut Server<Files>, waiters: Vec<OperationId>, resume: Resume) {
    for id in waiters {
        let entry = server.session_of(id).and_then(|it| it.operations.get_mut(id.operation));
        if let (Resume::ByKernel, Some(entry)) = (resume, entry) {
            // What it has copied does not count.
            (entry.way, entry.done) = (Way::Kernel, 0);
        }
        server.resume(id);
    }
}

impl Service for Files {
    type Object = Opened;
    type PerSession = PerSession;
    type Request = Fill;
    type Order = FileOrder;
    type Event = FileEvent;

    fn serve(turn: &mut Turn<'_>) -> Step {
        serve::serve(turn)
    }

    fn read_at_once(
        engine: &mut Engine<Files>,
        session: &mut Session<Files>,
        read: &OneRead,
        left: &mut i64,
    ) -> Option<u64> {
        cached::copy_hit(engine, session, read, left)
    }

    /// A file that can be opened for the device but not be read so goes by the kernel from now on,
    /// unless the session has asked for the device.
    fn falls_back(opened: &mut Opened, way: Way, result: i32) -> bool {
        let falls = result == -libc::EINVAL && way == Way::Direct && !opened.file.wants_direct;
        if falls {
            opened.file.direct = None;
        }
        falls
    }

    fn reads_device(opened: &Opened) -> bool {
        opened.file.wants_direct
    }

    fn meter(opened: &Opened) -> Option<&Meter> {
        opened.file.meter.as_ref()
    }

    fn count(opened: &Opened, way: Way, bytes: u64) {
        opened.file.stats.ended(way, bytes);
    }

    fn close(engine: &mut Engine<Files>, session: ObjectId, opened: Opened) {
        locks::unlock(&mut engine.service, &opened);
        engine.tell(FileEvent::Closed(session, opened.file));
    }

    fn ended(its: &mut PerSession, kind: Kind, operation: ObjectId) {
        if kind == Kind::Lock {
            its.lock_waits.forget(operation);
        }
    }

    fn next_ns(its: &PerSession) -> Option<u64> {
        its.lock_waits.next_ns()
    }

    fn clock(server: &mut Server<Files>) {
        locks::ask_due(server);
    }

    fn swept(server: &mut Server<Files>) {
        locks::tell_unlocked(server);
    }

    fn carry_out(server: &mut Server<Files>, order: FileOrder) {
        match order {
            FileOrder::Opened(id, by, file) => match (server.session(id), file) {
                (Some((session, engine)), file) => {
                    objects::take_file(engine, session, by, file);
                    session.ring();
                }
                (None, Ok(file)) => server.engine.tell(FileEvent::Closed(id, file)),
                (None, Err(_)) => {}
            },
            FileOrder::Done(id, operation, bytes) => {
                if let Some((session, engine)) = server.session(id) {
                    names::take_bytes(engine, session, operation, &bytes);
                    session.ring();
                }
            }
            FileOrder::Unlocked => locks::ask_all(server),
            FileOrder::Vouched(id, object, lease) => {
                if let Some((session, engine)) = server.session(id) {
                    objects::take_lease(engine, session, object, lease);
                }
            }
            FileOrder::Filled(waiters, resume) => resume_all(server, waiters, resume),
        }
    }

    fn completed(server: &mut Server<Files>, request: Fill, result: i32) {
        filled(server, request, result);
    }
}
