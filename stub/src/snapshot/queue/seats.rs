//! The consumers of a queue as its producer sees them: who sits where, how far each has come, what
//! was dealt to whom.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::time::Duration;

use heliostat_abi::snapshot::CONSUMERS_MAX;
use heliostat_base::call;
use heliostat_ring::queue::Standing;

use super::memory::Page;

/// Between two looks while there is no consumer that could ring.
const NAP_MS: i32 = 10;

struct Guest {
    page: Page,
    standing: Standing,
    /// Numbers dealt to it that it has not passed, oldest first.
    dealt: VecDeque<u64>,
}

#[derive(Default)]
pub(super) struct Seats(Vec<Option<Guest>>);

impl Seats {
    /// A seat for a consumer, `None` when all are taken.
    pub(super) fn seat(&mut self, page: Page) -> Option<usize> {
        let free = self.0.iter().position(Option::is_none);
        let place = free.or_else(|| {
            (self.0.len() < CONSUMERS_MAX).then(|| {
                self.0.push(None);
                self.0.len() - 1
            })
        })?;
        page.set_seat(place);
        let standing = Standing { cursor: 0, counts: true };
        self.0[place] = Some(Guest { page, standing, dealt: VecDeque::new() });
        Some(place)
    }

    pub(super) fn dismiss(&mut self, place: usize) {
        if let Some(guest) = self.0.get_mut(place) {
            *guest = None;
        }
    }

    fn guests(&self) -> impl Iterator<Item = &Guest> + Clone {
        self.0.iter().flatten()
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = &Page> + Clone {
        self.guests().map(|guest| &guest.page)
    }

    pub(super) fn page(&self, place: usize) -> Option<&Page> {
        self.0.get(place)?.as_ref().map(|guest| &guest.page)
    }

    /// Looks at every cursor. `oldest`: what lies below it is not in the window any more.
    pub(super) fn follow(&mut self, head: u64, oldest: u64) {
        for guest in self.0.iter_mut().flatten() {
            guest.standing.follow(&guest.page, head);
            let passed = guest.standing.cursor.max(oldest);
            while guest.dealt.front().is_some_and(|number| *number < passed) {
                guest.dealt.pop_front();
            }
        }
    }

    /// The lowest number that somebody who counts has yet to read, if anybody counts.
    pub(super) fn lowest(&self) -> Option<u64> {
        let counting = self.guests().filter(|guest| guest.standing.counts);
        counting.map(|guest| guest.standing.cursor).min()
    }

    /// Of those who count, the one with fewest to do.
    pub(super) fn choose(&self) -> Option<usize> {
        let counts = |it: &&(usize, &Guest)| it.1.standing.counts;
        let seated = self.0.iter().enumerate();
        let guests = seated.filter_map(|(place, guest)| Some((place, guest.as_ref()?)));
        guests.filter(|it| counts(&it)).min_by_key(|it| it.1.dealt.len()).map(|it| it.0)
    }

    pub(super) fn deal(&mut self, place: usize, number: u64) {
        if let Some(Some(guest)) = self.0.get_mut(place) {
            guest.dealt.push_back(number);
        }
    }

    /// True when `number`, dealt to `place`, is read, or will never be.
    pub(super) fn is_done(&self, place: usize, number: u64) -> bool {
        let guest = self.0.get(place).and_then(Option::as_ref);
        guest.is_none_or(|it| !it.standing.counts || it.standing.cursor > number)
    }

    /// Whoever has `number` or less yet to read counts no more; how many those were.
    pub(super) fn expel(&mut self, number: u64, is_dealt: bool) -> usize {
        let mut expelled = 0;
        for guest in self.0.iter_mut().flatten().filter(|guest| guest.standing.counts) {
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
        let mut fds: Vec<libc::pollfd> = self
            .0
            .iter()
            .map(|guest| libc::pollfd {
                fd: guest.as_ref().map_or(-1, |guest| guest.page.bell.as_raw_fd()),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        let ms = limit.map_or(-1, |limit| limit.as_nanos().div_ceil(1_000_000).min(1 << 30) as i32);
        let nobody = self.guests().next().is_none();
        let ms = if nobody { (ms as u32).min(NAP_MS as u32) as i32 } else { ms };
        if !call::poll(&mut fds, ms).is_ok_and(|ready| ready > 0) {
            return false;
        }
        for (place, fd) in fds.iter().enumerate() {
            let rung = fd.revents != 0;
            if rung && self.page(place).is_some_and(|page| !page.bell.drain()) {
                self.dismiss(place);
            }
        }
        true
    }
}
