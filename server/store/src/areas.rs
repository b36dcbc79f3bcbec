//! What one loop keeps of areas: which there are, who may use them, what is asked and under way.

use std::collections::{HashMap, HashSet};

use heliostat_abi::file::delegated::{OpKind, DEPTH_MAX, SESSIONS_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_abi::store::AreaRights;
use heliostat_abi::table::Table;
use heliostat_backend_block::{Device, Extents};
use heliostat_server_loop::{Event, Events};
use heliostat_service_grant::Meter;

use crate::disk::Disk;
use crate::flushes::Flushes;
use crate::job::Job;
use crate::line::Line;
use crate::message::StoreEvent;

/// Operations of a loop: of all its sessions, and of as many that have ended with some at the device.
const JOBS_MAX: usize = 2 * SESSIONS_MAX * DEPTH_MAX;

/// Areas on one loop.
pub struct Areas {
    pub(crate) disk: Disk,
    pub(crate) areas: HashMap<ObjectId, Area>,
    pub(crate) handles: HashMap<ObjectId, Held>,
    pub(crate) jobs: Table<Job>,
    /// By session and operation.
    by_operation: HashMap<(ObjectId, ObjectId), ObjectId>,
    pub(crate) line: Line,
    pub(crate) flushes: Flushes,
    /// Ends of areas that are to become quiet.
    quiets: Vec<(ObjectId, u64)>,
    /// Seats of sessions that have ended with something at the device.
    leaving: HashSet<ObjectId>,
    events: Events<Areas>,
    /// The kernel watches the device's event.
    pub(crate) is_watched: bool,
    /// Operations have ended that the loop has not heard of.
    pub(crate) has_ended: bool,
    /// When the device is to be looked at, where nothing tells.
    pub(crate) look_ns: Option<u64>,
}

/// An area.
pub struct Area {
    /// Its size, as far as operations are taken.
    pub bytes: u64,
    /// Where it lies.
    pub extents: Extents,
    /// How fast it may be used.
    pub meter: Meter,
}

/// A session's handle.
pub struct Held {
    /// Whose.
    pub session: ObjectId,
    /// On which area.
    pub area: ObjectId,
    /// What may be done.
    pub rights: AreaRights,
    /// Operations by it that have not ended.
    pub jobs: usize,
    /// It was given back.
    pub is_closed: bool,
}

impl Areas {
    /// The part of one loop, for areas that lie on this device. What has ended the control plane hears by
    /// `events`.
    pub fn new(device: Box<dyn Device>, events: Events<Areas>) -> Areas {
        Areas {
            disk: Disk::new(device),
            areas: HashMap::new(),
            handles: HashMap::new(),
            jobs: Table::lean(JOBS_MAX),
            by_operation: HashMap::new(),
            line: Line::default(),
            flushes: Flushes::default(),
            quiets: Vec::new(),
            leaving: HashSet::new(),
            events,
            is_watched: false,
            has_ended: false,
            look_ns: None,
        }
    }

    pub(crate) fn tell(&self, event: StoreEvent) {
        self.events.send(Event::Service(event));
    }

    /// Takes an operation in; false where there is no room.
    pub(crate) fn accept(&mut self, job: Job) -> bool {
        let (seat, handle) = (job.id.seat.index, job.handle);
        let name = (job.session, job.id.operation);
        let Ok(id) = self.jobs.insert(job) else { return false };
        self.by_operation.insert(name, id);
        if let Some(held) = self.handles.get_mut(&handle) {
            held.jobs += 1;
        }
        self.line.join(seat, id);
        true
    }

    /// Nothing more of an operation begins; whether it is over by that.
    pub(crate) fn cut(&mut self, id: ObjectId, errno: i32) -> bool {
        let Some(job) = self.jobs.get_mut(id) else { return false };
        job.cut(errno);
        let (seat, is_over) = (job.id.seat.index, job.is_over());
        if job.kind == OpKind::Fsync {
            self.flushes.cut(id);
        }
        self.line.remove(seat, id);
        is_over
    }

    /// Forgets an operation that is over.
    pub(crate) fn remove(&mut self, id: ObjectId) -> Option<Job> {
        let job = self.jobs.remove(id)?;
        self.by_operation.remove(&(job.session, job.id.operation));
        if let Some(held) = self.handles.get_mut(&job.handle) {
            held.jobs -= 1;
        }
        self.let_go(job.handle);
        self.forget_window(&job);
        Some(job)
    }

    /// The operation of a session was ended by somebody else, or is to end.
    pub(crate) fn cut_operation(&mut self, session: ObjectId, operation: ObjectId) {
        let Some(id) = self.by_operation.get(&(session, operation)).copied() else { return };
        if self.cut(id, libc::ECANCELED) {
            self.remove(id);
        }
    }

    /// A session has ended.
    pub(crate) fn leave(&mut self, seat: ObjectId) {
        let its = self.jobs.iter().filter(|(_, job)| job.id.seat == seat);
        let its: Vec<_> = its.map(|(id, _)| id).collect();
        for id in its {
            if self.cut(id, libc::ECANCELED) {
                self.remove(id);
            }
        }
        self.line.leave(seat.index);
        if self.jobs.iter().any(|(_, job)| job.id.seat == seat) {
            self.leaving.insert(seat);
        }
    }

    /// Whether a session that has ended has something at the device.
    pub(crate) fn is_leaving(&self, seat: ObjectId) -> bool {
        self.leaving.contains(&seat)
    }

    /// Has the device let go of the window of a session that has left, with the last of its operations.
    fn forget_window(&mut self, job: &Job) {
        if self.leaving.is_empty() || !self.leaving.contains(&job.id.seat) {
            return;
        }
        if !self.jobs.iter().any(|(_, other)| other.id.seat == job.id.seat) {
            self.leaving.remove(&job.id.seat);
            self.disk.forget(&job.window);
        }
    }

    /// Says that a handle was let go, if it was given back and nothing is under way by it.
    pub(crate) fn let_go(&mut self, handle: ObjectId) {
        let is_free = |held: &Held| held.is_closed && held.jobs == 0;
        if self.handles.get(&handle).is_some_and(is_free) {
            self.handles.remove(&handle);
            self.tell(StoreEvent::LetGo { handle });
        }
    }

    /// Notes that somebody asks when nothing of an area is under way behind so many bytes.
    pub(crate) fn ask_quiet(&mut self, area: ObjectId, bytes: u64) {
        self.quiets.push((area, bytes));
    }

    /// Answers who asks that, where it is so.
    pub(crate) fn answer_quiets(&mut self, number: usize) {
        if self.quiets.is_empty() {
            return;
        }
        let disk = &self.disk;
        let is_loud = |(area, bytes): &(ObjectId, u64)| {
            disk.parts().any(|part| part.area == *area && part.end > *bytes)
        };
        let (loud, quiet): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.quiets).into_iter().partition(is_loud);
        self.quiets = loud;
        quiet.into_iter().for_each(|(area, _)| self.tell(StoreEvent::Quiet { number, area }));
    }
}
