//! Members of a shared listener that ask for each connection, and whose the next one is.
//!
//! A connection is taken from the kernel only when a member waits for it, so that one which does not
//! ask keeps none from the others, and nothing that was accepted lies anywhere when a member dies.
//!
//! ```text
//! Accept --> wait: one more is waited for          choose --> by the rule, one of those that wait
//! delivered --> its load grows                     close --> its load shrinks
//! ```

use std::collections::BTreeMap;

use heliostat_abi::listener::Rule;
use heliostat_abi::name::ObjectId;

use crate::choice::{Candidate, Choice, Key};

/// A member: a session, and its name for the listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Member {
    /// Index and generation of the session.
    session: (u32, u32),
    /// Index and generation of the listener among its objects.
    listener: (u32, u32),
}

impl Member {
    /// The listener that a session knows by this name.
    pub fn new(session: ObjectId, listener: ObjectId) -> Member {
        let pair = |id: ObjectId| (id.index, id.generation);
        Member { session: pair(session), listener: pair(listener) }
    }

    /// The session.
    pub fn session(&self) -> ObjectId {
        ObjectId { index: self.session.0, generation: self.session.1 }
    }

    /// Its name for the listener.
    pub fn listener(&self) -> ObjectId {
        ObjectId { index: self.listener.0, generation: self.listener.1 }
    }
}

/// Whose the next connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// This member's, on this loop: it is waited for once less.
    Of(Member, usize),
    /// One's that the rule names for it, and that does not wait for one now.
    Later,
    /// Nobody waits.
    Nobody,
}

#[derive(Clone, Copy, Debug)]
struct Standing {
    /// The loop that has the session.
    on: usize,
    /// The smallest number that was free when it came.
    place: u32,
    waiting: u32,
    open: u32,
    /// It left a connection that was its by the rule for too long: until it waits for one again.
    is_passed_over: bool,
}

/// The members of one listener.
#[derive(Clone, Debug)]
pub struct MemberTurns {
    choice: Choice,
    members: BTreeMap<Member, Standing>,
}

impl MemberTurns {
    /// No member yet.
    pub fn new(rule: Rule, seed: u64) -> MemberTurns {
        MemberTurns { choice: Choice::new(rule, seed), members: BTreeMap::new() }
    }

    /// The rule.
    pub fn rule(&self) -> Rule {
        self.choice.rule()
    }

    /// Another rule for connections to come.
    pub fn set_rule(&mut self, rule: Rule) {
        self.choice.set_rule(rule);
    }

    /// Takes a member in whose session is on this loop.
    pub fn join(&mut self, member: Member, on: usize) {
        let is_free = |place: &u32| self.members.values().all(|it| it.place != *place);
        let place = (0..).find(is_free).unwrap_or_default();
        let standing = Standing { on, place, waiting: 0, open: 0, is_passed_over: false };
        self.members.insert(member, standing);
    }

    /// A member has left. Its connections go on, and count for nobody.
    pub fn leave(&mut self, member: Member) {
        self.members.remove(&member);
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether some member waits for a connection.
    pub fn is_waited_for(&self) -> bool {
        self.members.values().any(|standing| standing.waiting > 0)
    }

    /// A member waits for one more connection.
    pub fn wait(&mut self, member: Member) {
        if let Some(standing) = self.members.get_mut(&member) {
            standing.waiting = standing.waiting.saturating_add(1);
            standing.is_passed_over = false;
        }
    }

    /// A member waits for one less.
    pub fn give_up(&mut self, member: Member) {
        if let Some(standing) = self.members.get_mut(&member) {
            standing.waiting = standing.waiting.saturating_sub(1);
        }
    }

    /// Says whose a connection is. One whose member the rule names waits for that one, for as long as
    /// it is not passed over.
    pub fn choose(&mut self, key: Key<'_>) -> Turn {
        if !self.is_waited_for() {
            return Turn::Nobody;
        }
        let (choice, members) = (&self.choice, &self.members);
        let waiting = members.iter().filter(|(_, it)| it.waiting > 0);
        let named = choice.binds(key).then(|| self.named(key)).flatten();
        let Some((member, standing)) = named.or_else(|| choice.best(key, waiting)) else {
            return Turn::Nobody;
        };
        let (member, place) = (*member, standing.place);
        let Some(standing) = self.members.get_mut(&member).filter(|it| it.waiting > 0) else {
            return Turn::Later;
        };
        // Counted until it is said that it could not be delivered, so that two in a row go to two.
        (standing.waiting, standing.open) = (standing.waiting - 1, standing.open + 1);
        self.choice.took(place);
        Turn::Of(member, standing.on)
    }

    /// The member that the rule names for a connection has let it wait for too long: others get its
    /// connections until it waits for one again.
    pub fn pass_over(&mut self, key: Key<'_>) {
        let late = self.named(key).map(|(member, _)| *member);
        if let Some(standing) = late.and_then(|member| self.members.get_mut(&member)) {
            standing.is_passed_over = true;
        }
    }

    fn named(&self, key: Key<'_>) -> Option<(&Member, &Standing)> {
        let up = self.members.iter().filter(|(_, it)| it.waiting > 0 || !it.is_passed_over);
        self.choice.best(key, up)
    }

    /// A connection that was a member's has ended, or could not be delivered.
    pub fn ended(&mut self, member: Member) {
        if let Some(standing) = self.members.get_mut(&member) {
            standing.open = standing.open.saturating_sub(1);
        }
    }

    /// Each member's session, with how many connections it has and waits for.
    pub fn each(&self) -> impl Iterator<Item = (ObjectId, u32, u32)> + '_ {
        self.members.iter().map(|(member, it)| (member.session(), it.open, it.waiting))
    }
}

impl Candidate for (&Member, &Standing) {
    fn place(&self) -> u32 {
        self.1.place
    }

    fn load(&self) -> u64 {
        u64::from(self.1.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member(number: u32) -> Member {
        let id = |index| ObjectId { index, generation: 1 };
        Member::new(id(number), id(0))
    }

    fn of(rule: Rule, members: u32) -> MemberTurns {
        let mut shares = MemberTurns::new(rule, 42);
        (0..members).for_each(|number| shares.join(member(number), number as usize % 2));
        shares
    }

    fn next(shares: &mut MemberTurns) -> Option<Member> {
        match shares.choose(Key::None) {
            Turn::Of(member, _) => Some(member),
            Turn::Later | Turn::Nobody => None,
        }
    }

    #[test]
    fn nobody_gets_a_connection_that_does_not_wait_for_one() {
        let mut shares = of(Rule::LeastLoad, 3);
        assert_eq!(shares.choose(Key::None), Turn::Nobody);
        shares.wait(member(1));
        assert_eq!(shares.choose(Key::None), Turn::Of(member(1), 1));
        assert_eq!(shares.choose(Key::None), Turn::Nobody);
    }

    #[test]
    fn who_gives_up_gets_none() {
        let mut shares = of(Rule::LeastLoad, 2);
        shares.wait(member(0));
        shares.give_up(member(0));
        assert_eq!(next(&mut shares), None);
    }

    #[test]
    fn by_load_the_one_with_fewest_connections_is_next_and_equals_take_turns() {
        let mut shares = of(Rule::LeastLoad, 3);
        (0..3).for_each(|number| (0..4).for_each(|_| shares.wait(member(number))));
        let first: Vec<_> = (0..6).filter_map(|_| next(&mut shares)).collect();
        assert_eq!(first, [0, 1, 2, 0, 1, 2].map(member));
        shares.ended(member(2));
        shares.ended(member(2));
        let next: Vec<_> = (0..3).filter_map(|_| next(&mut shares)).collect();
        assert_eq!(next, [2, 2, 0].map(member));
    }

    #[test]
    fn in_turn_loads_count_for_nothing() {
        let mut shares = of(Rule::RoundRobin, 2);
        (0..2).for_each(|number| (0..3).for_each(|_| shares.wait(member(number))));
        next(&mut shares);
        next(&mut shares);
        shares.ended(member(1));
        assert_eq!(next(&mut shares), Some(member(0)));
    }

    /// The member that the rule names for a key while all wait.
    fn named(shares: &mut MemberTurns, key: &[u8]) -> Member {
        let Turn::Of(member, _) = shares.choose(Key::Bytes(key)) else { panic!("all wait") };
        member
    }

    #[test]
    fn by_address_a_connection_waits_for_its_own_member_and_others_go_on() {
        let mut shares = of(Rule::Address, 4);
        (0..4).for_each(|number| (0..50).for_each(|_| shares.wait(member(number))));
        let first = named(&mut shares, b"a");
        assert!((0..9).all(|_| named(&mut shares, b"a") == first));
        let other = (0..99u8).map(|key| [key]).find(|key| named(&mut shares, key) != first);
        let other = other.expect("four members share the keys");
        while shares.members[&first].waiting > 0 {
            shares.give_up(first);
        }
        assert_eq!(shares.choose(Key::Bytes(b"a")), Turn::Later);
        assert_ne!(named(&mut shares, &other), first);
        shares.pass_over(Key::Bytes(b"a"));
        assert_ne!(named(&mut shares, b"a"), first);
        shares.wait(first);
        assert_eq!(named(&mut shares, b"a"), first, "it asks again, and has its clients back");
        shares.leave(first);
        assert_ne!(named(&mut shares, b"a"), first);
    }

    #[test]
    fn who_comes_in_the_place_of_one_that_left_gets_its_clients() {
        let mut shares = of(Rule::Address, 4);
        (0..4).for_each(|number| shares.wait(member(number)));
        let first = named(&mut shares, b"a");
        shares.leave(first);
        shares.join(member(9), 0);
        shares.wait(member(9));
        assert_eq!(named(&mut shares, b"a"), member(9));
    }

    proptest! {
        /// Whatever happens, a connection goes to a member that waits, and to some member once all
        /// that are waited for in vain are passed over.
        #[test]
        fn connections_go_to_who_waits(
            rule in 0..4usize,
            acts in prop::collection::vec((0..5u32, 0..4u32), 1..300),
        ) {
            let mut shares = of(Rule::ALL[rule], 4);
            let mut waiting = [0u32; 4];
            for (act, number) in acts {
                let bytes = [number as u8];
                let key = if act == 4 { Key::None } else { Key::Bytes(&bytes) };
                match act {
                    0 | 1 => { shares.wait(member(number)); waiting[number as usize] += 1; }
                    2 => shares.ended(member(number)),
                    _ => {
                        let mut turn = shares.choose(key);
                        for _ in 0..4 {
                            if turn == Turn::Later {
                                shares.pass_over(key);
                                turn = shares.choose(key);
                            }
                        }
                        match turn {
                            Turn::Of(to, _) => {
                                let place = to.session().index as usize;
                                prop_assert!(waiting[place] > 0);
                                waiting[place] -= 1;
                            }
                            Turn::Nobody => prop_assert_eq!(waiting, [0; 4]),
                            Turn::Later => prop_assert!(false, "everybody was passed over"),
                        }
                    }
                }
            }
        }
    }
}
