//! Loom: who takes a socket back between two turns finds in the lane all that was received of it.

use loom::thread;

use super::{lane, model, write, Arc, AtomicU32, Ordering, WriteCache};

#[test]
fn loom_what_was_received_in_a_turn_is_published_when_the_turns_are_taken() {
    model(3, || {
        let (lane, received) = (lane(), Arc::new(AtomicU32::new(0)));
        let (its_lane, kernel) = (lane.clone(), received.clone());
        let carrier = thread::spawn(move || {
            let mut cache = WriteCache::new();
            for byte in [1, 2] {
                if !its_lane.begin_turn() {
                    return;
                }
                kernel.fetch_add(1, Ordering::SeqCst);
                write(&its_lane, &mut cache, &[byte]);
                its_lane.end_turn();
            }
        });
        while !lane.take_turns() {
            thread::yield_now();
        }
        let seen = received.load(Ordering::SeqCst);
        assert_eq!(lane.unread(), Ok(u64::from(seen)));
        carrier.join().unwrap();
        assert_eq!(received.load(Ordering::SeqCst), seen);
    });
}
