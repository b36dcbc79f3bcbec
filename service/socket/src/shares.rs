//! Whose turn the next connection of a shared listener is.
//!
//! A connection is taken from the kernel only when a member waits for it, so that one which does not
//! ask keeps none from the others, and nothing that was accepted lies anywhere when a member dies.
//!
//! ```text
//! Accept --> wait: one more is waited for          choose --> the member with the least load of those
//! delivered --> its load grows                     close --> its load shrinks
//! ```

use std::collections::BTreeMap;

use heliostat_abi::name::ObjectId;

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

/// By which rule the next member is chosen among those that wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rule {
    /// The one with the fewest open connections; of equal ones, whose turn is longest ago.
    #[default]
    LeastLoad,
    /// Whose turn is longest ago.
    RoundRobin,
}

#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    /// The loop that has the session.
    on: usize,
    waiting: u32,
    open: u32,
    /// The count of turns when it had its last.
    turn: u64,
}

/// The members of one listener.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    rule: Rule,
    members: BTreeMap<Member, Standing>,
    turns: u64,
}

impl Shares {
    /// No member yet.
    pub fn new(rule: Rule) -> Shares {
        Shares { rule, ..Shares::default() }
    }

    /// Takes a member in whose session is on this loop.
    pub fn join(&mut self, member: Member, on: usize) {
        self.members.insert(member, Standing { on, ..Standing::default() });
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

    /// A member waits for one more connection.
    pub fn wait(&mut self, member: Member) {
        if let Some(standing) = self.members.get_mut(&member) {
            standing.waiting = standing.waiting.saturating_add(1);
        }
    }

    /// A member waits for one less.
    pub fn give_up(&mut self, member: Member) {
        if let Some(standing) = self.members.get_mut(&member) {
            standing.waiting = standing.waiting.saturating_sub(1);
        }
    }

    /// Names whose the next connection is, and the loop that has it: it is waited for once less.
    /// `None` while nobody waits.
    pub fn choose(&mut self) -> Option<(Member, usize)> {
        let rule = self.rule;
        let load = |standing: &Standing| match rule {
            Rule::LeastLoad => standing.open,
            Rule::RoundRobin => 0,
        };
        let waiting = self.members.iter_mut().filter(|(_, standing)| standing.waiting > 0);
        let (member, standing) =
            waiting.min_by_key(|(_, standing)| (load(standing), standing.turn))?;
        self.turns += 1;
        (standing.waiting, standing.turn) = (standing.waiting - 1, self.turns);
        // Until it is said to have been delivered, so that two in a row go to two.
        standing.open += 1;
        Some((*member, standing.on))
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member(number: u32) -> Member {
        let id = |index| ObjectId { index, generation: 1 };
        Member::new(id(number), id(0))
    }

    fn of(rule: Rule, members: u32) -> Shares {
        let mut shares = Shares::new(rule);
        (0..members).for_each(|number| shares.join(member(number), number as usize % 2));
        shares
    }

    #[test]
    fn nobody_gets_a_connection_that_does_not_wait_for_one() {
        let mut shares = of(Rule::LeastLoad, 3);
        assert_eq!(shares.choose(), None);
        shares.wait(member(1));
        assert_eq!(shares.choose(), Some((member(1), 1)));
        assert_eq!(shares.choose(), None);
    }

    #[test]
    fn who_gives_up_gets_none() {
        let mut shares = of(Rule::LeastLoad, 2);
        shares.wait(member(0));
        shares.give_up(member(0));
        assert_eq!(shares.choose(), None);
    }

    #[test]
    fn by_load_the_one_with_fewest_connections_is_next_and_equals_take_turns() {
        let mut shares = of(Rule::LeastLoad, 3);
        (0..3).for_each(|number| (0..4).for_each(|_| shares.wait(member(number))));
        let first: Vec<_> = (0..6).filter_map(|_| shares.choose()).map(|it| it.0).collect();
        assert_eq!(first, [0, 1, 2, 0, 1, 2].map(member));
        shares.ended(member(2));
        shares.ended(member(2));
        let next: Vec<_> = (0..3).filter_map(|_| shares.choose()).map(|it| it.0).collect();
        assert_eq!(next, [2, 2, 0].map(member));
    }

    #[test]
    fn in_turn_loads_count_for_nothing() {
        let mut shares = of(Rule::RoundRobin, 2);
        (0..2).for_each(|number| (0..3).for_each(|_| shares.wait(member(number))));
        shares.choose();
        shares.choose();
        shares.ended(member(1));
        assert_eq!(shares.choose().map(|it| it.0), Some(member(0)));
    }

    proptest! {
        /// Whatever happens, a connection goes to a member that waits, and no two wait forever.
        #[test]
        fn connections_go_to_who_waits(acts in prop::collection::vec((0..4u32, 0..4u32), 1..300)) {
            let mut shares = of(Rule::LeastLoad, 4);
            let mut waiting = [0u32; 4];
            for (act, number) in acts {
                match act {
                    0 | 1 => { shares.wait(member(number)); waiting[number as usize] += 1; }
                    2 => shares.ended(member(number)),
                    _ => match shares.choose() {
                        Some((to, _)) => {
                            let place = to.session().index as usize;
                            prop_assert!(waiting[place] > 0);
                            waiting[place] -= 1;
                        }
                        None => prop_assert_eq!(waiting, [0; 4]),
                    },
                }
            }
        }
    }
}
