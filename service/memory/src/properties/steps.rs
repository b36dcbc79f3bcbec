//! What programs and loops do, one after the other, in any order.

use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Allocate {
        session: u32,
        bytes: u64,
        lasting: bool,
        name: u32,
    },
    Map {
        session: u32,
        user: u32,
        name: u32,
        rights: u32,
    },
    Unmap {
        session: u32,
        which: usize,
    },
    Free {
        session: u32,
        which: usize,
    },
    Grow {
        session: u32,
        which: usize,
        bytes: u64,
    },
    Move {
        session: u32,
        which: usize,
    },
    Depart {
        session: u32,
        which: usize,
    },
    /// Moves whose time is over are given up.
    ExpireMoves,
    Rename {
        session: u32,
        which: usize,
        name: u32,
    },
    Lasting {
        session: u32,
        which: usize,
        lasting: bool,
    },
    Serve {
        session: u32,
    },
    Unserve {
        session: u32,
    },
    /// A loop says what it owes.
    Loop {
        all: bool,
    },
    End {
        session: u32,
    },
    Revoke {
        session: u32,
    },
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (session, which, name) = (0..6u32, any::<usize>(), 0..4u32);
    let both = || (0..6u32, any::<usize>());
    let step = prop_oneof![
        6 => (session.clone(), 0..6000u64, any::<bool>(), name.clone()).prop_map(
            |(session, bytes, lasting, name)| Step::Allocate { session, bytes, lasting, name }),
        5 => (session.clone(), 0..2u32, name.clone(), 0..32u32).prop_map(
            |(session, user, name, rights)| Step::Map { session, user, name, rights }),
        3 => both().prop_map(|(session, which)| Step::Unmap { session, which }),
        3 => both().prop_map(|(session, which)| Step::Free { session, which }),
        2 => (both(), 1..6000u64)
            .prop_map(|((session, which), bytes)| Step::Grow { session, which, bytes }),
        3 => both().prop_map(|(session, which)| Step::Move { session, which }),
        2 => both().prop_map(|(session, which)| Step::Depart { session, which }),
        1 => Just(Step::ExpireMoves),
        1 => (session.clone(), which, name)
            .prop_map(|(session, which, name)| Step::Rename { session, which, name }),
        1 => (both(), any::<bool>())
            .prop_map(|((session, which), lasting)| Step::Lasting { session, which, lasting }),
        2 => session.clone().prop_map(|session| Step::Serve { session }),
        2 => session.clone().prop_map(|session| Step::Unserve { session }),
        4 => any::<bool>().prop_map(|all| Step::Loop { all }),
        1 => session.clone().prop_map(|session| Step::End { session }),
        1 => session.prop_map(|session| Step::Revoke { session }),
    ];
    prop::collection::vec(step, 1..150)
}
