//! Messages over TCP: a transport for machines where nothing is installed.
//!
//! ```text
//! who knocks:  accepted --> open, short messages only --admit--> open, all messages
//! connect:     connecting --writable--> open
//! close:       open --linger--> its queue is sent, the end of its writing, --end or time--> gone
//! ```
//!
//! Short messages are written together, when a step begins or before a sleep: several that are taken in a
//! row are one call of the kernel. One epoll set, level-triggered: what is left over when a step has had
//! its share makes the set readable at once. A link that ends by itself tells which of its messages the other side cannot
//! have: those whose last byte the kernel did not take.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::Timespec;
use rustix::io::Errno;

use crate::address::Address;
use crate::limits::{LINKS_MAX, STRANGERS_MAX};
use crate::transport::{
    Armed, EndCause, Family, LinkEvent, LinkId, Message, NotBegun, NotTaken, SendToken, Transport,
    TransportBroken, TransportKind,
};

pub mod framing;
mod link;
mod socket;

use link::{Link, Readiness};

/// Sockets at once: the links that a node may have, and some that linger.
const SOCKETS_MAX: usize = LINKS_MAX + STRANGERS_MAX;
/// Connections taken in one step, so that knocking does not keep others waiting.
const ACCEPTS_AT_ONCE: usize = 16;
/// How long nobody is let in after the system had no descriptor or memory for it.
const ACCEPT_PAUSE_NS: u64 = 100_000_000;
/// Where a step reads to.
const SCRATCH_BYTES: usize = 64 << 10;
/// From so many bytes that wait on, a link writes at once: more in one call would save little.
const WRITTEN_TOGETHER_BYTES_MAX: usize = 64 << 10;
/// The listener among the epoll set's entries; links begin at 1.
const LISTENER: u64 = 0;

/// A listener and its links.
pub struct Tcp {
    epoll: OwnedFd,
    listener: TcpListener,
    local: SocketAddr,
    links: BTreeMap<LinkId, Link>,
    links_made: u64,
    /// When lingering links are closed for good.
    lingering: BTreeSet<(u64, LinkId)>,
    /// Until when the listener is not watched.
    paused_until_ns: Option<u64>,
    /// Links with messages that wait for the next step, each once.
    unwritten: Vec<LinkId>,
    /// What happened outside of progress.
    pending: Vec<LinkEvent>,
    ready: Vec<epoll::Event>,
    scratch: Vec<u8>,
}

impl Tcp {
    /// Listens there; port 0 lets the system choose.
    pub fn listen(at: SocketAddr) -> io::Result<Tcp> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        let local = listener.local_addr()?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Tcp {
            epoll,
            listener,
            local,
            links: BTreeMap::new(),
            links_made: 0,
            lingering: BTreeSet::new(),
            paused_until_ns: None,
            unwritten: Vec::new(),
            pending: Vec::new(),
            ready: Vec::with_capacity(SOCKETS_MAX + 1),
            scratch: vec![0; SCRATCH_BYTES],
        })
    }

    fn add(&mut self, link: Link, interest: EventFlags) -> io::Result<LinkId> {
        let id = LinkId(self.links_made + 1);
        epoll::add(&self.epoll, &link, EventData::new_u64(id.0), interest)?;
        self.links_made += 1;
        self.links.insert(id, link);
        Ok(id)
    }

    fn accept(&mut self, now_ns: u64, events: &mut Vec<LinkEvent>) {
        for _ in 0..ACCEPTS_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if let Some(link) = self.let_in(stream) {
                        events.push(LinkEvent::Opened { link, is_ours: false });
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if socket::is_of_one_connection(&error) => {}
                Err(_) => {
                    self.pause(now_ns);
                    return;
                }
            }
        }
    }

    /// Makes a link of a connection; what there is no room for is closed.
    fn let_in(&mut self, stream: TcpStream) -> Option<LinkId> {
        if self.links.len() >= SOCKETS_MAX {
            return None;
        }
        socket::prepare(&stream).ok()?;
        self.add(Link::accepted(stream), EventFlags::IN).ok()
    }

    /// Looks away from the listener, which would be readable all the time.
    fn pause(&mut self, now_ns: u64) {
        // It fails only where the listener is not in the set.
        let _ = epoll::delete(&self.epoll, &self.listener);
        self.paused_until_ns = Some(now_ns.saturating_add(ACCEPT_PAUSE_NS));
    }

    fn resume(&mut self, now_ns: u64) {
        if self.paused_until_ns.is_some_and(|until_ns| until_ns <= now_ns) {
            let added = epoll::add(
                &self.epoll,
                &self.listener,
                EventData::new_u64(LISTENER),
                EventFlags::IN,
            );
            self.paused_until_ns = added.is_err().then_some(now_ns.saturating_add(ACCEPT_PAUSE_NS));
        }
    }

    /// One step of one link, for what the kernel says is ready.
    fn step(&mut self, id: LinkId, flags: EventFlags, events: &mut Vec<LinkEvent>) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let is_lingering = link.is_lingering();
        let before = events.len();
        let readiness = Readiness {
            is_readable: flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR),
            is_writable: flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR),
        };
        let ended = link.step(id, readiness, &mut self.scratch, events).err();
        if is_lingering {
            events.truncate(before);
        }
        match ended {
            Some(why) => self.end(id, why, events),
            None => self.watch(id),
        }
    }

    /// The link ended by itself: what it did not send is told, unless it lingers.
    fn end(&mut self, id: LinkId, why: EndCause, events: &mut Vec<LinkEvent>) {
        let Some(link) = self.links.remove(&id) else { return };
        match link.lingers_until_ns {
            Some(until_ns) => {
                self.lingering.remove(&(until_ns, id));
            }
            None => {
                events.extend(link.unsent().map(|token| LinkEvent::Unsent { link: id, token }));
                events.push(LinkEvent::Ended { link: id, why });
            }
        }
    }

    /// Watches for room in the kernel's queue only while something waits for it.
    fn watch(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let wants = link.wants_writable();
        if wants != link.is_writable_watched {
            let out = if wants { EventFlags::OUT } else { EventFlags::empty() };
            let set =
                epoll::modify(&self.epoll, &*link, EventData::new_u64(id.0), EventFlags::IN | out);
            link.is_writable_watched = wants && set.is_ok();
        }
    }

    /// Writes what a link has.
    fn write(&mut self, id: LinkId, events: &mut Vec<LinkEvent>) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let (is_lingering, before) = (link.is_lingering(), events.len());
        let ended = link.write(id, events).err();
        if is_lingering {
            events.truncate(before);
        }
        match ended {
            Some(why) => self.end(id, why, events),
            None => self.watch(id),
        }
    }

    /// Writes what was taken since the last step.
    fn write_all(&mut self, events: &mut Vec<LinkEvent>) {
        let mut links = std::mem::take(&mut self.unwritten);
        links.drain(..).for_each(|id| self.write(id, events));
        self.unwritten = links;
    }

    fn end_lingering(&mut self, now_ns: u64) {
        while let Some((until_ns, id)) = self.lingering.first().copied() {
            if until_ns > now_ns {
                break;
            }
            self.lingering.pop_first();
            self.links.remove(&id);
        }
    }
}

impl Transport for Tcp {
    fn kind(&self) -> TransportKind {
        TransportKind { family: Family::Tcp, version: 0 }
    }

    fn address(&self) -> Address {
        Address::Tcp(self.local)
    }

    fn number_links_from(&mut self, last: u64) {
        self.links_made = last;
    }

    fn connect(&mut self, _now_ns: u64, to: Address) -> Result<LinkId, NotBegun> {
        let Address::Tcp(to) = to else { return Err(NotBegun::Family) };
        if self.links.len() >= SOCKETS_MAX {
            return Err(NotBegun::Full { limit: SOCKETS_MAX });
        }
        let refused =
            |error: io::Error| NotBegun::Refused { code: error.raw_os_error().unwrap_or(0) };
        let stream = socket::begin_connect(to).map_err(refused)?;
        self.add(Link::connecting(stream), EventFlags::IN | EventFlags::OUT).map_err(refused)
    }

    fn send(
        &mut self,
        _now_ns: u64,
        id: LinkId,
        message: Message,
        token: SendToken,
    ) -> Result<(), (NotTaken, Message)> {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.is_open()) else {
            return Err((NotTaken::NoLink, message));
        };
        let was_empty = !link.wants_writable();
        link.enqueue(message, token)?;
        if link.queued_bytes() >= WRITTEN_TOGETHER_BYTES_MAX {
            let mut events = std::mem::take(&mut self.pending);
            self.write(id, &mut events);
            self.pending = events;
        } else if was_empty {
            self.unwritten.push(id);
        }
        Ok(())
    }

    fn admit(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.admit();
        }
    }

    fn close(&mut self, now_ns: u64, id: LinkId, linger_ns: u64) {
        self.pending.retain(|event| event.link() != id);
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_lingering()) else {
            return;
        };
        if linger_ns == 0 || !link.is_open() {
            self.links.remove(&id);
            return;
        }
        let until_ns = now_ns.saturating_add(linger_ns);
        // What waits for the next step is written in it.
        link.linger(until_ns);
        self.lingering.insert((until_ns, id));
    }

    fn progress(
        &mut self,
        now_ns: u64,
        events: &mut Vec<LinkEvent>,
    ) -> Result<(), TransportBroken> {
        events.append(&mut self.pending);
        self.write_all(events);
        self.resume(now_ns);
        self.end_lingering(now_ns);
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let waited =
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut ready), Some(&at_once));
        for event in &ready {
            // Both are copied: the kernel packs the record.
            let (data, flags) = (event.data, event.flags);
            match data.u64() {
                LISTENER => self.accept(now_ns, events),
                number => self.step(LinkId(number), flags, events),
            }
        }
        self.ready = ready;
        match waited {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(TransportBroken { code: errno.raw_os_error() }),
        }
    }

    fn wake_ns(&self) -> Option<u64> {
        let lingering_ns = self.lingering.first().map(|(until_ns, _)| *until_ns);
        self.paused_until_ns.into_iter().chain(lingering_ns).min()
    }

    fn arm(&mut self) -> Armed {
        if self.pending.is_empty() && self.unwritten.is_empty() {
            Armed::Sleep
        } else {
            Armed::Again
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }
}
