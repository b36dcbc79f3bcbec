//! The door of a region that has a name: consumers come and go by the control plane's word.
//!
//! The control plane changes the region's word in the node page before it hands the table out. So
//! whoever may have pinned a version is either admitted, or the word tells that somebody is not.

use std::collections::HashMap;
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::snapshot::region::Presence;
use heliostat_base::fd::OwnedFd;
use heliostat_client::session::{self, Standing};
use heliostat_client::NodePage;

use super::guests::ConsumerHandle;
use super::pool::PoolError;

/// How often something is tried to be taken apart while consumers keep joining; then it stays.
const ATTEMPTS: usize = 4;

/// Whoever lets consumers in and out: a region or a queue.
pub(super) trait Host: Sized {
    /// Where its door is, once it has a name.
    fn door(&mut self) -> &mut Option<Door>;
    /// Lets a consumer in.
    fn welcome(&mut self, page: &OwnedFd, bell: Option<&OwnedFd>) -> Welcome;
    /// A consumer has left. It may be forgotten already, and another one have its seat.
    fn farewell(&mut self, consumer: ConsumerHandle);

    /// Admits who joined by name and dismisses who left. False when there are consumers of whom
    /// the control plane will not tell any more.
    fn attend_door(&mut self) -> bool {
        let Some(mut door) = self.door().take() else { return true };
        if door.has_news() {
            door.is_lost = door.is_lost || !door.ask(self);
        }
        let is_known = !door.is_lost();
        *self.door() = Some(door);
        is_known
    }

    /// Takes what consumers may see apart (`take`: false when somebody reads it), unless it is
    /// somebody who joined a moment ago and was not admitted yet; `put_back` undoes it then.
    fn take_apart(&mut self, take: impl Fn(&Self) -> bool, put_back: impl Fn(&Self)) -> bool {
        for _ in 0..ATTEMPTS {
            if !take(self) {
                return false;
            }
            // After the fence in `take`: who found the word before it was cleared joined before
            // that, and the door says so.
            if !self.door().as_ref().is_some_and(Door::has_news) {
                return true;
            }
            put_back(self);
            if !self.attend_door() {
                return false;
            }
        }
        false
    }
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

/// What a named region knows of its consumers.
pub(super) struct Door {
    node: Arc<NodePage>,
    /// Of the session that has the name.
    epoch: u64,
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
    pub(super) fn new(standing: Standing, region: ObjectId, seen: u32) -> Self {
        let Standing { node, epoch, .. } = standing;
        Self { node, epoch, region, seen, guests: HashMap::new(), is_lost: false }
    }

    fn has_news(&self) -> bool {
        self.node.region(self.region) != self.seen
    }

    /// True when somebody may have joined of whom nobody will ever tell: then nothing is taken
    /// apart any more.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost && self.has_news()
    }

    /// Asks who came and went. False when there is no answer.
    fn ask(&mut self, host: &mut impl Host) -> bool {
        // Before the question: who comes after it changes the word again.
        let word = self.node.region(self.region);
        loop {
            let asked =
                session::ask_in(self.epoch, &Request::Consumers { region: self.region }, &[]);
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

#[cfg(test)]
#[path = "door_tests.rs"]
mod tests;
