//! Handles on other nodes that are to be given back, until those nodes have taken them back.
//!
//! A node that has too much to do, or is late, is asked again: after a short time, and each time after
//! twice that. Handles have generations, so that one that is given back twice harms nobody. What a node
//! does not take back in all that time is forgotten here, and ends there with the link.

use std::collections::BTreeMap;

use heliostat_service_memory::Remote;

/// How long it takes until a handle is given back that could not be; twice that after each time.
const RETRY_NS: u64 = 20_000_000;
/// The longest of these times.
const RETRY_NS_MAX: u64 = 5_000_000_000;
/// How often a node is asked: some minutes in all.
const TRIES_MAX: u32 = 40;
/// How many are kept: as many handles as there are in all, so that a program that maps and gives back
/// for a node that never answers has an end.
const KEPT_MAX: usize = 65_536;
/// How many are given back at once.
const AT_ONCE: usize = 1024;

/// A handle that is to be given back.
#[derive(Clone, Copy, Debug)]
pub struct Return {
    /// Which.
    pub remote: Remote,
    /// How often it was tried.
    pub tries: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Returns {
    /// By when it is time.
    kept: BTreeMap<(u64, u64), Return>,
    last: u64,
    /// Those that were given up.
    pub forgotten: u64,
}

impl Returns {
    /// Keeps one that there was no place to try: that is no try.
    pub fn put_off(&mut self, now_ns: u64, kept: Return) {
        self.keep_until(now_ns.saturating_add(RETRY_NS), kept);
    }

    /// Keeps one that was tried in vain, unless that was often enough.
    pub fn keep(&mut self, now_ns: u64, Return { remote, tries }: Return) {
        if tries >= TRIES_MAX {
            self.forgotten += 1;
            return;
        }
        let wait_ns = RETRY_NS.checked_shl(tries.min(16)).unwrap_or(RETRY_NS_MAX).min(RETRY_NS_MAX);
        self.keep_until(now_ns.saturating_add(wait_ns), Return { remote, tries: tries + 1 });
    }

    /// Some of those whose time it is.
    pub fn take(&mut self, now_ns: u64) -> Vec<Return> {
        let mut due = Vec::new();
        while due.len() < AT_ONCE {
            match self.kept.first_entry() {
                Some(first) if first.key().0 <= now_ns => due.push(first.remove()),
                _ => break,
            }
        }
        due
    }

    /// When it is time for the first.
    pub fn next_ns(&self) -> Option<u64> {
        self.kept.keys().next().map(|(due_ns, _)| *due_ns)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    fn keep_until(&mut self, due_ns: u64, kept: Return) {
        if self.kept.len() >= KEPT_MAX {
            self.forgotten += 1;
            return;
        }
        self.last += 1;
        self.kept.insert((due_ns, self.last), kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_abi::memory::peer::PeerHandle;
    use heliostat_abi::memory::Rights;

    fn one(node: u64) -> Return {
        let remote = Remote {
            node,
            link: 1,
            there: PeerHandle::default(),
            region: Default::default(),
            rights: Rights::default(),
            user: 7,
            is_restricted: false,
            is_lost: false,
        };
        Return { remote, tries: 0 }
    }

    #[test]
    fn one_that_is_not_taken_back_is_tried_ever_later_and_then_forgotten() {
        let (mut returns, mut now, mut times) = (Returns::default(), 0, Vec::new());
        returns.keep(now, one(1));
        while let Some(due) = returns.next_ns() {
            assert!(returns.take(due - 1).is_empty());
            times.push(due - now);
            now = due;
            returns.take(now).into_iter().for_each(|kept| returns.keep(now, kept));
        }
        assert_eq!((times.len(), returns.forgotten), (TRIES_MAX as usize, 1));
        assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!((times[0], times[39]), (RETRY_NS, RETRY_NS_MAX));
    }

    #[test]
    fn one_that_was_put_off_has_all_its_tries_and_there_is_a_limit() {
        let mut returns = Returns::default();
        for node in 0..KEPT_MAX as u64 + 3 {
            returns.put_off(0, one(node));
        }
        assert_eq!((returns.len(), returns.forgotten), (KEPT_MAX, 3));
        let due = returns.take(RETRY_NS);
        assert!(due.len() == AT_ONCE && due.iter().all(|kept| kept.tries == 0));
        assert_eq!(due[0].remote.node, 0, "in order");
    }
}
