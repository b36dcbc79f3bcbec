//! What one service has asked of other control planes and has no answer to, and who waits for it.
//!
//! ```text
//! asked --> answered                       the session is told
//!   '-- late, or the session asks else --> nobody waits; the answer may still come, and what it
//!                                          brings is given back
//! ```

use std::collections::HashMap;

use heliostat_abi::name::ObjectId;

use super::per_node::PerNode;

/// Who waits for an answer, by the request that it made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiter {
    /// The session.
    pub session: ObjectId,
    /// The request's number.
    pub sequence: u32,
    /// When it is told that the node does not answer.
    pub until_ns: u64,
}

/// A request to another control plane, as its service keeps it.
pub trait Ask {
    /// Which node was asked.
    fn node(&self) -> u64;
    /// Whether it only gives something back.
    fn is_return(&self) -> bool;
    /// Who waits for it, if somebody does.
    fn waiter(&mut self) -> &mut Option<Waiter>;
}

/// How many may be without an answer, in all and to one node: one that never answers has no more.
#[derive(Clone, Copy)]
pub struct AskLimits {
    /// Requests.
    pub asks: (usize, usize),
    /// Things that are given back; the others wait.
    pub returns: (usize, usize),
}

/// All of them, by token.
pub struct Asks<A> {
    waiting: HashMap<u64, A>,
    asks: PerNode,
    returns: PerNode,
    last_token: u64,
}

impl<A: Ask> Asks<A> {
    /// None yet.
    pub fn new(limits: AskLimits) -> Asks<A> {
        let counted = |(of_all, of_each)| PerNode::new(of_all, of_each);
        let (asks, returns) = (counted(limits.asks), counted(limits.returns));
        Asks { waiting: HashMap::new(), asks, returns, last_token: 0 }
    }

    /// Whether a node may be asked something.
    pub fn may_ask(&self, node: u64) -> bool {
        self.asks.full(node).is_none()
    }

    /// Whether something may be given back to a node now.
    pub fn may_return(&self, node: u64) -> bool {
        self.returns.full(node).is_none()
    }

    /// A number for a message that nobody waits for.
    pub fn next_token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    /// Keeps a request, and names it.
    pub fn wait(&mut self, ask: A) -> u64 {
        let token = self.next_token();
        self.counts(&ask).add(ask.node());
        self.waiting.insert(token, ask);
        token
    }

    /// A request has ended, or was not made.
    pub fn end(&mut self, token: u64) -> Option<A> {
        let ask = self.waiting.remove(&token)?;
        self.counts(&ask).remove(ask.node());
        Some(ask)
    }

    /// A session waits for nothing any more; for what it did.
    pub fn give_up(&mut self, session: ObjectId) -> Vec<Waiter> {
        self.take_waiters(|waiter| waiter.session == session)
    }

    /// Those whose time to wait is over; they wait no more.
    pub fn expire(&mut self, now_ns: u64) -> Vec<Waiter> {
        self.take_waiters(|waiter| waiter.until_ns <= now_ns)
    }

    /// When the first has waited long enough.
    pub fn next_ns(&mut self) -> Option<u64> {
        let waiters = self.waiting.values_mut().filter_map(|ask| *ask.waiter());
        waiters.map(|waiter| waiter.until_ns).min()
    }

    fn take_waiters(&mut self, is_meant: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        let all = self.waiting.values_mut().map(Ask::waiter);
        all.filter_map(|waiter| waiter.take_if(|waiter| is_meant(waiter))).collect()
    }

    fn counts(&mut self, ask: &A) -> &mut PerNode {
        if ask.is_return() {
            &mut self.returns
        } else {
            &mut self.asks
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(u64, bool, Option<Waiter>);

    impl Ask for One {
        fn node(&self) -> u64 {
            self.0
        }

        fn is_return(&self) -> bool {
            self.1
        }

        fn waiter(&mut self) -> &mut Option<Waiter> {
            &mut self.2
        }
    }

    fn waiter(index: u32, until_ns: u64) -> Option<Waiter> {
        let session = ObjectId { index, generation: 1 };
        Some(Waiter { session, sequence: 7, until_ns })
    }

    #[test]
    fn who_has_given_up_is_told_nothing_and_the_ask_still_counts() {
        let mut asks = Asks::new(AskLimits { asks: (8, 1), returns: (8, 1) });
        let token = asks.wait(One(1, false, waiter(1, 10)));
        let other = asks.wait(One(2, false, waiter(2, 20)));
        assert_eq!((asks.may_ask(1), asks.may_return(1), asks.may_ask(3)), (false, true, true));
        assert_eq!(asks.next_ns(), Some(10));
        assert_eq!(asks.expire(10), waiter(1, 10).into_iter().collect::<Vec<_>>());
        assert!(asks.expire(10).is_empty() && !asks.may_ask(1));
        assert_eq!(asks.give_up(ObjectId { index: 2, generation: 1 }).len(), 1);
        assert_eq!(asks.next_ns(), None);
        assert!(asks.end(token).is_some_and(|ask| ask.2.is_none()) && asks.may_ask(1));
        assert!(asks.end(token).is_none() && asks.end(other).is_some());
    }
}
