//! Models of how a slot comes back to its client: nobody uses it any more, however its users ended.

use super::*;

/// A stream that both ends use, and its client has closed; the acceptor's end is held by `holders`.
fn closed_by_client(holders: u32) -> (Arc<Cells>, u32) {
    let slot = Cells::new();
    let generation = slot.make_offer();
    assert!(claim(&*slot, generation, &of(1)));
    assert!(slot.step(generation, Claimed, Started) && slot.step(generation, Started, Proven));
    slot.u32(at::HOLDERS + 4).store(holders, Relaxed);
    close(&*slot, at::CLOSED_CLIENT);
    (slot, generation)
}

/// A process of the acceptor reads on, and lets go of its end.
fn read_and_let_go(slot: &Cells, has_claimed: bool) {
    slot.use_lanes();
    if let_go(slot, at::HOLDERS + 4, has_claimed) {
        close(slot, at::CLOSED_SERVER);
    }
}

/// The client looks while others use the slot, begins it anew if it is left, and looks again when
/// all have ended.
fn looks_twice(slot: &Cells, others: Vec<thread::JoinHandle<()>>) {
    let is_begun = slot.is_left();
    if is_begun {
        slot.make_offer();
    }
    others.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(is_begun || slot.is_left(), "nobody uses it, and nobody can take it");
}

#[test]
fn loom_a_slot_is_begun_anew_only_behind_the_last_use_of_its_acceptor() {
    model(4, || {
        let (slot, _) = closed_by_client(1);
        let acceptors = slot.clone();
        let acceptor = thread::spawn(move || {
            read_and_let_go(&acceptors, true);
            acceptors.session.store(0, Release);
        });
        looks_twice(&slot, vec![acceptor]);
    });
}

#[test]
fn loom_a_child_of_the_acceptor_keeps_the_slot_that_its_parent_has_left() {
    model(3, || {
        let (slot, _) = closed_by_client(2);
        let (parents, childs) = (slot.clone(), slot.clone());
        let parent = thread::spawn(move || {
            read_and_let_go(&parents, true);
            // It ends, and the control plane says so.
            parents.session.store(0, Release);
        });
        let child = thread::spawn(move || read_and_let_go(&childs, false));
        looks_twice(&slot, vec![parent, child]);
    });
}

#[test]
fn loom_a_child_of_a_killed_acceptor_keeps_the_slot_until_it_lets_go() {
    model(3, || {
        let (slot, _) = closed_by_client(2);
        let (parents, childs) = (slot.clone(), slot.clone());
        let parent = thread::spawn(move || {
            parents.use_lanes();
            // Killed: it says nothing.
            parents.session.store(0, Release);
        });
        let child = thread::spawn(move || read_and_let_go(&childs, false));
        looks_twice(&slot, vec![parent, child]);
    });
}

#[test]
fn loom_a_claim_that_a_client_has_left_is_not_given_out_before_its_acceptor_has_left_it() {
    model(4, || {
        let slot = Cells::new();
        let generation = slot.make_offer();
        let acceptors = slot.clone();
        let acceptor = thread::spawn(move || {
            if !claim(&*acceptors, generation, &of(1)) {
                return;
            }
            acceptors.use_lanes();
            if acceptors.step(generation, Claimed, Declined) {
                return;
            }
            assert_eq!(state(&*acceptors, generation), Left);
            read_and_let_go(&acceptors, true);
        });
        let is_free = withdraw(&*slot, generation) || !slot.step(generation, Claimed, Left) || {
            close(&*slot, at::CLOSED_CLIENT);
            slot.is_left()
        };
        if is_free {
            slot.make_offer();
        }
        acceptor.join().unwrap();
        assert!(is_free || slot.is_left());
    });
}

#[test]
fn loom_an_offer_is_seen_that_another_thread_makes_as_soon_as_the_slot_is_left() {
    model(4, || {
        let slot = Cells::new();
        let generation = slot.make_offer();
        assert!(withdraw(&*slot, generation));
        let next = slot.clone();
        let thread = thread::spawn(move || next.is_left().then(|| next.make_offer()));
        leave(&*slot);
        let is_made = thread.join().unwrap().is_some();
        assert_eq!(slot.is_on_offer(), is_made);
    });
}

#[test]
fn loom_a_late_claim_does_not_make_a_living_acceptors_slot_look_left() {
    model(2, || {
        let slot = Cells::new();
        let first = slot.make_offer();
        let late = slot.clone();
        // Its session ends soon after, while that of the slot's next acceptor stands.
        let acceptor = thread::spawn(move || claim(&*late, first, &of(2)));
        if withdraw(&*slot, first) {
            let second = slot.make_offer();
            assert!(claim(&*slot, second, &of(1)));
            close(&*slot, at::CLOSED_CLIENT);
            assert!(!slot.is_left());
            acceptor.join().unwrap();
            assert!(!slot.is_left());
        }
    });
}
