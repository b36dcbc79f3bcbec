//! The interests of one epoll set: found by descriptor, kept over a delete, hot or cold.
//!
//! The kernel's set learns of a shadow only when somebody is about to sleep, so that a program
//! that adds, changes and deletes interests around every request makes no system call for it.

mod sleep;

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Release;

use heliostat_abi::code::Native;
use heliostat_base::call;
use heliostat_base::sys::Errno;

use super::interest::{Interest, Look};
use super::mark;
use super::order::{Found, Ready};
use crate::net::shadow::sleepers::Bells;
use crate::net::{returned, shadow, socket};

/// An interest that gave nothing so often turns cold, if the hot list is worth shortening.
const QUIET_LOOKS_MAX: u32 = 20_000;
/// A hot list of this length is never worth shortening.
const HOT_FEW: usize = 64;
/// Peers that end without a word are looked for this often (some 100 us) while there is work; before
/// a sleep the kernel's set gets all shadows.
const DOUBT_PAUSE_CYCLES: u64 = 250_000;
/// What the kernel reports of a shadow: its bytes (bells), its end; each once.
pub const SHADOW_EVENTS: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

/// The interests of one set.
pub struct Interests {
    places: Vec<Option<Interest>>,
    by_fd: Vec<u32>,
    hot: Vec<u32>,
    /// What the wait that is under way has found.
    pub found: Found,
    /// Descriptors of this process that refer to the set.
    pub descriptors: u32,
    /// Cycle counter when the kernel was last asked.
    pub asked_at: u64,
    /// Cycle counter when peers that may have ended without a word were last looked for.
    doubted_at: u64,
    /// Why only the kernel looks at this set (it is in another one, or other processes use it).
    pub kernel_only: Option<Native>,
    /// The kernel had something the last time it was asked.
    pub kernel_had_news: bool,
    /// Other processes may hold the streams of some interests.
    may_be_shared: bool,
    /// Connections whose bells were taken off here while a report of the kernel's, to this set or another,
    /// may still have been due (`life::repeat_bell`).
    pub taken_bells: Vec<u32>,
}

impl Default for Interests {
    fn default() -> Self {
        Self::new()
    }
}

impl Interests {
    /// No interests.
    pub const fn new() -> Self {
        Self {
            places: Vec::new(),
            by_fd: Vec::new(),
            hot: Vec::new(),
            found: Found::new(),
            descriptors: 0,
            asked_at: 0,
            doubted_at: 0,
            kernel_only: None,
            kernel_had_news: false,
            may_be_shared: false,
            taken_bells: Vec::new(),
        }
    }

    /// The place of `fd`'s interest, active or kept.
    pub fn place_of(&self, fd: i32) -> Option<usize> {
        let place = *self.by_fd.get(usize::try_from(fd).ok()?)?;
        (place != 0).then(|| place as usize - 1)
    }

    /// The interest at `place`.
    pub fn at(&mut self, place: usize) -> Option<&mut Interest> {
        self.places.get_mut(place)?.as_mut()
    }

    /// Every interest, active or kept.
    pub fn all(&self) -> impl Iterator<Item = &Interest> {
        self.places.iter().flatten()
    }

    /// Places in use or used before.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True when nothing was ever put in.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Interests that are looked at now.
    pub fn hot(&self) -> impl Iterator<Item = &Interest> {
        let at = |place: &u32| self.places[*place as usize].as_ref();
        self.hot.iter().filter_map(at).filter(|interest| interest.is_active)
    }

    /// True when something is looked at now.
    pub fn has_hot(&self) -> bool {
        !self.hot.is_empty()
    }

    /// Looks at the shadows of peers that may have ended without a word, once in a while: those that
    /// the kernel's set does not have tell nobody.
    pub fn doubt(&mut self, now: u64, is_last_look: bool) {
        if !is_last_look && now.wrapping_sub(self.doubted_at) < DOUBT_PAUSE_CYCLES {
            return;
        }
        self.doubted_at = now;
        for interest in self.hot() {
            shadow::doubt(interest.fd, socket::at(interest.socket), &interest.stream);
        }
    }

    /// Puts an interest in and says where; `None` when the set is full.
    pub fn insert(&mut self, interest: Interest) -> Option<usize> {
        let fd = interest.fd as usize;
        let place = match self.places.iter().position(Option::is_none) {
            Some(place) => place,
            None if self.places.len() == mark::PLACES_MAX => return None,
            None => {
                self.places.push(None);
                self.places.len() - 1
            }
        };
        if self.by_fd.len() <= fd {
            self.by_fd.resize(fd + 1, 0);
        }
        self.by_fd[fd] = place as u32 + 1;
        self.may_be_shared |= socket::at(interest.socket).is_shared();
        self.places[place] = Some(interest);
        self.heat(place);
        Some(place)
    }

    /// Makes an interest one that every wait looks at.
    pub fn heat(&mut self, place: usize) {
        let Some(interest) = &mut self.places[place] else { return };
        interest.quiet_looks = 0;
        interest.was_active = true;
        if !interest.is_hot {
            interest.is_hot = true;
            self.hot.push(place as u32);
        }
    }

    /// Takes an interest out for good; the caller answers for what the kernel's set has of it.
    pub fn take(&mut self, place: usize) -> Option<Interest> {
        let mut interest = self.places.get_mut(place)?.take()?;
        interest.disarm();
        self.by_fd[interest.fd as usize] = 0;
        self.hot.retain(|hot| *hot as usize != place);
        Some(interest)
    }

    /// Takes an interest out for good, in the kernel's set too.
    pub fn remove(&mut self, epoll: i32, place: usize) {
        if let Some(interest) = self.take(place).filter(|interest| interest.in_kernel) {
            let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, interest.fd, None);
        }
    }

    /// Empties the set and gives the interests back.
    pub fn take_all(&mut self) -> Vec<Interest> {
        self.hot.clear();
        self.by_fd.clear();
        std::mem::take(&mut self.places).into_iter().flatten().collect()
    }

    /// Lets the kernel report an interest's shadow under our mark.
    pub fn register(&mut self, epoll: i32, place: usize) -> Result<(), Errno> {
        let Some(interest) = &mut self.places[place] else { return Ok(()) };
        if interest.in_kernel {
            return Ok(());
        }
        let event = libc::epoll_event { events: SHADOW_EVENTS, u64: interest.mark(place) };
        call::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, interest.fd, Some(event))?;
        interest.in_kernel = true;
        Ok(())
    }

    /// The kernel reports the shadow of an early stream from now on, or the socket of a connection that
    /// has come back, since it is the kernel that knows what comes, and whether there is room.
    pub fn watch_kernels(&mut self, epoll: i32, place: usize) -> Result<(), Errno> {
        let Some(interest) = &mut self.places[place] else { return Ok(()) };
        let op = if interest.in_kernel { libc::EPOLL_CTL_MOD } else { libc::EPOLL_CTL_ADD };
        let events = interest.watched_events(SHADOW_EVENTS);
        let event = libc::epoll_event { events, u64: interest.mark(place) };
        call::epoll_ctl(epoll, op, interest.fd, Some(event))?;
        let is_room_watched = events & libc::EPOLLOUT as u32 != 0;
        (interest.in_kernel, interest.is_room_watched) = (true, is_room_watched);
        Ok(())
    }

    /// Looks at every hot interest at time `now`: those that are ready are in order in `found`.
    pub fn scan(&mut self, epoll: i32, now: u64, switched: &mut Vec<(i32, u32)>) {
        self.found.direct.clear();
        self.found.idle.clear();
        let count = self.hot.len();
        let (mut cools, mut has_deleted) = (false, false);
        // Each lane's tail may lie in the peer's cache: all misses at once, not one by one.
        if count > 1 {
            self.hot
                .iter()
                .filter_map(|place| self.places[*place as usize].as_ref())
                .for_each(Interest::prefetch);
        }
        for &place in &self.hot {
            let Some(interest) = &mut self.places[place as usize] else { continue };
            match interest.look(now) {
                Look::Ready(events, tail) => {
                    let since = interest.since;
                    interest.quiet_looks = 0;
                    self.found.direct.push(Ready { since, place, events, tail });
                }
                Look::Quiet => {
                    if interest.since != 0 {
                        self.found.idle.push(place);
                    }
                    interest.quiet_looks += 1;
                    has_deleted |= !interest.is_active;
                    cools |= interest.quiet_looks > QUIET_LOOKS_MAX;
                }
                Look::Switched => {
                    interest.quiet_looks += 1;
                    switched.push((interest.fd, interest.socket));
                }
            }
        }
        if self.found.sort() {
            self.follow_found();
        }
        if cools && count > HOT_FEW {
            self.cool(epoll, |interest| interest.quiet_looks > QUIET_LOOKS_MAX);
        } else if has_deleted && cools {
            self.drop_deleted();
        }
    }

    /// Puts the hot list into the order of what was found, at its end: peers that are answered in an
    /// order speak again in that order, so that the next look mostly finds it sorted.
    fn follow_found(&mut self) {
        let places = &self.places;
        let is_quiet = |place: &u32| {
            places[*place as usize].as_ref().is_some_and(|interest| interest.quiet_looks > 0)
        };
        self.hot.retain(is_quiet);
        self.hot.extend(self.found.direct.iter().map(|ready| ready.place));
    }

    /// Tells what was found, as much as there is room for, and says how much that is.
    pub fn tell(&mut self, out: &mut [MaybeUninit<libc::epoll_event>], now: u64) -> usize {
        let places = &mut self.places;
        let mut last = u64::MAX;
        let room = out.len();
        let put = |at: usize, event| _ = out[at].write(event);
        let told = self.found.merge(room, put, |ready, at| {
            last = ready.since;
            match places[ready.place as usize].as_mut() {
                Some(interest) => interest.tell(ready, now, at),
                None => libc::epoll_event { events: 0, u64: 0 },
            }
        });
        // A wait that was full did not come to those behind the last one that it told.
        let reached = if told == room { last } else { u64::MAX };
        for place in self.found.idle.drain(..) {
            let interest = places[place as usize].as_mut();
            if let Some(interest) = interest.filter(|interest| interest.since <= reached) {
                interest.since = 0;
            }
        }
        self.found.direct.clear();
        self.found.native.clear();
        told
    }

    /// Sorts the kernel's events, of which it had none at time `since`: those of shadows turn their
    /// interest hot (true if one was cold), all others are found. A mark that names nothing here is
    /// of a registration that is gone, or of another process.
    pub fn sort(
        &mut self,
        events: &[libc::epoll_event],
        mut since: u64,
        now: u64,
        others_sleep: bool,
    ) -> bool {
        let mut has_heated = false;
        for event in events {
            let data = event.u64;
            if !mark::is_ours(data) {
                self.found.native.push((since, *event));
                continue;
            }
            let place = mark::place(data);
            let Some(interest) = self.places.get_mut(place).and_then(Option::as_mut) else {
                continue;
            };
            if interest.mark(place) == data {
                // What the kernel tells after this bell became ready after it was rung.
                since = since.max(interest.published(now));
                // Of an early one the kernel knows what no memory does.
                let socket = socket::at(interest.socket);
                let is_kernels = socket.is_early() || returned::is_reading(socket);
                has_heated |= !interest.is_hot || is_kernels;
                self.bell(place, event.events, others_sleep);
            }
        }
        has_heated
    }

    /// How much the kernel has reported of what only it answers for, which is not told yet.
    pub fn native_found(&self) -> usize {
        self.found.native.len()
    }

    /// Drops what the kernel has reported again since there were `known` reports.
    pub fn drop_repeated(&mut self, known: usize) {
        let mut new = self.found.native.split_off(known);
        let old = &self.found.native;
        new.retain(|(_, event)| !old.iter().any(|(_, known)| known.u64 == event.u64));
        self.found.native.append(&mut new);
    }

    /// The kernel reported an interest's shadow.
    fn bell(&mut self, place: usize, events: u32, others_sleep: bool) {
        let Some(interest) = &mut self.places[place] else { return };
        let socket = socket::at(interest.socket);
        shadow::learn(interest.fd, socket, events);
        let is_early_news = socket.is_early() && events & !(libc::EPOLLOUT as u32) != 0;
        if is_early_news || returned::is_reading(socket) {
            socket.shadow_news.fetch_add(1, Release);
        }
        if interest.drain_bells(socket) == Bells::Taken && socket.sets.lock().len() > 1 {
            self.taken_bells.push(interest.socket);
        }
        if interest.is_active {
            match others_sleep {
                true => interest.arm(),
                false => interest.disarm(),
            }
            self.heat(place);
        }
    }
}
