//! The interests of one epoll set: found by descriptor, kept over a delete, hot or cold.
//!
//! The kernel's set learns of a shadow only when somebody is about to sleep, so that a program
//! that adds, changes and deletes interests around every request makes no system call for it.

use std::mem::MaybeUninit;

use heliostat_base::call;
use heliostat_base::sys::Errno;

use super::interest::{Interest, Look};
use crate::net::{shadow, socket};

/// An interest that gave nothing so often turns cold, if the hot list is worth shortening.
const QUIET_LOOKS_MAX: u32 = 20_000;
/// A hot list of this length is never worth shortening.
const HOT_FEW: usize = 64;
/// What the kernel reports of a shadow: its bytes (bells), its end; each once.
pub const SHADOW_EVENTS: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

/// The interests of one set.
pub struct Interests {
    places: Vec<Option<Interest>>,
    by_fd: Vec<u32>,
    hot: Vec<u32>,
    next: usize,
    /// Descriptors of this process that refer to the set.
    pub descriptors: u32,
    /// Counts looks, to ask the kernel now and then.
    pub turn: u32,
    /// Cycle counter when the kernel was last asked.
    pub asked_at: u64,
    /// The set is itself in another epoll set.
    pub is_nested: bool,
    /// The kernel had something the last time it was asked.
    pub kernel_had_news: bool,
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
            next: 0,
            descriptors: 0,
            turn: 0,
            asked_at: 0,
            is_nested: false,
            kernel_had_news: false,
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

    /// Puts an interest in and says where.
    pub fn insert(&mut self, interest: Interest) -> usize {
        let fd = interest.fd as usize;
        let place = match self.places.iter().position(Option::is_none) {
            Some(place) => place,
            None => {
                self.places.push(None);
                self.places.len() - 1
            }
        };
        if self.by_fd.len() <= fd {
            self.by_fd.resize(fd + 1, 0);
        }
        self.by_fd[fd] = place as u32 + 1;
        self.places[place] = Some(interest);
        self.heat(place);
        place
    }

    /// Makes an interest one that every wait looks at.
    pub fn heat(&mut self, place: usize) {
        let Some(interest) = &mut self.places[place] else { return };
        interest.quiet_looks = 0;
        interest.was_active = true;
        if !interest.is_hot && interest.stream.is_some() {
            interest.is_hot = true;
            self.hot.push(place as u32);
        }
    }

    /// Takes an interest out for good, in the kernel's set too.
    pub fn remove(&mut self, epoll: i32, place: usize) {
        if let Some(mut interest) = self.places[place].take() {
            interest.disarm();
            if interest.in_kernel {
                let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, interest.fd, None);
            }
            self.by_fd[interest.fd as usize] = 0;
            self.hot.retain(|hot| *hot as usize != place);
        }
    }

    /// Empties the set and gives the interests back.
    pub fn take_all(&mut self) -> Vec<Interest> {
        self.hot.clear();
        self.by_fd.clear();
        std::mem::take(&mut self.places).into_iter().flatten().collect()
    }

    /// Lets the kernel report an interest's shadow under `mark | place`.
    pub fn register(&mut self, epoll: i32, mark: u64, place: usize) -> Result<(), Errno> {
        let Some(interest) = &mut self.places[place] else { return Ok(()) };
        if interest.in_kernel {
            return Ok(());
        }
        let event = libc::epoll_event { events: SHADOW_EVENTS, u64: mark | place as u64 };
        call::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, interest.fd, Some(event))?;
        interest.in_kernel = true;
        Ok(())
    }

    /// Looks at every hot interest, starting where the last full answer ended.
    pub fn scan(
        &mut self,
        epoll: i32,
        mark: u64,
        out: &mut [MaybeUninit<libc::epoll_event>],
        switched: &mut Vec<(i32, u32)>,
    ) -> usize {
        let count = self.hot.len();
        if count == 0 {
            return 0;
        }
        let (mut found, mut cools, mut has_deleted) = (0, false, false);
        // Each lane's tail may lie in the peer's cache: all misses at once, not one by one.
        if count > 1 {
            self.hot
                .iter()
                .filter_map(|place| self.places[*place as usize].as_ref())
                .for_each(Interest::prefetch);
        }
        let first = self.next % count;
        for step in 0..count {
            if found == out.len() {
                self.next = first + step;
                break;
            }
            let place = self.hot[(first + step) % count] as usize;
            let Some(interest) = &mut self.places[place] else { continue };
            match interest.look() {
                Look::Ready(events) => {
                    out[found].write(libc::epoll_event { events, u64: interest.data });
                    found += 1;
                    (interest.quiet_looks, interest.was_active) = (0, true);
                }
                Look::Quiet => {
                    interest.quiet_looks += 1;
                    has_deleted |= !interest.is_active;
                    cools |= interest.quiet_looks > QUIET_LOOKS_MAX;
                }
                Look::Switched => switched.push((interest.fd, interest.socket)),
            }
        }
        if cools && count > HOT_FEW {
            self.cool(epoll, mark, |interest| interest.quiet_looks > QUIET_LOOKS_MAX);
        } else if has_deleted && cools {
            self.drop_deleted();
        }
        found
    }

    /// Deleted interests leave the hot list once they stayed deleted for a while.
    fn drop_deleted(&mut self) {
        let places = &mut self.places;
        self.hot.retain(|place| {
            let Some(interest) = &mut places[*place as usize] else { return false };
            interest.is_hot = interest.is_active;
            interest.is_hot
        });
    }

    /// Turns hot interests cold that `is_idle` picks.
    fn cool(&mut self, epoll: i32, mark: u64, is_idle: impl Fn(&Interest) -> bool) {
        let mut hot = std::mem::take(&mut self.hot);
        hot.retain(|place| {
            let place = *place as usize;
            let is_kept = self.places[place].as_ref().is_some_and(|interest| !is_idle(interest));
            if is_kept || self.register(epoll, mark, place).is_err() {
                return is_kept;
            }
            let Some(interest) = &mut self.places[place] else { return false };
            if interest.is_active {
                interest.arm();
            }
            interest.is_hot = interest.is_ready();
            if interest.is_hot {
                interest.disarm();
            }
            interest.quiet_looks = 0;
            interest.is_hot
        });
        self.hot = hot;
    }

    /// Before a sleep: the kernel knows every hot shadow, and every peer that bells are needed.
    pub fn arm_hot(&mut self, epoll: i32, mark: u64) {
        self.drop_deleted();
        for at in 0..self.hot.len() {
            let place = self.hot[at] as usize;
            let _ = self.register(epoll, mark, place);
            if let Some(interest) = &mut self.places[place] {
                interest.arm();
            }
        }
    }

    /// After a sleep: few interests stay hot all, of many only those with something to do. While
    /// another thread still sleeps in the set, all of them go on relying on bells.
    pub fn wake_hot(&mut self, epoll: i32, mark: u64, others_sleep: bool) {
        if self.hot.len() > HOT_FEW {
            self.cool(epoll, mark, |interest| !interest.was_active);
        }
        for place in &self.hot {
            if let Some(interest) = &mut self.places[*place as usize] {
                match others_sleep {
                    true => interest.arm(),
                    false => interest.disarm(),
                }
                interest.was_active = false;
            }
        }
    }

    /// Sorts the kernel's events: native ones go to `out`, shadows turn their interest hot.
    pub fn sort(
        &mut self,
        mark: u64,
        events: &[libc::epoll_event],
        out: &mut [MaybeUninit<libc::epoll_event>],
        others_sleep: bool,
    ) -> usize {
        let mut found = 0;
        for event in events {
            let data = event.u64;
            let place = (data & 0xffff_ffff) as usize;
            let ours = data >> 32 == mark >> 32 && place < self.places.len();
            match self.places.get_mut(place).and_then(Option::as_mut) {
                Some(interest) if ours && interest.stream.is_some() => {
                    let socket = socket::at(interest.socket);
                    shadow::learn(interest.fd, socket, event.events);
                    interest.drain_bells(socket);
                    if interest.is_active {
                        match others_sleep {
                            true => interest.arm(),
                            false => interest.disarm(),
                        }
                        self.heat(place);
                    }
                }
                Some(interest) if ours => {
                    out[found]
                        .write(libc::epoll_event { events: event.events, u64: interest.data });
                    found += 1;
                }
                _ if ours => {}
                _ => {
                    out[found].write(*event);
                    found += 1;
                }
            }
        }
        found
    }
}
