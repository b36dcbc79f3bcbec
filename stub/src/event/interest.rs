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
            told: 0,
            tail_told: 0,
            disabled: false,
        }
    }

    /// epoll_ctl(EPOLL_CTL_MOD): all is told anew.
    pub fn modify(&mut self, event: libc::epoll_event) {
        (self.events, self.data) = (event.events, event.u64);
        (self.told, self.tail_told, self.disabled) = (0, 0, false);
        self.is_active = true;
    }

    /// Looks at the stream and says what has to be told now.
    #[inline]
    pub fn look(&mut self) -> Look {
        let Some(stream) = &self.stream else { return Look::Quiet };
        if self.disabled || !self.is_active {
            return Look::Quiet;
        }
        let socket = socket::at(self.socket);
        let (mut now, has_switched) = ready::incoming(socket, stream);
        if has_switched {
            return Look::Switched;
        }
        let is_edge = self.events & EDGE != 0;
        if self.events & (OUT | WRNORM) != 0 {
            let is_starved = socket.starved.load(Relaxed);
            if is_edge && self.told & OUT != 0 && !is_starved {
                now |= OUT | WRNORM;
            } else {
                now |= ready::outgoing(socket, stream);
            }
            if is_starved && now & OUT != 0 {
                socket.starved.store(false, Relaxed);
                self.told &= !(OUT | WRNORM);
            }
        }
        now &= self.events | ERR | HUP;
        if is_edge {
            let tail = stream.incoming.tail();
            let is_news =
                now & !self.told != 0 || (tail != self.tail_told && now & (IN | RDNORM) != 0);
            (self.told, self.tail_told) = (now, tail);
            if !is_news {
                return Look::Quiet;
            }
        }
        if now == 0 {
            return Look::Quiet;
        }
        self.disabled = self.events & ONESHOT != 0;
        Look::Ready(now)
    }

    /// True when something would be told, without telling it.
    pub fn is_ready(&self) -> bool {
        let Some(stream) = &self.stream else { return false };
        let socket = socket::at(self.socket);
        let (now, has_switched) = ready::incoming(socket, stream);
        let room = if self.wants_room() { ready::outgoing(socket, stream) } else { 0 };
        self.is_active
            && !self.disabled
            && (has_switched || (now | room) & (self.events | ERR | HUP) != 0)
    }

    /// True when room is waited for and there is none now.
    pub fn wants_room(&self) -> bool {
        self.events & (OUT | WRNORM) != 0
    }

    /// Tells the peer that nobody looks any more.
    pub fn arm(&self) {
        if let Some(stream) = &self.stream {
            ready::arm(stream, self.wants_room());
        }
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
    pub fn disarm(&self) {
        if let Some(stream) = &self.stream {
            ready::disarm(stream);
        }
    }
}
