//! The loop's epoll set: sockets are in it for edges from their birth to their end.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_abi::table::Table;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::Timespec;

use super::held::HeldId;

/// Events taken at once.
const EVENTS_AT_ONCE: usize = 256;
/// Sockets that one loop watches: more than all of its sessions may have.
const WATCHED_MAX: usize = 1 << 20;

/// What is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Watched {
    /// It is not said yet.
    Unnamed,
    /// A socket of a session: places in the loop and in the session.
    Socket { seat: ObjectId, socket: ObjectId },
    /// A connection that is nobody's yet.
    Held(HeldId),
}

/// What has happened to one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Edge {
    pub of: Watched,
    pub readable: bool,
    pub writable: bool,
    /// Nothing more will come.
    pub is_end: bool,
}

/// The set.
pub struct Watch {
    epoll: Arc<OwnedFd>,
    watched: Table<Watched>,
}

impl Watch {
    /// An empty set.
    ///
    /// # Errors
    /// The kernel has no descriptor.
    pub fn create() -> io::Result<Watch> {
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        Ok(Watch { epoll, watched: Table::lean(WATCHED_MAX) })
    }

    /// What becomes readable when something has happened.
    pub(crate) fn event(&self) -> &Arc<OwnedFd> {
        &self.epoll
    }

    /// Watches a socket; its session and its name are said when it has one (`name`).
    pub(crate) fn add(&mut self, socket: impl AsFd) -> Option<ObjectId> {
        let id = self.watched.insert(Watched::Unnamed).ok()?;
        let data = EventData::new_u64(u64::from(id.generation) << 32 | u64::from(id.index));
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if epoll::add(&self.epoll, socket, data, flags).is_err() {
            self.watched.remove(id);
            return None;
        }
        Some(id)
    }

    pub(crate) fn name(&mut self, id: ObjectId, watched: Watched) {
        if let Some(place) = self.watched.get_mut(id) {
            *place = watched;
        }
    }

    /// The name of a socket in its session.
    pub(crate) fn name_of(&self, id: ObjectId) -> Option<ObjectId> {
        match self.watched.get(id) {
            Some(Watched::Socket { socket, .. }) => Some(*socket),
            _ => None,
        }
    }

    /// Ends a watch. The descriptor may be one of several of its socket, so closing it is not enough.
    pub(crate) fn remove(&mut self, id: ObjectId, socket: impl AsFd) {
        let _ = epoll::delete(&self.epoll, socket);
        self.watched.remove(id);
    }

    /// What has happened; empty when nothing has.
    pub(crate) fn take(&mut self) -> Vec<Edge> {
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS_AT_ONCE];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // It fails for a signal only, or of a set that is none.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut room, Some(&now)) else {
            return Vec::new();
        };
        let watched = &self.watched;
        let edges = events.iter().filter_map(|event| {
            let (data, flags) = (event.data, event.flags);
            let id = ObjectId { index: data.u64() as u32, generation: (data.u64() >> 32) as u32 };
            let is_over = flags.intersects(EventFlags::ERR | EventFlags::HUP);
            Some(Edge {
                of: *watched.get(id)?,
                readable: is_over || flags.intersects(EventFlags::IN | EventFlags::RDHUP),
                writable: is_over || flags.contains(EventFlags::OUT),
                is_end: is_over || flags.contains(EventFlags::RDHUP),
            })
        });
        edges.collect()
    }
}
