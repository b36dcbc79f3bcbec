//! The loop itself: whose turn it is, who sleeps, and what comes and goes.
//!
//! ```text
//! orders, events --> connections become warm --> turns, round and round --> nothing moved:
//!    ^                                                                     look on, or
//!    +------------- sleep <--- those with nothing to do become cold <------+
//! ```
//! A warm connection's lanes are looked at in every round; a cold one's program rings. So a round
//! costs what is busy, however many connections there are. In a round each session moves no more
//! than [`rounds::SESSION_BYTES`] at once, and rounds begin with another connection each.

mod rounds;

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_backend_tcp::{Direction, Mover, Transfer};
use heliostat_base::clock;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sys::Errno;
use tracing::debug;

use crate::channel::{Brought, Channel, Handed};
use crate::connection::{Connection, Turn};
use crate::counts::Counts;
use crate::ending;
use crate::events::{About, EventSet, Place};
use crate::share::CarriedShare;
use crate::waiting::Waiting;
use crate::Order;

/// Peers that take nothing are looked after this often.
const TICK_NS: u64 = 1_000_000_000;
const TRIGGERED: i32 = libc::EPOLLET | libc::EPOLLIN | libc::EPOLLRDHUP;
/// Of a peer's socket: its room, and urgent data too.
const SOCKET_EVENTS: i32 = TRIGGERED | libc::EPOLLOUT | libc::EPOLLPRI;

/// A loop.
pub struct Carrier {
    orders: Receiver<Order>,
    bell: Arc<OwnedFd>,
    counts: Arc<Counts>,
    share: Arc<CarriedShare>,
    /// No order comes any more.
    is_over: bool,
    events: EventSet,
    channels: Vec<Option<Channel>>,
    connections: Vec<Option<Connection>>,
    free: Vec<u32>,
    serial: u32,
    /// Connections whose lanes are looked at.
    warm: Vec<u32>,
    /// Connections whose programs are gone, and not their bytes.
    lingering: Vec<u32>,
    /// What each session has moved in this round.
    moved: HashMap<ObjectId, usize>,
    first: usize,
    /// What this round moves, for which connections, and how it went.
    transfers: Vec<Transfer>,
    asked: Vec<(u32, Direction)>,
    answers: Vec<Result<usize, Errno>>,
}

impl Carrier {
    /// A loop that carries nothing yet.
    ///
    /// # Errors
    /// The system has no descriptor.
    pub fn create(
        orders: Receiver<Order>,
        bell: Arc<OwnedFd>,
        counts: Arc<Counts>,
        share: Arc<CarriedShare>,
    ) -> std::io::Result<Self> {
        let events = EventSet::create()?;
        events
            .watch(&*bell, libc::EPOLLIN, About::Orders)
            .map_err(|Errno(errno)| std::io::Error::from_raw_os_error(errno))?;
        Ok(Self {
            orders,
            bell,
            counts,
            share,
            is_over: false,
            events,
            channels: Vec::new(),
            connections: Vec::new(),
            free: Vec::new(),
            serial: 0,
            warm: Vec::new(),
            lingering: Vec::new(),
            moved: HashMap::new(),
            first: 0,
            transfers: Vec::new(),
            asked: Vec::new(),
            answers: Vec::new(),
        })
    }

    /// Carries until nothing can come any more, and all has ended.
    pub fn run(mut self, is_alone: bool) {
        let (mut waiting, mut mover) = (Waiting::new(is_alone), Mover::create());
        debug!(ring = mover.has_ring(), "carries connections");
        let mut sleeps = false;
        while !self.is_through() {
            let timeout = match (sleeps, self.lingering.is_empty()) {
                (false, _) => Some(0),
                (true, true) => None,
                (true, false) => Some(TICK_NS),
            };
            self.attend(timeout);
            let now_ns = clock::monotonic_ns();
            let moved = self.round(&mut mover, now_ns);
            if moved {
                waiting.moved(now_ns);
            }
            self.give_up_late(now_ns);
            sleeps = !moved && !waiting.looks_on(now_ns) && self.lie_down();
            if sleeps {
                waiting.sleeps();
                Counts::add(&self.counts.sleeps, 1);
            }
        }
    }

    fn is_through(&self) -> bool {
        self.is_over && self.channels.iter().all(Option::is_none)
    }

    /// Takes what the kernel tells.
    fn attend(&mut self, timeout_ns: Option<u64>) {
        let told: Vec<_> = self.events.wait(timeout_ns).collect();
        for (about, events) in told {
            match about {
                About::Orders => self.take_orders(),
                About::Link(index) => self.take_hands(index),
                About::Socket(place) => self.socket_event(place, events),
                About::Shadow(place) => self.shadow_event(place, events),
            }
        }
    }

    fn take_orders(&mut self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
        loop {
            let order = match self.orders.try_recv() {
                Ok(order) => order,
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => return self.is_over = true,
            };
            Counts::add(&self.counts.orders, 1);
            match order {
                Order::Carry(new) => {
                    let index = self.channels.iter().position(Option::is_none);
                    let index = index.unwrap_or_else(|| {
                        self.channels.push(None);
                        self.channels.len() - 1
                    });
                    let about = About::Link(index as u32);
                    // A link that nobody watches is closed: its program asks anew.
                    if self.events.watch(new.link.as_fd(), libc::EPOLLIN, about).is_ok() {
                        self.channels[index] = Some(Channel::new(new));
                    }
                }
                Order::End { id, revoked } => self.end_channel(id, revoked),
            }
        }
    }

    fn end_channel(&mut self, id: ObjectId, revoked: bool) {
        let is_it = |channel: &Option<Channel>| channel.as_ref().is_some_and(|it| it.id == id);
        let Some(index) = self.channels.iter().position(is_it) else { return };
        if let Some(channel) = &mut self.channels[index] {
            channel.unlink(&self.events);
        }
        if revoked {
            let places: Vec<_> = self.places_of(index as u32).collect();
            places.into_iter().for_each(|place| self.end(place, Turn::WantedBack));
        }
        self.forget_if_unused(index as u32);
    }

    fn places_of(&self, channel: u32) -> impl Iterator<Item = u32> + '_ {
        let all = self.connections.iter().enumerate();
        all.filter(move |(_, it)| it.as_ref().is_some_and(|it| it.channel == channel))
            .map(|(place, _)| place as u32)
    }

    fn forget_if_unused(&mut self, index: u32) {
        let channel = &mut self.channels[index as usize];
        if channel.as_ref().is_some_and(|it| it.link.is_none() && !it.is_used()) {
            *channel = None;
        }
    }

    fn take_hands(&mut self, index: u32) {
        let Some(Some(channel)) = self.channels.get_mut(index as usize) else { return };
        match channel.bring() {
            Brought::Hands(hands) => {
                for handed in hands {
                    Counts::add(&self.counts.handed, 1);
                    if handed.is_none_or(|handed| !self.begin(index, handed)) {
                        Counts::add(&self.counts.refused, 1);
                    }
                }
            }
            Brought::End => {
                channel.unlink(&self.events);
                self.forget_if_unused(index);
            }
        }
    }

    /// Begins to carry a connection; false when it is closed instead.
    fn begin(&mut self, index: u32, handed: Handed) -> bool {
        let Some(Some(channel)) = self.channels.get_mut(index as usize) else { return false };
        let slot = handed.slot;
        let Some(lanes) = channel.lanes(slot) else {
            channel.free(slot, 0);
            channel.let_go(handed.socket);
            channel.let_go(handed.shadow);
            return false;
        };
        if !self.share.take(channel.holder) {
            ending::refuse_full(&lanes.0, handed, channel);
            return false;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() as u32 - 1
        });
        self.serial = self.serial.wrapping_add(1);
        let connection = Connection::new(index, handed, lanes, self.serial);
        let at = Place { index: place, serial: self.serial };
        let watched = self
            .events
            .watch(&connection.socket, SOCKET_EVENTS, About::Socket(at))
            .and_then(|()| self.events.watch(&connection.shadow, TRIGGERED, About::Shadow(at)));
        if let Err(errno) = watched {
            debug!(%errno, "a connection is not carried");
            self.events.forget(&connection.socket);
            self.share.give_back(channel.holder);
            channel.free(slot, 0);
            channel.let_go(connection.socket);
            channel.let_go(connection.shadow);
            self.free.push(place);
            return false;
        }
        self.connections[place as usize] = Some(connection);
        Counts::add(&self.counts.connections, 1);
        self.warm_up(place);
        true
    }

    fn at(&mut self, place: Place) -> Option<&mut Connection> {
        let found = self.connections.get_mut(place.index as usize)?.as_mut()?;
        place.is_of(found.serial).then_some(found)
    }

    fn socket_event(&mut self, place: Place, events: u32) {
        let Some(connection) = self.at(place) else { return };
        let has = |wanted: i32| events & wanted as u32 != 0;
        let is_over = has(libc::EPOLLERR | libc::EPOLLHUP);
        if has(libc::EPOLLPRI) && !connection.is_gone {
            // A lane has no mark: the kernel tells the program of it, behind what was received before.
            return self.end(place.index, Turn::WantedBack);
        }
        connection.ends_soon |= has(libc::EPOLLRDHUP) || is_over;
        connection.is_readable |= has(libc::EPOLLIN | libc::EPOLLRDHUP) || is_over;
        connection.is_writable |= has(libc::EPOLLOUT) || is_over;
        if is_over && connection.is_broken() {
            return self.end(place.index, Turn::Reset);
        }
        self.warm_up(place.index);
    }

    fn shadow_event(&mut self, place: Place, events: u32) {
        let Some(connection) = self.at(place) else { return };
        let (foreign, channel) = (connection.drain(), connection.channel);
        if !foreign.is_empty() {
            self.let_go(channel, foreign);
            return self.end(place.index, Turn::Corrupt);
        }
        let is_over = events & (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0;
        if is_over {
            self.is_gone(place.index);
        }
        self.warm_up(place.index);
    }

    /// Closes what a channel's session has shown.
    fn let_go(&self, channel: u32, fds: Vec<heliostat_base::fd::OwnedFd>) {
        if let Some(Some(channel)) = self.channels.get(channel as usize) {
            fds.into_iter().for_each(|fd| channel.let_go(fd));
        }
    }

    /// The program has closed its end: what it has sent is still to be sent.
    fn is_gone(&mut self, place: u32) {
        let Some(Some(connection)) = self.connections.get_mut(place as usize) else { return };
        if connection.inward.is_native_wanted() {
            return self.end(place, Turn::WantedBack); // it has put the socket in its shadow's place
        }
        if !std::mem::replace(&mut connection.is_gone, true) {
            ending::widen(connection);
            connection.waits_since_ns = clock::monotonic_ns();
            self.lingering.push(place);
        }
    }

    fn warm_up(&mut self, place: u32) {
        let Some(Some(connection)) = self.connections.get_mut(place as usize) else { return };
        if !std::mem::replace(&mut connection.is_warm, true) {
            connection.rise();
            connection.moved_at_ns = connection.moved_at_ns.max(clock::monotonic_ns());
            self.warm.push(place);
        }
    }

    /// Peers that take nothing of what a program has left are not waited for for ever.
    fn give_up_late(&mut self, now_ns: u64) {
        let mut lingering = std::mem::take(&mut self.lingering);
        lingering.retain(|place| {
            let Some(Some(connection)) = self.connections.get(*place as usize) else {
                return false;
            };
            let is_late = connection.is_given_up(now_ns);
            if is_late {
                self.end(*place, Turn::Reset);
            }
            !is_late
        });
        self.lingering = lingering;
    }

    fn end(&mut self, place: u32, turn: Turn) {
        let taken = self.connections.get_mut(place as usize).and_then(Option::take);
        let Some(connection) = taken else { return };
        let index = connection.channel;
        // The program may have both open still: without this the set would tell of them for ever.
        self.events.forget(&connection.socket);
        self.events.forget(&connection.shadow);
        if let Some(Some(channel)) = self.channels.get_mut(index as usize) {
            ending::end(connection, turn, channel, &self.counts);
            self.share.give_back(channel.holder);
        }
        self.warm.retain(|warm| *warm != place);
        self.lingering.retain(|lingering| *lingering != place);
        self.free.push(place);
        self.counts.connections.fetch_sub(1, Relaxed);
        self.forget_if_unused(index);
    }
}
