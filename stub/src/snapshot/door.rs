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

use super::region::Region;
use crate::session::{self, NodePage};

/// How often a version is tried to be retired while consumers keep joining; then it stays.
const ATTEMPTS: usize = 4;

/// Whoever lets consumers in and out: a region or a queue.
pub(super) trait Host {
    /// A place for a consumer; `None` when there is none, or for a page that is none, which is its
    /// consumer's own loss.
    fn welcome(&mut self, page: &OwnedFd, bell: Option<&OwnedFd>) -> Option<usize>;
    /// The consumer in `place` has left.
    fn farewell(&mut self, place: usize);
}

impl Host for Region {
    fn welcome(&mut self, page: &OwnedFd, bell: Option<&OwnedFd>) -> Option<usize> {
        match bell {
            Some(bell) => self.admit_with_bell(page, bell).ok().flatten(),
            None => self.admit(page).ok().flatten(),
        }
    }

    fn farewell(&mut self, place: usize) {
        self.dismiss(place);
    }
}

/// What a named region knows of its consumers.
pub(super) struct Door {
    node: Arc<NodePage>,
    region: ObjectId,
    /// The word as it was when everybody was known.
    seen: u32,
    /// Places of the admitted in the region's table of consumers.
    places: HashMap<ObjectId, usize>,
    /// The control plane did not say who came: nobody will ever know.
    is_lost: bool,
}

impl Door {
    /// The door of a region that has just got its name, and so has no consumers by name.
    pub(super) fn new(node: Arc<NodePage>, region: ObjectId, seen: u32) -> Self {
        Self { node, region, seen, places: HashMap::new(), is_lost: false }
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
                        .places
                        .remove(&change.consumer)
                        .into_iter()
                        .for_each(|place| host.farewell(place)),
                    joined => {
                        let Some(page) = pages.next() else { return false };
                        let has_bell = joined == Presence::JoinedWithBell;
                        let bell = if has_bell { pages.next() } else { None };
                        if let Some(place) = host.welcome(page, bell) {
                            self.places.insert(change.consumer, place);
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
            if !pins::try_retire(&self.table, place, self.consumers.iter().flatten()) {
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
