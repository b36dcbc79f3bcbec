//! One descriptor in an epoll set: what is wanted, what was told last, is it hot.
//!
//! *Hot* interests are looked at by every wait. A *cold* one has told its peer that it sleeps, so
//! its next byte comes with a bell and through the kernel; it costs nothing until then.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::mark;
use super::order::Ready;
use heliostat_base::clock;

use crate::net::ready::{self, ERR, HUP, IN, OUT, RDHUP, RDNORM, WRNORM};
use crate::net::shadow::sleepers::{self, Bells};
use crate::net::socket::{self, Connection, Socket, Stream};
use crate::net::{early, returned};

const EDGE: u32 = libc::EPOLLET as u32;
/// Draining costs a system call, so it is not done for each bell; but what lies unread is hardly
/// acknowledged, and with four segments on their way TCP may hold back the next bell for 25 ms.
const BELLS_KEPT_MAX: u32 = 2;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;

/// An interest. Its place in the set's table is in the event data that the kernel gives back.
pub struct Interest {
    /// Descriptor as given to epoll_ctl.
    pub fd: i32,
    /// Place in the table of connections.
    pub socket: u32,
    /// The stream.
    pub stream: Stream,
    /// Tells its registration in the kernel's set from those before it at the same place.
    number: u32,
    /// Generation of that place when the interest was made.
    pub generation: u32,
    /// False after EPOLL_CTL_DEL: the place is kept, because programs that toggle interests add
    /// the same one again at once.
    pub is_active: bool,
    /// The shadow is in the kernel's set; put there only before somebody sleeps.
    pub in_kernel: bool,
    /// The kernel reports room on the shadow too.
    pub is_room_watched: bool,
    /// Events asked for, with EPOLLET and EPOLLONESHOT.
    pub events: u32,
    /// The program's own data.
    pub data: u64,
    /// True while it is in the set's hot list.
    pub is_hot: bool,
    /// Something happened since the last sleep.
    pub was_active: bool,
    /// Looks in vain since something happened.
    pub quiet_looks: u32,
    /// The peer was told that it must ring: for bytes, and for room if true.
    armed_for_room: Option<bool>,
    /// Its place in the order of those to be told (see `order`), 0 while it has none.
    pub since: u64,
    /// It was not ready at this time, in cycles, or told.
    quiet_at: u64,
    told: u32,
    tail_told: u64,
    /// It was early when it was told last.
    was_early: bool,
    disabled: bool,
}

/// The kernel has reported more of the shadow than was looked at.
fn has_news(socket: &Socket) -> bool {
    socket.shadow_news.load(Acquire) != socket.shadow_news_read.load(Acquire)
}

/// What a look at an interest gave.
pub enum Look {
    /// Nothing to tell.
    Quiet,
    /// These events, with what is to be read at this position.
    Ready(u32, u64),
    /// The peer took the kernel's path, or never left it: follow it.
    Switched,
}

impl Interest {
    /// A new interest of a direct stream.
    pub fn new(fd: i32, socket: u32, stream: Stream, event: libc::epoll_event) -> Self {
        stream.incoming.want_stamps();
        Self {
            fd,
            socket,
            stream,
            number: mark::number(),
            generation: socket::at(socket).generation(),
            is_active: true,
            in_kernel: false,
            is_room_watched: false,
            events: event.events,
            data: event.u64,
            is_hot: false,
            was_active: true,
            quiet_looks: 0,
            armed_for_room: None,
            since: 0,
            quiet_at: clock::cycles(),
            told: 0,
            tail_told: 0,
            was_early: false,
            disabled: false,
        }
    }

    /// An interest that the kernel's set had before its stream began; its entry is silenced there.
    pub fn of_early(
        fd: i32,
        socket: u32,
        stream: Stream,
        event: libc::epoll_event,
        is_spent: bool,
    ) -> Self {
        let fresh = Self::new(fd, socket, stream, event);
        Self { in_kernel: true, disabled: is_spent, ..fresh }
    }

    /// What the kernel shall report once the stream is native: what the program asked for, but
    /// nothing while a one-shot is spent.
    pub fn kernel_event(&self) -> libc::epoll_event {
        let events = match self.disabled {
            true => self.events & (EDGE | ONESHOT),
            false => self.events,
        };
        libc::epoll_event { events, u64: self.data }
    }

    /// The event data under which the kernel reports its shadow.
    pub fn mark(&self, place: usize) -> u64 {
        mark::data(self.number, place)
    }

    /// epoll_ctl(EPOLL_CTL_MOD): all is told anew.
    pub fn modify(&mut self, event: libc::epoll_event) {
        (self.events, self.data) = (event.events, event.u64);
        (self.told, self.tail_told, self.disabled, self.was_early) = (0, 0, false, false);
        self.is_active = true;
    }

    /// Asks for the line that `look` reads first.
    #[inline]
    pub fn prefetch(&self) {
        self.stream.incoming.prefetch();
    }

    /// What would be told now: the events, whether they are news, and whether the peer switched.
    #[inline(always)]
    fn news(&self, socket: &Socket, stream: &Stream) -> (u32, bool, bool) {
        if socket.is_early() {
            return self.early_news(socket, stream);
        }
        if returned::is_reading(socket) {
            return self.returned_news(socket, stream);
        }
        let (incoming, has_switched) = ready::incoming(socket, stream);
        let outgoing = || ready::outgoing(socket, stream);
        let (now, is_news) = self.weigh(incoming, outgoing, socket, stream);
        (now, is_news, has_switched)
    }

    /// `news` of a connection that has come back, while its ring is read: edge-triggered, what the kernel
    /// has reported since the last telling is news.
    #[cold]
    fn returned_news(&self, socket: &Socket, stream: &Stream) -> (u32, bool, bool) {
        let (ready, is_read) = returned::events(self.fd, stream, self.events);
        let now = ready & (self.events | ERR | HUP);
        let has_more = now != 0 && self.position(socket, stream) != self.tail_told;
        let is_news = match self.events & EDGE {
            0 => now != 0,
            _ => now & !self.told != 0 || has_more,
        };
        (now, is_news, is_read)
    }

    /// `news` while some of the stream is the kernel's.
    #[cold]
    fn early_news(&self, socket: &Socket, stream: &Stream) -> (u32, bool, bool) {
        let wants_bytes = self.events & (IN | RDNORM | RDHUP) != 0;
        let (incoming, has_switched) = match wants_bytes || !early::sends_on_shadow(socket) {
            true => early::incoming(Connection::new(self.fd, socket, stream), has_news(socket)),
            // Who waits for room only gets the kernel's, and is not given the ring's beside it.
            false => (0, has_news(socket) && early::has_failed(self.fd)),
        };
        let outgoing = || early::outgoing(Connection::new(self.fd, socket, stream));
        let (now, is_news) = self.weigh(incoming, outgoing, socket, stream);
        (now, is_news, has_switched)
    }

    /// What of the stream's state is asked for, and whether it is news. Edge-triggered events are
    /// news when a bit is new or bytes came since the last telling.
    #[inline(always)]
    fn weigh(
        &self,
        incoming: u32,
        outgoing: impl FnOnce() -> u32,
        socket: &Socket,
        stream: &Stream,
    ) -> (u32, bool) {
        let mut now = incoming;
        let is_edge = self.events & EDGE != 0;
        let mut told = self.told;
        if self.wants_room() {
            let is_starved = socket.starved.load(Relaxed);
            if is_edge && told & OUT != 0 && !is_starved {
                now |= OUT | WRNORM;
            } else {
                now |= outgoing();
            }
            if is_starved {
                told &= !(OUT | WRNORM);
            }
        }
        now &= self.events | ERR | HUP;
        if !is_edge {
            return (now, now != 0);
        }
        let has_bytes = now & (IN | RDNORM) != 0;
        let has_more = has_bytes
            && (self.position(socket, stream) != self.tail_told || self.has_settled(socket));
        (now, now & !told != 0 || has_more)
    }

    /// True once the ring is all there is, since the last telling. What came on the shadow meanwhile
    /// is read, and the kernel's report of that counts no more. But a program that asked for FIONREAD
    /// before stops where that ended: such a program waits for an event for the rest, which lies in the
    /// ring and was told already.
    fn has_settled(&self, socket: &Socket) -> bool {
        self.was_early && !socket.is_early()
    }

    /// Just added or changed: what is ready already has its place in the order now. A level-triggered
    /// one has the place of its last telling, which costs no look: programs that add and delete
    /// around every request would pay for it.
    pub fn join(&mut self) {
        if self.since == 0 && self.events & (EDGE | ONESHOT) != 0 {
            self.quiet_at = clock::cycles();
            if self.is_ready() {
                self.since = self.quiet_at;
            }
        }
    }

    /// When the stream became ready, as its peer says, after it was last seen not to be.
    pub fn published(&self, now: u64) -> u64 {
        self.stream.incoming.published_since(self.quiet_at, now)
    }

    /// Changes when there is more to read: with each byte in the ring, and with the kernel's news of
    /// an early shadow.
    #[inline]
    fn position(&self, socket: &Socket, stream: &Stream) -> u64 {
        let news = socket.shadow_news.load(Relaxed);
        stream.incoming.tail().wrapping_add(u64::from(news) << 40)
    }

    fn is_early(&self) -> bool {
        socket::at(self.socket).is_early()
    }

    /// What the kernel is to report of the descriptor under our mark, while it knows what no ring does;
    /// `of_shadow` is what it reports of any shadow.
    pub fn watched_events(&self, of_shadow: u32) -> u32 {
        if returned::is_reading(socket::at(self.socket)) {
            return returned::kernels(self.events) | EDGE;
        }
        let room = if self.wants_room() { OUT } else { 0 };
        of_shadow | room
    }

    /// True while some of the stream is the kernel's, and the kernel does not report all of it.
    pub fn is_unwatched(&self) -> bool {
        if returned::is_reading(socket::at(self.socket)) {
            return true;
        }
        self.is_early() && (!self.in_kernel || (self.wants_room() && !self.is_room_watched))
    }

    /// True when room is waited for and no bell may come for it, behind payload that nobody has read:
    /// the next look must not be far.
    pub fn looks_for_room(&self) -> bool {
        let is_early = self.is_active && self.wants_room() && self.is_early();
        is_early && self.has_unheard_bells()
    }

    #[cold]
    fn has_unheard_bells(&self) -> bool {
        let (socket, stream) = (socket::at(self.socket), &self.stream);
        !early::sends_on_shadow(socket)
            && ready::outgoing(socket, stream) == 0
            && early::has_payload(Connection::new(self.fd, socket, stream))
    }

    /// For how many ns more its bytes are held back, if there are some: no bell comes when they are due.
    pub fn held_for(&self) -> Option<u64> {
        let is_in_ring = self.is_active && !self.is_early();
        is_in_ring.then(|| self.stream.incoming.held_for()).flatten()
    }

    /// Looks at the stream at time `now` and says what has to be told.
    #[inline]
    pub fn look(&mut self, now: u64) -> Look {
        if self.disabled || !self.is_active {
            return Look::Quiet;
        }
        let (socket, stream) = (socket::at(self.socket), &self.stream);
        let tail = self.position(socket, stream);
        let (events, is_news, has_switched) = self.news(socket, stream);
        if has_switched {
            return Look::Switched;
        }
        if !is_news {
            self.told &= events;
            self.quiet_at = now;
            return Look::Quiet;
        }
        if events & IN != 0 {
            stream.incoming.prefetch_bytes();
        }
        if self.since == 0 {
            self.since = self.published(now);
        }
        Look::Ready(events, tail)
    }

    /// What a look found is told, as number `at` of those told at time `now`.
    #[inline]
    pub fn tell(&mut self, ready: &Ready, now: u64, at: usize) -> libc::epoll_event {
        let socket = socket::at(self.socket);
        if ready.events & OUT != 0 && socket.starved.load(Relaxed) {
            socket.starved.store(false, Relaxed);
        }
        (self.told, self.tail_told) = (ready.events, ready.tail);
        self.was_early = socket.is_early();
        self.disabled = self.events & ONESHOT != 0;
        self.quiet_at = now + 1 + at as u64;
        // Level-triggered it joins again at the end.
        self.since = match self.events & (EDGE | ONESHOT) {
            0 => self.quiet_at,
            _ => 0,
        };
        (self.quiet_looks, self.was_active) = (0, true);
        libc::epoll_event { events: ready.events, u64: self.data }
    }

    /// True when something would be told, without telling it.
    pub fn is_ready(&self) -> bool {
        if self.disabled || !self.is_active {
            return false;
        }
        let socket = socket::at(self.socket);
        let (_, is_news, has_switched) = self.news(socket, &self.stream);
        // The bell of a switch wakes who sleeps for it.
        is_news || has_switched && !socket.awaits_bell.load(Relaxed)
    }

    /// True when room is waited for and there is none now.
    pub fn wants_room(&self) -> bool {
        self.events & (OUT | WRNORM) != 0
    }

    /// Tells the peer that nobody looks any more; once, however often it is called.
    pub fn arm(&mut self) {
        if self.armed_for_room.is_some() {
            return self.arm_again();
        }
        let for_room = self.wants_room();
        socket::at(self.socket).arm(&self.stream, for_room);
        self.armed_for_room = Some(for_room);
    }

    /// The peer may have taken the words back when it rang for somebody: they are set anew.
    fn arm_again(&self) {
        let (socket, stream) = (socket::at(self.socket), &self.stream);
        socket.arm(stream, self.armed_for_room == Some(true));
        socket.disarm(stream, self.armed_for_room == Some(true));
    }

    /// Takes bells off the shadow before they are many; edge-triggered, a few may stay.
    pub fn drain_bells(&self, socket: &Socket) -> Bells {
        match self.stream.incoming.bells_pending() > BELLS_KEPT_MAX {
            true => sleepers::drain_unslept(Connection::new(self.fd, socket, &self.stream)),
            false => Bells::None,
        }
    }

    /// Somebody looks again.
    pub fn disarm(&mut self) {
        let Some(for_room) = self.armed_for_room.take() else { return };
        let socket = socket::at(self.socket);
        // A place that serves another connection by now has no count of ours.
        if socket.generation() == self.generation {
            socket.disarm(&self.stream, for_room);
        }
    }
}
