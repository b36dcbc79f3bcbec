//! The file service as its server loop sees it: from operations, orders and completions to the parts
//! that serve them.

use heliostat_abi::file::delegated::{OneRead, Way};
use heliostat_abi::name::ObjectId;
use heliostat_backend_uring::Manner;
use heliostat_server_loop::{Engine, OperationId, Parts, Service, Session, Sessions, Step};

use super::files::{Files, Fill, PerSession, Turn};
use super::message::{FileEvent, FileOrder, Resume};
use super::open_file::Opened;
use super::serve::{locks, names};
use super::{cached, coming, objects, serve};

/// A block's read has completed.
///
/// It counts only if the lease still holds: then nobody has changed the file since it began.
fn filled(sessions: &mut Sessions<Files>, Fill { place, word, manner }: Fill, result: i32) {
    let number = sessions.engine.number;
    let files = &mut sessions.engine.service;
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
    resume_all(sessions, own, resume);
}

/// Operations that have waited for a block go on; some may have ended meanwhile.
fn resume_all(sessions: &mut Sessions<Files>, waiters: Vec<OperationId>, resume: Resume) {
    for id in waiters {
        let entry = sessions.session_of(id).and_then(|it| it.operations.get_mut(id.operation));
        if let (Resume::ByKernel, Some(entry)) = (resume, entry) {
            // What it has copied does not count.
            (entry.way, entry.done) = (Way::Kernel, 0);
        }
        sessions.resume(id);
    }
}

impl Parts for Files {
    type Object = Opened;
    type PerSession = PerSession;
    type Request = Fill;
    type Order = FileOrder;
    type Event = FileEvent;
}

impl Service for Files {
    fn serve(turn: &mut Turn<'_>) -> Step {
        serve::serve(turn)
    }

    fn read_at_once(
        engine: &mut Engine<Files>,
        session: &mut Session<Files>,
        read: &OneRead,
        left: &mut i64,
    ) -> Option<u64> {
        let len = cached::copy_hit(engine, session, read, left)?;
        if read.offset == 0 {
            coming::begin(engine, session, read.object);
        }
        Some(len)
    }

    fn close(engine: &mut Engine<Files>, session: ObjectId, mut opened: Opened) {
        locks::unlock(&mut engine.service, &mut opened);
        engine.tell(FileEvent::Closed(session, opened.file));
    }

    fn clock(sessions: &mut Sessions<Files>) {
        locks::ask_due(sessions);
    }

    fn swept(sessions: &mut Sessions<Files>) {
        locks::tell_unlocked(sessions);
    }

    fn carry_out(sessions: &mut Sessions<Files>, order: FileOrder) {
        match order {
            FileOrder::Opened(id, by, file) => match (sessions.session(id), file) {
                (Some((session, engine)), file) => {
                    objects::take_file(engine, session, by, file);
                    session.ring();
                }
                (None, Ok(file)) => sessions.engine.tell(FileEvent::Closed(id, file)),
                (None, Err(_)) => {}
            },
            FileOrder::Done(id, operation, bytes) => {
                if let Some((session, engine)) = sessions.session(id) {
                    names::take_bytes(engine, session, operation, &bytes);
                    session.ring();
                }
            }
            FileOrder::Unlocked => locks::ask_told(sessions),
            FileOrder::Vouched(id, object, lease) => {
                if let Some((session, engine)) = sessions.session(id) {
                    objects::take_lease(engine, session, object, lease);
                }
            }
            FileOrder::Filled(waiters, resume) => resume_all(sessions, waiters, resume),
        }
    }

    fn completed(sessions: &mut Sessions<Files>, request: Fill, result: i32) {
        filled(sessions, request, result);
    }
}
