//! What an epoll set does before and after its threads sleep, and how its hot list shortens.

use heliostat_base::call;

use super::{Interests, HOT_FEW, SHADOW_EVENTS};
use crate::net::shadow::sleepers::{self, Bells};
use crate::net::socket::{self, Connection};
use crate::net::watch::interest::Interest;

impl Interests {
    /// Before a poll on the set itself: what the kernel's set has of shadows tells only of news, not
    /// of interests that are kept after their delete, nor of bells whose bytes were read.
    pub fn calm(&mut self, epoll: i32) {
        for interest in self.places.iter_mut().flatten() {
            if !interest.is_active && std::mem::take(&mut interest.in_kernel) {
                let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, interest.fd, None);
            } else {
                let socket = socket::at(interest.socket);
                let connection = Connection::new(interest.fd, socket, &interest.stream);
                if sleepers::drain_unslept(connection) == Bells::Taken {
                    // What the kernel had to report of it is gone with the byte.
                    self.taken_bells.push(interest.socket);
                }
            }
        }
    }

    /// The interest is armed, and if it is ready already the kernel is made to report its shadow, by
    /// asking once for "writable", which it is.
    pub fn remind(&mut self, epoll: i32, place: usize) {
        if self.register(epoll, place).is_err() {
            return;
        }
        let Some(interest) = &mut self.places[place] else { return };
        interest.arm();
        if interest.is_ready() {
            let events = SHADOW_EVENTS | libc::EPOLLOUT as u32;
            let event = libc::epoll_event { events, u64: interest.mark(place) };
            let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, interest.fd, Some(event));
        }
    }

    /// Before a fork: the kernel's set has every interest and no other, so that a child that leaves
    /// them to the kernel only changes what is there, and brings none back that is gone.
    pub fn settle(&mut self, epoll: i32) {
        self.may_be_shared = true;
        for place in 0..self.places.len() {
            let Some(interest) = &mut self.places[place] else { continue };
            if interest.is_active {
                let _ = self.register(epoll, place);
            } else if std::mem::take(&mut interest.in_kernel) {
                let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, interest.fd, None);
            }
        }
    }

    /// Deleted interests leave the hot list once they stayed deleted for a while.
    pub(super) fn drop_deleted(&mut self) {
        let places = &mut self.places;
        self.hot.retain(|place| {
            let Some(interest) = &mut places[*place as usize] else { return false };
            interest.is_hot = interest.is_active;
            interest.is_hot
        });
    }

    /// Turns hot interests cold that `is_idle` picks.
    pub(super) fn cool(&mut self, epoll: i32, is_idle: impl Fn(&Interest) -> bool) {
        let mut hot = std::mem::take(&mut self.hot);
        hot.retain(|place| {
            let place = *place as usize;
            let is_kept = self.places[place]
                .as_ref()
                .is_some_and(|interest| !is_idle(interest) || interest.looks_for_room());
            if is_kept || self.register(epoll, place).is_err() {
                return is_kept;
            }
            let Some(interest) = &mut self.places[place] else { return false };
            if interest.is_active {
                interest.arm();
            }
            interest.since = 0;
            interest.is_hot = interest.is_ready() || interest.held_for().is_some();
            if interest.is_hot {
                interest.disarm();
            }
            interest.quiet_looks = 0;
            interest.is_hot
        });
        self.hot = hot;
    }

    /// How long a sleep may last at once because of streams that other processes hold too: one of those
    /// may take a bell, and the word that asks for it. Their interests are hot, so that who wakes by the
    /// clock looks at them.
    fn heat_shared(&mut self) -> Option<u64> {
        if !self.may_be_shared {
            return None;
        }
        let mut pause = None;
        for place in 0..self.places.len() {
            let Some(interest) = &self.places[place] else { continue };
            let siblings = socket::at(interest.socket).siblings_pause(&interest.stream);
            pause = pause.or(siblings);
            if siblings.is_some() && interest.is_active {
                self.heat(place);
            }
        }
        self.may_be_shared = pause.is_some();
        pause
    }

    /// Before a sleep: the kernel knows every hot shadow, and every peer that bells are needed. How long
    /// the sleep may last at once.
    pub fn arm_hot(&mut self, epoll: i32) -> Option<u64> {
        self.drop_deleted();
        let pause = self.heat_shared();
        for at in 0..self.hot.len() {
            let place = self.hot[at] as usize;
            let _ = self.register(epoll, place);
            if let Some(interest) = &mut self.places[place] {
                interest.arm();
            }
        }
        pause
    }

    /// After a sleep: few interests stay hot all, of many only those with something to do. While
    /// another thread still sleeps in the set, all of them go on relying on bells.
    pub fn wake_hot(&mut self, epoll: i32, others_sleep: bool) {
        if self.hot.len() > HOT_FEW {
            self.cool(epoll, |interest| !interest.was_active);
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
}
