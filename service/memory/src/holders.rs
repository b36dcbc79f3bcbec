//! The handles on one region: of most regions a few, of some a quarter of a million.

use std::collections::BTreeSet;

use heliostat_abi::name::ObjectId;

use crate::handles::Whose;

/// So many take less room in a row than in a tree.
const FEW: usize = 16;

/// Handles, each once, in order of session and handle: equal inputs give equal effects, and what one
/// session has is together. Each is taken in and out in a time that hardly depends on how many there are.
#[derive(Clone, Debug)]
pub(crate) enum Holders {
    /// In order.
    Few(Vec<Whose>),
    /// As soon as they were more; they stay there.
    Many(BTreeSet<Whose>),
}

impl Default for Holders {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Holders {
    /// Takes one in.
    pub(crate) fn insert(&mut self, whose: Whose) {
        match self {
            Self::Few(few) => {
                if let Err(place) = few.binary_search(&whose) {
                    few.insert(place, whose);
                }
                if few.len() > FEW {
                    *self = Self::Many(few.drain(..).collect());
                }
            }
            Self::Many(many) => drop(many.insert(whose)),
        }
    }

    /// Takes one out, if it is there.
    pub(crate) fn remove(&mut self, whose: Whose) {
        match self {
            Self::Few(few) => drop(few.binary_search(&whose).map(|place| few.remove(place))),
            Self::Many(many) => drop(many.remove(&whose)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Whose> + '_ {
        self.from((ObjectId::default(), ObjectId::default()))
    }

    /// Those of one session, in order.
    pub(crate) fn of_session(&self, session: ObjectId) -> impl Iterator<Item = Whose> + '_ {
        let all = self.from((session, ObjectId::default()));
        all.take_while(move |(its, _)| *its == session)
    }

    /// The sessions that have some, each once. As long as they are, not as their handles.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let first = self.iter().next();
        let last = ObjectId { index: u32::MAX, generation: u32::MAX };
        let next = move |whose: &Whose| self.from((whose.0, last)).find(|it| it.0 != whose.0);
        std::iter::successors(first, next).map(|(session, _)| session)
    }

    fn from(&self, first: Whose) -> impl Iterator<Item = Whose> + '_ {
        let (few, many) = match self {
            Self::Few(few) => (few.get(few.partition_point(|it| *it < first)..), None),
            Self::Many(many) => (None, Some(many.range(first..))),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten()).copied()
    }
}

impl FromIterator<Whose> for Holders {
    fn from_iter<I: IntoIterator<Item = Whose>>(all: I) -> Self {
        let mut holders = Self::default();
        all.into_iter().for_each(|whose| holders.insert(whose));
        holders
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(index: u32) -> ObjectId {
        ObjectId { index, generation: 1 + index % 2 }
    }

    proptest! {
        #[test]
        fn few_and_many_are_the_same_set(
            steps in prop::collection::vec((any::<bool>(), 0u32..6, 0u32..12), 0..120),
        ) {
            let (mut holders, mut expected) = (Holders::default(), BTreeSet::new());
            for (is_in, session, handle) in steps {
                let whose = (id(session), id(handle));
                if is_in {
                    holders.insert(whose);
                    expected.insert(whose);
                } else {
                    holders.remove(whose);
                    expected.remove(&whose);
                }
                prop_assert_eq!(holders.len(), expected.len());
                prop_assert!(holders.iter().eq(expected.iter().copied()));
                let sessions: BTreeSet<_> = expected.iter().map(|whose| whose.0).collect();
                prop_assert!(holders.sessions().eq(sessions));
                let its = expected.iter().filter(|whose| whose.0 == id(session)).copied();
                prop_assert!(holders.of_session(id(session)).eq(its));
            }
        }
    }
}
