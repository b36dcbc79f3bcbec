//! The door of a region that has a name: consumers come and go by the control plane's word.
//!
//! The control plane changes the region's word in the node page before it hands the table out. So
//! whoever may have pinned a version is either admitted, or the word tells that somebody is not.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Release;
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_abi::record::{Reply, Request};
use heliostat_abi::region::Presence;
use heliostat_base::fd::OwnedFd;
use heliostat_ring::pins::{self, Words};

use super::guests::{ConsumerHandle, Way};
use super::pool::{PinsPage, PoolError};
use super::region::Region;
use crate::session::{self, NodePage};

/// How often a version is tried to be retired while consumers keep joining; then it stays.
const ATTEMPTS: usize = 4;

/// Whoever lets consumers in and out: a region or a queue.
pub(super) trait Host {
    /// Lets a consumer in.
    fn welcome(&mut self, page: &OwnedFd, bell: Option<&OwnedFd>) -> Welcome;
    /// A consumer has left. It may be forgotten already, and another one have its seat.
    fn farewell(&mut self, consumer: ConsumerHandle);
}

/// What became of a consumer whom the control plane has told that it is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Welcome {
    /// It is let in.
    Seated(ConsumerHandle),
    /// What it showed is no page: its own loss.
    Turned,
    /// This process has no memory, descriptor or seat for it: it may read what is not kept for it.
    Missed,
}

impl Welcome {
    /// By what came of opening its page.
    pub(super) fn of<P>(
        opened: Result<P, PoolError>,
        seat: impl FnOnce(P) -> Option<ConsumerHandle>,
    ) -> Self {
        match opened {
            Ok(page) => seat(page).map_or(Self::Missed, Self::Seated),
            Err(error) if error.is_shortage() => Self::Missed,
            Err(_) => Self::Turned,
        }
    }
}

impl Host for Region {
    fn welcome(&mut self, page: &OwnedFd, bell: Option<&OwnedFd>) -> Welcome {
        // Without a copy of its bell it is not rung, but what it pins stays.
        let bell = bell.and_then(|bell| bell.duplicate().ok());
        let consumers = &mut self.consumers;
        Welcome::of(PinsPage::open(page, bell), |page| consumers.seat(Way::ByName, page))
    }

    fn farewell(&mut self, consumer: ConsumerHandle) {
        self.dismiss(consumer);
    }
}

/// What a named region knows of its consumers.
pub(super) struct Door {
    node: Arc<NodePage>,
    region: ObjectId,
    /// The word as it was when everybody was known.
    seen: u32,
    /// Who came by it and has not left.
    guests: HashMap<ObjectId, ConsumerHandle>,
    /// The control plane did not say who came, or it could not be let in: nobody will ever know.
    is_lost: bool,
}

impl Door {
    /// The door of a region that has just got its name, and so has no consumers by name.
    pub(super) fn new(node: Arc<NodePage>, region: ObjectId, seen: u32) -> Self {
        Self { node, region, seen, guests: HashMap::new(), is_lost: false }
    }

    pub(super) fn has_news(&self) -> bool {
        self.node.region(self.region) != self.seen
    }

    /// Asks who came and went. False when there is no answer.
    pub(super) fn ask(&mut self, host: &mut impl Host) -> bool {
        // Before the question: who comes after it changes the word again.
        let word = self.node.region(self.region);
        loop {
            let asked = session::ask(&Request::Consumers { region: self.region }, &[]);
            let Ok((Reply::Consumers { entries, more, .. }, fds)) = asked else { return false };
            let mut pages = fds.iter();
            for change in entries {
                match change.state {
                    Presence::Left => self
                        .guests
                        .remove(&change.consumer)
                        .into_iter()
                        .for_each(|guest| host.farewell(guest)),
                    joined => {
                        let Some(page) = pages.next() else { return false };
                        let has_bell = joined == Presence::JoinedWithBell;
                        let bell = if has_bell { pages.next() } else { None };
                        match host.welcome(page, bell) {
                            Welcome::Seated(guest) => {
                                self.guests.insert(change.consumer, guest);
                            }
                            Welcome::Turned => {}
                            Welcome::Missed => return false,
                        }
                    }
                }
            }
            if !more {
                self.seen = word;
                return true;
            }
        }
    }
}

impl Region {
    /// Admits who joined by name and dismisses who left. False when there are consumers of whom
    /// the control plane will not tell any more.
    pub(super) fn attend_door(&mut self) -> bool {
        let Some(mut door) = self.door.take() else { return true };
        if door.has_news() {
            door.is_lost = door.is_lost || !door.ask(self);
        }
        let is_known = !door.is_lost || !door.has_news();
        self.door = Some(door);
        is_known
    }

    /// Retires the version in `place` unless somebody has it pinned, be it somebody who joined a
    /// moment ago and was not admitted yet.
    pub(super) fn retire_one(&mut self, place: usize, number: u64) -> bool {
        for _ in 0..ATTEMPTS {
            if !pins::try_retire(&self.table, place, self.consumers.pages()) {
                return false;
            }
            // After the fence in `try_retire`: who found the number before it was cleared joined
            // before that, and the word says so.
            if !self.door.as_ref().is_some_and(Door::has_news) {
                return true;
            }
            self.table.number(place).store(number, Release);
            if !self.attend_door() {
                return false;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::engine::Whole;
    use crate::snapshot::source::{Source, SourceError};
    use crate::snapshot::Settings;
    use heliostat_abi::snapshot::CONSUMERS_MAX;
    use heliostat_base::mapping::{MappingError, SharedMapping};
    use heliostat_base::sys::Errno;

    /// A page at an address of its own that is never read.
    struct Page;

    impl Source for Page {
        fn start(&self) -> usize {
            4096
        }

        fn len(&self) -> usize {
            4096
        }

        fn copy_to(
            &self,
            _offset: usize,
            _pool: &SharedMapping,
            _at: usize,
            _len: usize,
        ) -> Result<(), SourceError> {
            Ok(())
        }
    }

    fn region() -> Region {
        let engine = Box::new(Whole::new(0..4096));
        Region::with_engine(Box::new(Page), Settings::default(), engine).unwrap()
    }

    #[test]
    fn who_comes_by_name_has_a_place_beside_all_who_did_not() {
        let mut region = region();
        let (page, _mapped) = PinsPage::create().unwrap();
        for _ in 0..CONSUMERS_MAX {
            assert!(region.admit(&page).unwrap().is_some());
        }
        assert_eq!(region.admit(&page), Ok(None));
        assert!(matches!(region.welcome(&page, None), Welcome::Seated(_)));
    }

    #[test]
    fn who_is_dismissed_late_does_not_take_along_who_has_its_seat_now() {
        let mut region = region();
        let (page, theirs, gone) = PinsPage::create_with_bell().unwrap();
        let handle = region.admit_with_bell(&page, theirs.fd()).unwrap().unwrap();
        drop((theirs, gone));
        let (page, _mapped) = PinsPage::create().unwrap();
        for _ in 0..CONSUMERS_MAX {
            assert!(region.admit(&page).unwrap().is_some());
        }
        region.farewell(handle);
        assert_eq!(region.consumers.pages().count(), CONSUMERS_MAX);
    }

    #[test]
    fn who_shows_no_page_is_turned_away_and_who_is_missed_for_want_of_memory_is_not() {
        let mut region = region();
        let (no_page, _mapped) = SharedMapping::create(c"no-page", 4096).unwrap();
        assert_eq!(region.welcome(&no_page, None), Welcome::Turned);
        let refused = |errno| {
            let error = MappingError::System { call: "mmap", errno: Errno(errno) };
            Welcome::of(Err::<PinsPage, _>(error.into()), |_| None)
        };
        assert_eq!(refused(libc::ENOMEM), Welcome::Missed);
        // It has shown a descriptor that may not be written.
        assert_eq!(refused(libc::EACCES), Welcome::Turned);
    }

    #[test]
    fn places_of_consumers_that_ended_are_given_again() {
        let mut region = region();
        for _ in 0..2 * CONSUMERS_MAX {
            let (page, theirs, _consumer) = PinsPage::create_with_bell().unwrap();
            assert!(region.admit_with_bell(&page, theirs.fd()).unwrap().is_some());
        }
    }
}
