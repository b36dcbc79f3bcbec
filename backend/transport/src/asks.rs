//! What other nodes asked and the program above has not finished.
//!
//! There is no limit here: each costs at least `MESSAGE_COST_BYTES` of its peer's window until it is
//! finished, so the windows are the limit.

use std::collections::BTreeMap;

use crate::frame::CallId;
use crate::slots::Slots;
use crate::transport::LinkId;

/// What another node asked, at the side that was asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AskId(pub(crate) CallId);

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    /// From where it came.
    pub link: LinkId,
    /// The asker's number for it; none for a post, which has no answer.
    pub call: Option<CallId>,
    /// What it costs of the window.
    pub cost: u64,
}

/// All of them.
#[derive(Debug)]
pub struct Asks {
    open: Slots<Open>,
    by_call: BTreeMap<(LinkId, CallId), AskId>,
}

impl Asks {
    /// Nothing is asked.
    pub fn new() -> Asks {
        Asks { open: Slots::new(usize::MAX), by_call: BTreeMap::new() }
    }

    /// Numbers begin with this generation.
    pub fn begin_with(&mut self, first: u32) {
        self.open.begin_with(first);
    }

    /// Takes what was asked; none when no number is left.
    pub fn begin(&mut self, ask: Open) -> Option<AskId> {
        let id = AskId(self.open.insert(ask)?);
        if let Some(call) = ask.call {
            self.by_call.insert((ask.link, call), id);
        }
        Some(id)
    }

    /// What has this number.
    pub fn find(&self, id: AskId) -> Option<&Open> {
        self.open.find(id.0)
    }

    /// What the asker calls so.
    pub fn of_call(&self, link: LinkId, call: CallId) -> Option<AskId> {
        self.by_call.get(&(link, call)).copied()
    }

    /// What the asker calls so and wants no answer to any more, told once: what the program has not heard
    /// yet of one peer has a limit by that.
    pub fn withdraw(&mut self, link: LinkId, call: CallId) -> Option<AskId> {
        let id = self.of_call(link, call)?;
        self.by_call.remove(&(link, call));
        Some(id)
    }

    /// Finishes one.
    pub fn end(&mut self, id: AskId) -> Option<Open> {
        let ask = self.open.remove(id.0)?;
        if let Some(call) = ask.call {
            // A peer that gives one number twice has the later one there.
            if self.by_call.get(&(ask.link, call)) == Some(&id) {
                self.by_call.remove(&(ask.link, call));
            }
        }
        Some(ask)
    }

    /// Finishes all of a link.
    pub fn end_link(&mut self, link: LinkId) {
        for id in self.open.matching(|ask| ask.link == link) {
            self.end(AskId(id));
        }
    }

    /// How many are open.
    pub fn used(&self) -> usize {
        self.open.used()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: CallId = CallId { index: 3, generation: 4 };

    #[test]
    fn one_number_given_twice_by_a_peer_ends_twice() {
        let mut asks = Asks::new();
        let ask = Open { link: LinkId(1), call: Some(CALL), cost: 1 };
        let first = asks.begin(ask).expect("room");
        let second = asks.begin(ask).expect("room");
        assert_eq!(asks.of_call(LinkId(1), CALL), Some(second));
        assert_eq!(asks.end(first), Some(ask));
        assert_eq!(asks.of_call(LinkId(1), CALL), Some(second));
        assert_eq!(asks.end(second), Some(ask));
        assert_eq!((asks.of_call(LinkId(1), CALL), asks.end(second)), (None, None));
    }

    #[test]
    fn an_ask_is_withdrawn_once_and_stays_open() {
        let mut asks = Asks::new();
        let ask = Open { link: LinkId(1), call: Some(CALL), cost: 1 };
        let id = asks.begin(ask).expect("room");
        assert_eq!(asks.withdraw(LinkId(2), CALL), None);
        assert_eq!(asks.withdraw(LinkId(1), CALL), Some(id));
        assert_eq!(asks.withdraw(LinkId(1), CALL), None);
        assert_eq!((asks.end(id), asks.used()), (Some(ask), 0));
    }

    #[test]
    fn the_end_of_a_link_ends_what_it_asked_and_nothing_else() {
        let mut asks = Asks::new();
        let gone = asks.begin(Open { link: LinkId(1), call: Some(CALL), cost: 1 }).expect("room");
        let other = asks.begin(Open { link: LinkId(2), call: None, cost: 1 }).expect("room");
        asks.end_link(LinkId(1));
        assert_eq!(asks.end(gone), None);
        assert!(asks.end(other).is_some());
        assert_eq!(asks.used(), 0);
    }
}
