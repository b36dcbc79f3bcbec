//! The consumers of a queue as its producer sees them: who sits where, how far each has come, what
//! was dealt to whom.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::time::Duration;

use heliostat_base::call;
use heliostat_ring::queue::Standing;

use super::memory::Page;
use crate::guests::{Admission, ConsumerHandle, Guests};

/// Between two looks while there is no consumer that could ring.
const NAP_MS: i32 = 10;

struct Guest {
    page: Page,
    standing: Standing,
    /// Numbers dealt to it that it has not passed, oldest first.
    dealt: VecDeque<u64>,
}

#[derive(Default)]
pub(super) struct Seats(Guests<Guest>);

impl Seats {
    /// A seat for a consumer, `None` when all are taken.
    pub(super) fn seat(&mut self, way: Admission, page: Page) -> Option<ConsumerHandle> {
        if self.0.is_full(way) {
            self.0.dismiss_if(Admission::Admitted, |guest| !guest.page.bell.drain());
        }
        let standing = Standing { cursor: 0, counts: true };
        let handle = self.0.seat(way, Guest { page, standing, dealt: VecDeque::new() })?;
        self.page(handle).into_iter().for_each(|page| page.set_handle(handle));
        Some(handle)
    }

    pub(super) fn dismiss(&mut self, consumer: ConsumerHandle) {
        self.0.dismiss(consumer);
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = &Page> + Clone {
        self.0.pages().map(|guest| &guest.page)
    }

    pub(super) fn page(&self, consumer: ConsumerHandle) -> Option<&Page> {
        self.0.get(consumer).map(|guest| &guest.page)
    }

    /// Looks at every cursor. `oldest`: what lies below it is not in the window any more.
    pub(super) fn follow(&mut self, head: u64, oldest: u64) {
        for guest in self.0.pages_mut() {
            guest.standing.follow(&guest.page, head);
            let passed = guest.standing.cursor.max(oldest);
            while guest.dealt.front().is_some_and(|number| *number < passed) {
                guest.dealt.pop_front();
            }
        }
    }

    /// The lowest number that somebody who counts has yet to read, if anybody counts.
    pub(super) fn lowest(&self) -> Option<u64> {
        let counting = self.0.pages().filter(|guest| guest.standing.counts);
        counting.map(|guest| guest.standing.cursor).min()
    }

    /// Of those who count, the one with fewest to do.
    pub(super) fn choose(&self) -> Option<ConsumerHandle> {
        let counting = self.0.iter().filter(|it| it.1.standing.counts);
        counting.min_by_key(|it| it.1.dealt.len()).map(|it| it.0)
    }

    pub(super) fn deal(&mut self, consumer: ConsumerHandle, number: u64) {
        if let Some(guest) = self.0.get_mut(consumer) {
            guest.dealt.push_back(number);
        }
    }

    /// True when `number`, dealt to `consumer`, is read, or will never be.
    pub(super) fn is_done(&self, consumer: ConsumerHandle, number: u64) -> bool {
        let guest = self.0.get(consumer);
        guest.is_none_or(|it| !it.standing.counts || it.standing.cursor > number)
    }

    /// Whoever has `number` or less yet to read counts no more; how many those were.
    pub(super) fn expel(&mut self, number: u64, is_dealt: bool) -> usize {
        let mut expelled = 0;
        for guest in self.0.pages_mut().filter(|guest| guest.standing.counts) {
            let next =
                if is_dealt { guest.dealt.front().copied() } else { Some(guest.standing.cursor) };
            if next.is_some_and(|next| next <= number) {
                guest.standing.counts = false;
                expelled += 1;
            }
        }
        expelled
    }

    /// Asks everybody for a ring once they have gone on.
    pub(super) fn await_room(&self) {
        self.pages().for_each(Page::await_room);
    }

    /// Sleeps until somebody rings or ends, `limit` at most; dismisses who has ended. True when
    /// anything happened.
    pub(super) fn wait(&mut self, limit: Option<Duration>) -> bool {
        let waiting = self.0.iter().map(|(handle, guest)| {
            let fd = guest.page.bell.as_raw_fd();
            (handle, libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
        });
        let (handles, mut fds): (Vec<_>, Vec<_>) = waiting.unzip();
        let ms = limit.map_or(-1, |limit| limit.as_nanos().div_ceil(1_000_000).min(1 << 30) as i32);
        let ms = if fds.is_empty() { (ms as u32).min(NAP_MS as u32) as i32 } else { ms };
        if !call::poll(&mut fds, ms).is_ok_and(|ready| ready > 0) {
            return false;
        }
        for (handle, fd) in handles.into_iter().zip(fds) {
            let is_rung = fd.revents != 0;
            if is_rung && self.page(handle).is_some_and(|page| !page.bell.drain()) {
                self.dismiss(handle);
            }
        }
        true
    }
}
