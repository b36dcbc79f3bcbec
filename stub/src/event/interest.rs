//! One descriptor in an epoll set: what is wanted, what was told last, is it hot.
//!
//! *Hot* interests are looked at by every wait. A *cold* one has told its peer that it sleeps, so
//! its next byte comes with a bell and through the kernel; it costs nothing until then.

use std::sync::atomic::Ordering::Relaxed;

use super::ready::{self, ERR, HUP, IN, OUT, RDNORM, WRNORM};
use crate::net::shadow;
use crate::net::socket::{self, Socket, Stream};

const EDGE: u32 = libc::EPOLLET as u32;
/// Draining costs a system call, so it is done once for this many bells.
const BELLS_KEPT_MAX: u32 = 32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;

/// An interest; its place in the set's table is what the kernel gives back as event data.
pub struct Interest {
    /// Descriptor as given to epoll_ctl.
    pub fd: i32,
    /// Place in the table of connections.
    pub socket: u32,
    /// The stream; `None` when the kernel reports and only the data has to be translated.
    pub stream: Option<Stream>,
    /// Generation of that place when the interest was made.
    pub generation: u32,
    /// False after EPOLL_CTL_DEL: the place is kept, because programs that toggle interests add
    /// the same one again at once.
    pub is_active: bool,
    /// The shadow is in the kernel's set; put there only before somebody sleeps.
    pub in_kernel: bool,
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
    told: u32,
    tail_told: u64,
    disabled: bool,
}

/// What a look at an interest gave.
pub enum Look {
    /// Nothing to tell.
    Quiet,
    /// These events.
    Ready(u32),
    /// The peer switched to the kernel's path: leave the direct one.
    Switched,
}

impl Interest {
    /// A new interest of a direct stream, or of a native descriptor when `stream` is `None`.
    pub fn new(fd: i32, socket: u32, stream: Option<Stream>, event: libc::epoll_event) -> Self {
        Self {
            fd,
            socket,
            stream,
            generation: socket::at(socket).generation(),
            is_active: true,
            in_kernel: false,
            events: event.events,
            data: event.u64,
            is_hot: false,
            was_active: true,
            quiet_looks: 0,
            armed_for_room: None,
            told: 0,
            tail_told: 0,
            disabled: false,
        }
    }

    /// What the kernel shall report when it reports for us: nothing while a one-shot is spent.
    pub fn kernel_events(&self) -> u32 {
        match self.disabled {
            true => self.events & (EDGE | ONESHOT),
            false => self.events,
        }
    }

    /// epoll_ctl(EPOLL_CTL_MOD): all is told anew.
    pub fn modify(&mut self, event: libc::epoll_event) {
        (self.events, self.data) = (event.events, event.u64);
        (self.told, self.tail_told, self.disabled) = (0, 0, false);
        self.is_active = true;
    }

    /// Asks for the line that `look` reads first.
    #[inline]
    pub fn prefetch(&self) {
        if let Some(stream) = &self.stream {
            stream.incoming.prefetch();
        }
    }

    /// What would be told now: the events, whether they are news, and whether the peer switched.
    /// Edge-triggered events are news when a bit is new or bytes came since the last telling.
    #[inline]
    fn news(&self, socket: &Socket, stream: &Stream) -> (u32, bool, bool) {
        let (mut now, has_switched) = ready::incoming(socket, stream);
        let is_edge = self.events & EDGE != 0;
        let mut told = self.told;
        if self.wants_room() {
            let is_starved = socket.starved.load(Relaxed);
            if is_edge && told & OUT != 0 && !is_starved {
                now |= OUT | WRNORM;
            } else {
                now |= ready::outgoing(socket, stream);
            }
            if is_starved {
                told &= !(OUT | WRNORM);
            }
        }
        now &= self.events | ERR | HUP;
        let is_news = match is_edge {
            false => now != 0,
            true => {
                now & !told != 0
                    || (now & (IN | RDNORM) != 0 && stream.incoming.tail() != self.tail_told)
            }
        };
        (now, is_news, has_switched)
    }

    /// Looks at the stream and says what has to be told now.
    #[inline]
    pub fn look(&mut self) -> Look {
        if self.disabled || !self.is_active {
            return Look::Quiet;
        }
        let Some(stream) = &self.stream else { return Look::Quiet };
        let socket = socket::at(self.socket);
        let tail = stream.incoming.tail();
        let (now, is_news, has_switched) = self.news(socket, stream);
        if has_switched {
            return Look::Switched;
        }
        if now & OUT != 0 && socket.starved.load(Relaxed) {
            socket.starved.store(false, Relaxed);
        }
        if !is_news {
            self.told &= now;
            return Look::Quiet;
        }
        if now & IN != 0 {
            stream.incoming.prefetch_bytes();
        }
        (self.told, self.tail_told) = (now, tail);
        self.disabled = self.events & ONESHOT != 0;
        Look::Ready(now)
    }

    /// True when something would be told, without telling it.
    pub fn is_ready(&self) -> bool {
        let Some(stream) = &self.stream else { return false };
        if self.disabled || !self.is_active {
            return false;
        }
        let (_, is_news, has_switched) = self.news(socket::at(self.socket), stream);
        is_news || has_switched
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
        if let Some(stream) = &self.stream {
            let for_room = self.wants_room();
            socket::at(self.socket).arm(stream, for_room);
            self.armed_for_room = Some(for_room);
        }
    }

    /// The peer may have taken the words back when it rang for somebody: they are set anew.
    fn arm_again(&self) {
        let Some(stream) = &self.stream else { return };
        let socket = socket::at(self.socket);
        socket.arm(stream, self.armed_for_room == Some(true));
        socket.disarm(stream, self.armed_for_room == Some(true));
    }

    /// Takes bells off the shadow before they are many; edge-triggered, a few may stay.
    pub fn drain_bells(&self, socket: &Socket) {
        if let Some(stream) = &self.stream {
            if stream.incoming.bells_pending() > BELLS_KEPT_MAX {
                shadow::drain(self.fd, socket, &stream.incoming);
            }
        }
    }

    /// Somebody looks again.
    pub fn disarm(&mut self) {
        let Some(for_room) = self.armed_for_room.take() else { return };
        let socket = socket::at(self.socket);
        // A place that serves another connection by now has no count of ours.
        if let (Some(stream), true) = (&self.stream, socket.generation() == self.generation) {
            socket.disarm(stream, for_room);
        }
    }
}
