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
use super::pool::PinsPage;
use super::region::Region;
use crate::session::{self, NodePage};

/// How often a version is tried to be retired while consumers keep joining; then it stays.
const ATTEMPTS: usize = 4;

/// Whoever lets consumers in and out: a region or a queue.
pub(super) trait Host {
    /// Lets a consumer in; `None` when there is no seat, or for a page that is none, which is its
    /// consumer's own loss.
    fn welcome(&mut self, page: &OwnedFd, bell: Option<&OwnedFd>) -> Option<ConsumerHandle>;
    /// A consumer has left. It may be forgotten already, and another one have its seat.
    fn farewell(&mut self, consumer: ConsumerHandle);
}

impl Host for Region {
    fn welcome(&mut self, page: &OwnedFd, bell: Option<&OwnedFd>) -> Option<ConsumerHandle> {
        // Without a copy of its bell it is not rung, but what it pins stays.
        let bell = bell.and_then(|bell| bell.duplicate().ok());
        self.consumers.seat(Way::ByName, PinsPage::open(page, bell).ok()?)
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
    /// The control plane did not say who came: nobody will ever know.
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
                        if let Some(guest) = host.welcome(page, bell) {
                            self.guests.insert(change.consumer, guest);
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
    use heliostat_base::mapping::SharedMapping;

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
        assert!(region.welcome(&page, None).is_some());
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
    fn places_of_consumers_that_ended_are_given_again() {
        let mut region = region();
        for _ in 0..2 * CONSUMERS_MAX {
            let (page, theirs, _consumer) = PinsPage::create_with_bell().unwrap();
            assert!(region.admit_with_bell(&page, theirs.fd()).unwrap().is_some());
        }
    }
}
