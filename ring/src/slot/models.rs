//! Loom: the orders S1 to S4 of a slot, explored over all interleavings.
//!
//! The lanes are watched: a client that begins a slot anew while somebody still uses it, or that
//! does not see the last use, is reported as a data race. So are the prefixes that a step makes final.

use heliostat_abi::stream::channel::slot as at;
use heliostat_abi::stream::channel::SlotState::{
    Claimed, Connecting, Declined, Left, Offered, Proven,
};
use heliostat_abi::stream::channel::SlotState::{Started, Withdrawn};
use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::sync::Watched;

mod ends;

const WORDS: [usize; 6] =
    [at::STATE, at::CLOSED, at::ACCEPTOR, at::ACCEPTOR + 4, at::HOLDERS, at::HOLDERS + 4];
const UNUSED: usize = at::HAS_WRITTEN;
const LONG_WORDS: [usize; 3] = [at::SECRET, at::SECRET + 8, at::CLAIM_CHECK];
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Ordinary memory for one slot, and what goes with it.
struct Cells {
    words: [AtomicU32; WORDS.len()],
    unused: AtomicU32,
    long: [AtomicU64; LONG_WORDS.len()],
    offers: AtomicU64,
    /// The addresses of an offer: here the generation that they are of.
    addresses: AtomicU32,
    prefixes: [Watched<u32>; 2],
    lanes: Watched<u32>,
    /// The session word of the acceptor: 1 while it is active.
    session: AtomicU32,
}

impl Words for Cells {
    fn u32(&self, offset: usize) -> &AtomicU32 {
        match WORDS.iter().position(|word| *word == offset) {
            Some(place) => &self.words[place],
            None if offset == UNUSED => &self.unused,
            None => panic!("no word at {offset}"),
        }
    }
    fn u64(&self, offset: usize) -> &AtomicU64 {
        &self.long[LONG_WORDS.iter().position(|word| *word == offset).expect("a word")]
    }
    fn offers(&self) -> &AtomicU64 {
        &self.offers
    }
    fn offer(&self) -> u64 {
        2
    }
}

impl Cells {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            words: Default::default(),
            unused: AtomicU32::new(0),
            long: Default::default(),
            offers: AtomicU64::new(0),
            addresses: AtomicU32::new(0),
            prefixes: std::array::from_fn(|_| Watched::new(0)),
            lanes: Watched::new(0),
            session: AtomicU32::new(1),
        })
    }

    /// Client: takes the slot and puts a connection on offer; the generation.
    fn make_offer(&self) -> u32 {
        self.lanes.set(1);
        let generation = begin(self);
        self.addresses.store(generation, Relaxed);
        assert!(self.step(generation, Connecting, Offered));
        generation
    }

    fn step(&self, generation: u32, from: SlotState, to: SlotState) -> bool {
        step(self, generation, from, to)
    }

    fn use_lanes(&self) {
        self.lanes.get();
    }

    fn end_prefix(&self, side: usize) {
        self.prefixes[side].set(7);
    }

    fn is_prefix_final(&self, side: usize) -> bool {
        self.prefixes[side].get() == 7
    }

    fn is_left(&self) -> bool {
        is_left(self, |session| session == of(1).acceptor && self.session.load(Acquire) == 1)
    }

    fn is_on_offer(&self) -> bool {
        self.offers.load(Acquire) & self.offer() != 0
    }
}

/// The claim of one of several acceptors.
fn of(acceptor: u8) -> Claim {
    let id = ObjectId { index: u32::from(acceptor), generation: 1 };
    Claim { acceptor: id, secret: [acceptor; SECRET_BYTES] }
}

fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(f);
}

#[test]
fn loom_an_offer_is_claimed_as_it_was_made_or_withdrawn_never_both() {
    model(4, || {
        let slot = Cells::new();
        let acceptors = slot.clone();
        let acceptor = thread::spawn(move || {
            let generation = generation(&*acceptors);
            if state(&*acceptors, generation) != Offered {
                return false;
            }
            let addresses = acceptors.addresses.load(Relaxed);
            let is_claimed = claim(&*acceptors, generation, &of(1));
            if is_claimed {
                assert_eq!(addresses, generation);
                acceptors.use_lanes();
            }
            is_claimed
        });
        let generation = slot.make_offer();
        let is_withdrawn = withdraw(&*slot, generation);
        assert_eq!(acceptor.join().unwrap(), !is_withdrawn);
        // One that is withdrawn is its client's to clear.
        assert_eq!(slot.is_on_offer(), state(&*slot, generation) == Withdrawn);
        if !is_withdrawn {
            assert_eq!(claimed(&*slot, generation), Some(of(1)));
        }
    });
}

#[test]
fn loom_a_client_tells_no_secret_but_that_of_the_acceptor_that_has_its_offer() {
    model(3, || {
        let slot = Cells::new();
        let first = slot.make_offer();
        let late = slot.clone();
        let acceptor = thread::spawn(move || claim(&*late, first, &of(1)));
        // The same slot serves another connection, which another acceptor takes.
        if withdraw(&*slot, first) {
            let second = slot.make_offer();
            assert!(claim(&*slot, second, &of(2)));
            assert!(slot.step(second, Claimed, Started));
            let told = claimed(&*slot, second);
            assert!(told.is_none() || told == Some(of(2)), "told {told:?}");
        }
        acceptor.join().unwrap();
    });
}

#[test]
fn loom_an_offer_stays_among_the_offers_when_an_earlier_one_is_declined_late() {
    model(4, || {
        let slot = Cells::new();
        let first = slot.make_offer();
        let late = slot.clone();
        let acceptor = thread::spawn(move || decline(&*late, first));
        while state(&*slot, first) != Declined {
            thread::yield_now();
        }
        set_offer(&*slot, false);
        let second = slot.make_offer();
        assert!(acceptor.join().unwrap());
        assert_eq!(state(&*slot, second), Offered);
        assert!(slot.is_on_offer());
    });
}

#[test]
fn loom_a_client_begins_its_ring_or_its_acceptor_gives_the_claim_up_never_both() {
    model(4, || {
        let slot = Cells::new();
        let generation = slot.make_offer();
        assert!(claim(&*slot, generation, &of(1)));
        let acceptors = slot.clone();
        let acceptor = thread::spawn(move || {
            if acceptors.step(generation, Claimed, Declined) {
                return false;
            }
            // What proves the offer is on the shadow; here it is there once the slot says Started.
            assert!(acceptors.is_prefix_final(CLIENT));
            acceptors.end_prefix(SERVER);
            acceptors.step(generation, Started, Proven)
        });
        slot.end_prefix(CLIENT);
        let is_started = slot.step(generation, Claimed, Started);
        if state(&*slot, generation) == Proven {
            assert!(slot.is_prefix_final(SERVER));
        }
        assert_eq!(acceptor.join().unwrap(), is_started);
    });
}

#[test]
fn loom_a_claim_is_answered_retreated_from_or_given_up_once() {
    model(4, || {
        let slot = Cells::new();
        let generation = slot.make_offer();
        assert!(claim(&*slot, generation, &of(1)));
        // Two processes of a client, of which one has to be the kernel's, and the acceptor.
        let steps = [(Claimed, Left), (Claimed, Declined)].map(|(from, to)| {
            let slot = slot.clone();
            thread::spawn(move || slot.step(generation, from, to))
        });
        let is_started = slot.step(generation, Claimed, Started);
        let taken = steps.map(|thread| thread.join().unwrap());
        assert_eq!(u8::from(is_started) + u8::from(taken[0]) + u8::from(taken[1]), 1);
    });
}
