//! Files of a session on a loop: taken in as the control plane hands them over, and their leases.

use heliostat_abi::file::delegated::{Completion, Way, OBJECTS_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_base::memory_node;
use heliostat_server_loop::{Engine, Entry, Operations, Session};

use super::again::Again;
use super::ahead::Ahead;
use super::device::AtDevice;
use super::files::Files;
use super::message::{FileEvent, OpenedBy};
use super::open_file::{OpenFile, Opened, Vouched};

/// Takes a file in and answers its completion.
pub fn take_file(
    engine: &mut Engine<Files>,
    session: &mut Session<Files>,
    by: OpenedBy,
    file: Result<Box<OpenFile>, i32>,
) {
    if let OpenedBy::Name(id) = by {
        session.service.asking = session.service.asking.saturating_sub(1);
        if session.operations.get(id).is_none() {
            // It was cancelled meanwhile.
            let close = |file| engine.tell(FileEvent::Closed(session.id, file));
            return file.into_iter().for_each(close);
        }
    }
    let (result, generation) = match file.and_then(|file| insert(engine, session, file)) {
        Ok(object) => (i64::from(object.index), object.generation),
        Err(errno) => (-i64::from(errno), 0),
    };
    match by {
        OpenedBy::Name(id) => session.end_with(engine, id, result, generation),
        OpenedBy::Shown(tag) => {
            session.complete(Completion { tag, result, generation, way: Way::None });
        }
    }
}

fn insert(
    engine: &mut Engine<Files>,
    session: &mut Session<Files>,
    file: Box<OpenFile>,
) -> Result<ObjectId, i32> {
    if session.objects.iter().count() >= OBJECTS_MAX {
        engine.tell(FileEvent::Closed(session.id, file));
        return Err(libc::EMFILE);
    }
    let number = file.lease.map_or(0, |lease| engine.service.number(&lease));
    let (ahead, again) = (Ahead::default(), Again::default());
    // Where the device is nowhere in particular the window is not far, and the kernel is not asked.
    let window = file.device.node.and_then(|_| memory_node::of(session.window.as_ptr()));
    let at_device = AtDevice::new(file.device.clone(), window);
    let opened = Opened { file, number, ahead, again, lock: None, at_device };
    session.objects.insert(opened).map_err(|_| libc::EMFILE)
}

/// Takes the control plane's answer about a file that had no lease.
pub fn take_lease(
    engine: &mut Engine<Files>,
    session: &mut Session<Files>,
    object: ObjectId,
    lease: Option<Vouched>,
) {
    let Some(opened) = session.objects.get_mut(object) else { return };
    opened.again.answered(lease.is_some(), engine.now_ns);
    if let Some(lease) = lease {
        opened.number = engine.service.number(&lease);
        opened.ahead = Ahead::default();
    }
    opened.file.lease = lease;
    send_back(&mut session.operations, object);
}

/// Has the reads of a file that have begun in the cache made by the kernel, from their start: what
/// they have copied belongs to a lease that is over.
fn send_back(operations: &mut Operations, object: ObjectId) {
    let is_cached = |entry: &&mut Entry| matches!(entry.way, Way::Cached | Way::Filled);
    let begun = operations.of_object(object).filter(is_cached);
    begun.for_each(|entry| (entry.way, entry.done) = (Way::Kernel, 0));
}

/// Asks for a lease of a file that has none and could, at its time.
pub fn ask_lease(engine: &Engine<Files>, session: &mut Session<Files>, object: ObjectId) {
    let Some(opened) = session.objects.get_mut(object) else { return };
    let lacks = opened.file.may_cache && opened.vouched().is_none();
    if lacks && opened.again.asks(engine.now_ns) {
        engine.tell(FileEvent::Unvouched(session.id, object, opened.file.serial));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_abi::file::delegated::{OpKind, Operation, Pieces};

    fn read(file: u32, tag: u64) -> Operation {
        let object = ObjectId { index: file, generation: 1 };
        let (kind, pieces) = (OpKind::Read, Pieces::default());
        Operation { kind, object, offset: 0, tag, timeout_us: 0, argument: 0, pieces }
    }

    #[test]
    fn reads_that_have_begun_in_the_cache_are_sent_back_and_no_others() {
        let mut operations = Operations::new(3);
        let mut admit = |file, tag| operations.admit(read(file, tag), 0).unwrap();
        let (begun, fresh, other) = (admit(1, 1), admit(1, 2), admit(2, 3));
        for id in [begun, other] {
            let entry = operations.get_mut(id).unwrap();
            (entry.way, entry.done) = (Way::Filled, 10);
        }
        send_back(&mut operations, ObjectId { index: 1, generation: 1 });
        let found = [begun, fresh, other].map(|id| operations.get(id).unwrap());
        let found = found.map(|entry| (entry.way, entry.done));
        assert_eq!(found, [(Way::Kernel, 0), (Way::None, 0), (Way::Filled, 10)]);
    }
}
