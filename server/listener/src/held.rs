//! Connections that nobody has yet: their first bytes are awaited, a plug-in is asked, or no worker has
//! room for what was taken back.

use std::collections::{BTreeMap, VecDeque};

use heliostat_abi::listener::Handed;

use crate::closing::Foreign;

/// What one waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// Its first bytes, until then.
    Bytes {
        /// Monotonic time.
        until_ns: u64,
    },
    /// The plug-in's word, until then.
    Plugin {
        /// Monotonic time.
        until_ns: u64,
    },
}

/// One such connection.
pub struct Held {
    /// It.
    pub fd: Foreign,
    /// What its worker will be told.
    pub handed: Handed,
    /// What it waits for.
    pub awaited: Awaited,
    /// The poll token by which its first bytes are told.
    pub token: u64,
}

/// Those of one listener.
#[derive(Default)]
pub struct HeldConnections {
    /// By number, so that the first is the oldest.
    awaiting: BTreeMap<u64, Held>,
    /// Taken back or decided, and without room at any worker: they come before all that is new.
    pub unplaced: VecDeque<(Handed, Foreign)>,
}

impl HeldConnections {
    /// One more.
    pub fn insert(&mut self, held: Held) {
        self.awaiting.insert(held.handed.serial, held);
    }

    /// Takes one out.
    pub fn remove(&mut self, serial: u64) -> Option<Held> {
        self.awaiting.remove(&serial)
    }

    /// Looks at one.
    pub fn get(&self, serial: u64) -> Option<&Held> {
        self.awaiting.get(&serial)
    }

    /// How many wait for their bytes or a word.
    pub fn awaiting(&self) -> usize {
        self.awaiting.len()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.awaiting.len() + self.unplaced.len()
    }

    /// Those that wait for their bytes or a word, the oldest first.
    pub fn serials(&self) -> Vec<u64> {
        self.awaiting.keys().copied().collect()
    }

    /// The one that waits longest.
    pub fn oldest(&self) -> Option<u64> {
        self.awaiting.keys().next().copied()
    }

    /// Those whose time is over.
    pub fn overdue(&self, now_ns: u64) -> Vec<u64> {
        let is_over = |held: &Held| held.awaited.until_ns() <= now_ns;
        self.awaiting.iter().filter(|(_, held)| is_over(held)).map(|(serial, _)| *serial).collect()
    }

    /// When the next one's is.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.awaiting.values().map(|held| held.awaited.until_ns()).min()
    }

    /// Those that a plug-in was asked about.
    pub fn asked(&self) -> Vec<u64> {
        let is_asked = |held: &Held| matches!(held.awaited, Awaited::Plugin { .. });
        self.awaiting.iter().filter(|(_, held)| is_asked(held)).map(|(serial, _)| *serial).collect()
    }
}

impl Awaited {
    fn until_ns(self) -> u64 {
        match self {
            Self::Bytes { until_ns } | Self::Plugin { until_ns } => until_ns,
        }
    }
}
