//! What the daemon waits for: one epoll set, level-triggered.
//!
//! Level-triggered, because clients are served in turn, a few requests at a time: what is left over
//! makes the next wait return at once, and no list of unfinished work is kept. Each entry's data says
//! what it is, with the generation of its connection, so that an event of a connection that has
//! just ended matches nothing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use heliostat_abi::limits::SESSIONS_MAX;
use heliostat_abi::name::ObjectId;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::Timespec;
use rustix::io::Errno;

/// Events taken at once: all that there can be, a connection's and its process's, so that it is the
/// event loop that says whose turn it is (`turns`).
const EVENTS_MAX: usize = 2 * SESSIONS_MAX + 16;

/// What became ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The listening socket.
    Listener,
    /// The pipe that signals write to.
    Signals,
    /// Leases are being broken.
    Breaks,
    /// A server loop has news.
    Delegated,
    /// A server loop of memory regions has news.
    Memory,
    /// The node's thread has news.
    Cluster,
    /// The server loop of remote procedure calls has news.
    Rpc,
    /// The thread of replicas has news.
    Replica,
    /// The thread of the store, or a server loop of areas, has news.
    Store,
    /// A server loop of sockets has news.
    Sockets,
    /// The thread of cores has news.
    Cores,
    /// Sockets that were shown have been examined.
    Proofs,
    /// A connection has a message.
    Connection(ObjectId),
    /// A connection was closed at the other end, perhaps with messages left.
    Closed(ObjectId),
    /// The process of a connection has ended.
    Process(ObjectId),
}

const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
const CONNECTION: u64 = 2;
const PROCESS: u64 = 3;

impl Source {
    /// Kind in the two highest bits, then 30 bits of generation, then the index.
    fn data(self) -> EventData {
        let pack = |kind: u64, id: ObjectId| {
            kind << 62 | u64::from(id.generation & 0x3fff_ffff) << 32 | u64::from(id.index)
        };
        EventData::new_u64(match self {
            Self::Listener => LISTENER << 62,
            Self::Signals => SIGNALS << 62,
            Self::Breaks => SIGNALS << 62 | 1,
            Self::Delegated => SIGNALS << 62 | 2,
            Self::Memory => SIGNALS << 62 | 3,
            Self::Cluster => SIGNALS << 62 | 4,
            Self::Rpc => SIGNALS << 62 | 8,
            Self::Replica => SIGNALS << 62 | 10,
            Self::Store => SIGNALS << 62 | 11,
            Self::Sockets => SIGNALS << 62 | 14,
            Self::Cores => SIGNALS << 62 | 12,
            Self::Proofs => SIGNALS << 62 | 15,
            Self::Connection(id) | Self::Closed(id) => pack(CONNECTION, id),
            Self::Process(id) => pack(PROCESS, id),
        })
    }

    fn of(event: &Event) -> Source {
        // Both are copied: the kernel packs the record.
        let (data, flags) = (event.data, event.flags);
        match Source::from_data(data.u64()) {
            Self::Connection(id) if flags.contains(EventFlags::HUP) => Self::Closed(id),
            source => source,
        }
    }

    fn from_data(data: u64) -> Source {
        let id = ObjectId { index: data as u32, generation: (data >> 32) as u32 & 0x3fff_ffff };
        match data >> 62 {
            LISTENER => Self::Listener,
            SIGNALS if id.index == 1 => Self::Breaks,
            SIGNALS if id.index == 2 => Self::Delegated,
            SIGNALS if id.index == 3 => Self::Memory,
            SIGNALS if id.index == 4 => Self::Cluster,
            SIGNALS if id.index == 8 => Self::Rpc,
            SIGNALS if id.index == 10 => Self::Replica,
            SIGNALS if id.index == 11 => Self::Store,
            SIGNALS if id.index == 14 => Self::Sockets,
            SIGNALS if id.index == 12 => Self::Cores,
            SIGNALS if id.index == 15 => Self::Proofs,
            SIGNALS => Self::Signals,
            CONNECTION => Self::Connection(id),
            _ => Self::Process(id),
        }
    }
}

/// The set.
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poll {
    /// An empty set.
    pub fn create() -> io::Result<Poll> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Poll { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Watches a descriptor; closing it ends the watch.
    pub fn watch(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, source.data(), EventFlags::IN)?)
    }

    /// Stops watching a descriptor that stays open.
    pub fn ignore(&self, fd: impl AsFd) {
        // It fails only where the descriptor is not in the set, which is what was wanted.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits for events, at most `timeout_ms`, for ever without one.
    pub fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<Vec<Source>> {
        let timeout = timeout_ms.map(|ms| Timespec {
            tv_sec: (ms / 1000) as i64,
            tv_nsec: (ms % 1000) as i64 * 1_000_000,
        });
        self.events.clear();
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut self.events),
            timeout.as_ref(),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut sources: Vec<_> = self.events.iter().map(Source::of).collect();
        // Somebody sleeps in the kernel until a broken lease is given back.
        sources.sort_by_key(|source| *source != Source::Breaks);
        Ok(sources)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_survives_its_way_through_the_kernel() {
        let id = ObjectId { index: 4095, generation: 0x3fff_ffff };
        let named = [Source::Connection(id), Source::Process(id)];
        let others = [
            Source::Listener,
            Source::Signals,
            Source::Breaks,
            Source::Delegated,
            Source::Memory,
            Source::Cluster,
            Source::Store,
            Source::Sockets,
            Source::Cores,
            Source::Proofs,
        ];
        for source in others.into_iter().chain(named) {
            assert_eq!(Source::from_data(source.data().u64()), source);
        }
    }
}
