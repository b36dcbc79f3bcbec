//! Whose requests are served next: of those users who ask, the one who had least time lately.
//!
//! The event loop has one thread, and a request is served from its beginning to its end. So who
//! asks much, or for what takes long, waits for those who ask little; of one user's programs the
//! same holds for each that is sealed, and of one program's connections the one that was served
//! longest ago is the first, after those that have ended. Time that was used is forgotten by half each `HALF_LIFE_NS`.
//!
//! ```text
//! ready --> by user --> least time used --> its first connection --> a few requests --+
//!              ^                                                                      |
//!              +---- until the slice is over: then look who else is ready <-----------+
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use heliostat_service_grant::Holder;

use crate::poll::Source;

/// After so long half of what was used is forgotten.
const HALF_LIFE_NS: u64 = 100_000_000;
/// Users and programs that are remembered before those who have used nothing lately are forgotten.
const REMEMBERED: usize = 1024;

/// A connection that has asked something or has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// Which, and what of it.
    pub source: Source,
    /// Whose time it takes.
    pub holder: Holder,
    /// When it was served before this.
    pub served_ns: u64,
}

impl Ready {
    /// Whoever closes a connection, or ends, and comes back finds nothing of before.
    fn is_end(&self) -> bool {
        matches!(self.source, Source::Closed(_) | Source::Process(_))
    }
}

/// Time that was used.
#[derive(Clone, Copy, Default, Debug)]
struct Spent {
    ns: u64,
    at_ns: u64,
}

impl Spent {
    fn left(self, now_ns: u64) -> u64 {
        let halvings = now_ns.saturating_sub(self.at_ns) / HALF_LIFE_NS;
        self.ns.checked_shr(halvings.min(64) as u32).unwrap_or(0)
    }

    fn add(&mut self, ns: u64, now_ns: u64) {
        let left = self.left(now_ns);
        // What is not a whole half-life yet goes on counting towards the next.
        let passed = now_ns.saturating_sub(self.at_ns) % HALF_LIFE_NS;
        *self = Spent { ns: left.saturating_add(ns), at_ns: now_ns.saturating_sub(passed) };
    }
}

/// What everybody has used lately.
#[derive(Default)]
pub struct Turns {
    users: HashMap<u32, Spent>,
    /// Each sealed program's, and that of all the others of a user together.
    programs: HashMap<Holder, Spent>,
}

/// Those who are ready, in order.
pub struct Line {
    /// Each user's connections.
    users: HashMap<u32, VecDeque<Ready>>,
    /// Users with a connection in line, by the time that they have used.
    order: BinaryHeap<Reverse<(u64, u32)>>,
    /// Who was served last, and is not in order yet: what it took is known only now.
    last: Option<u32>,
}

impl Turns {
    /// Puts those who are ready in order.
    pub fn line(&self, ready: impl Iterator<Item = Ready>, now_ns: u64) -> Line {
        let mut users: HashMap<u32, Vec<Ready>> = HashMap::new();
        ready.for_each(|one| users.entry(one.holder.uid).or_default().push(one));
        let in_order = |mut all: Vec<Ready>| {
            let used = |one: &Ready| self.used_by_program(one.holder, now_ns);
            all.sort_by_cached_key(|one| (!one.is_end(), used(one), one.served_ns));
            VecDeque::from(all)
        };
        let users: HashMap<_, _> =
            users.into_iter().map(|(uid, all)| (uid, in_order(all))).collect();
        let order = users.keys().map(|uid| Reverse((self.used_by_user(*uid, now_ns), *uid)));
        Line { order: order.collect(), users, last: None }
    }

    /// Somebody was served for so long.
    pub fn used(&mut self, holder: Holder, ns: u64, now_ns: u64) {
        self.users.entry(holder.uid).or_default().add(ns, now_ns);
        forget_idle(&mut self.users, now_ns);
        self.programs.entry(holder).or_default().add(ns, now_ns);
        forget_idle(&mut self.programs, now_ns);
    }

    fn used_by_user(&self, uid: u32, now_ns: u64) -> u64 {
        self.users.get(&uid).map_or(0, |spent| spent.left(now_ns))
    }

    fn used_by_program(&self, holder: Holder, now_ns: u64) -> u64 {
        self.programs.get(&holder).map_or(0, |spent| spent.left(now_ns))
    }
}

impl Line {
    /// Who is served next.
    pub fn next(&mut self, turns: &Turns, now_ns: u64) -> Option<Ready> {
        if let Some(uid) = self.last.take() {
            self.order.push(Reverse((turns.used_by_user(uid, now_ns), uid)));
        }
        let Reverse((_, uid)) = self.order.pop()?;
        let all = self.users.get_mut(&uid)?;
        let next = all.pop_front();
        self.last = (!all.is_empty()).then_some(uid);
        next
    }
}

fn forget_idle<K>(all: &mut HashMap<K, Spent>, now_ns: u64) {
    if all.len() > REMEMBERED {
        all.retain(|_, spent| spent.left(now_ns) > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_abi::name::ObjectId;

    const MS: u64 = 1_000_000;

    fn ready(holder: Holder, index: u32, served_ns: u64) -> Ready {
        let source = Source::Connection(ObjectId { index, generation: 1 });
        Ready { source, holder, served_ns }
    }

    /// The order in which users are served whose requests take so long.
    fn order(turns: &mut Turns, all: &[Ready], takes: impl Fn(Holder) -> u64) -> Vec<Ready> {
        let mut line = turns.line(all.iter().copied(), 0);
        let mut served = Vec::new();
        while let Some(next) = line.next(turns, 0) {
            turns.used(next.holder, takes(next.holder), 0);
            served.push(next);
        }
        served
    }

    #[test]
    fn who_asks_for_much_waits_for_those_who_ask_for_little() {
        let (much, little) = (Holder::user(1), Holder::user(2));
        let all: Vec<_> =
            (0..10).map(|it| ready(if it < 5 { much } else { little }, it, 0)).collect();
        let takes = |holder| if holder == much { 10 * MS } else { MS };
        let served = order(&mut Turns::default(), &all, takes);
        let users: Vec<_> = served.iter().map(|one| one.holder.uid).collect();
        assert_eq!(users, [1, 2, 2, 2, 2, 2, 1, 1, 1, 1]);
    }

    #[test]
    fn one_users_sealed_program_leaves_turns_to_its_others() {
        let own = Holder::user(1);
        let sealed = own.sealed_by(7);
        let mut turns = Turns::default();
        turns.used(sealed, 50 * MS, 0);
        let all: Vec<_> =
            (0..4).map(|it| ready(if it < 3 { sealed } else { own }, it, 0)).collect();
        assert_eq!(order(&mut turns, &all, |_| MS)[0].holder, own);
        turns.used(own, 100 * MS, 0);
        assert_eq!(order(&mut turns, &all, |_| MS)[0].holder, sealed);
    }

    #[test]
    fn of_one_programs_connections_the_one_that_waits_longest_is_first() {
        let one = Holder::user(1);
        let all = [ready(one, 0, 30), ready(one, 1, 10), ready(one, 2, 20)];
        let served = order(&mut Turns::default(), &all, |_| MS);
        assert_eq!(served, [all[1], all[2], all[0]]);
    }

    #[test]
    fn what_has_ended_ends_before_what_came_later_is_served() {
        let one = Holder::user(1);
        let id = ObjectId { index: 3, generation: 1 };
        let ends = [Source::Closed(id), Source::Process(id)];
        for source in ends {
            let end = Ready { source, holder: one.sealed_by(7), served_ns: 90 };
            let mut turns = Turns::default();
            turns.used(end.holder, 50 * MS, 0);
            let served = order(&mut turns, &[ready(one, 0, 0), end], |_| MS);
            assert_eq!(served[0], end);
        }
    }

    #[test]
    fn what_was_used_is_forgotten_and_so_are_those_who_used_it() {
        let mut turns = Turns::default();
        turns.used(Holder::user(1), 8 * MS, 0);
        assert_eq!(turns.used_by_user(1, 2 * HALF_LIFE_NS), 2 * MS);
        (0..5000).for_each(|uid| turns.used(Holder::user(uid), MS, 0));
        turns.used(Holder::user(9), MS, 100 * HALF_LIFE_NS);
        assert_eq!((turns.users.len(), turns.programs.len()), (1, 1));
    }
}
