//! Loom: a consumer that polls does not look at the producer's bell each time, and wakes it all the
//! same.

use loom::thread;

use super::spsc;
use crate::doorbell::Patience;
use crate::probe::Immortal;

#[test]
fn a_consumer_that_polls_an_empty_ring_again_and_again_wakes_the_producer() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        // An eighth is 32 bytes, more than an element: it is released without a look at the bell.
        let (mut producer, mut consumer) = spsc(256);
        let receiver = thread::spawn(move || {
            let mut count = 0;
            while count < 6 {
                match consumer.poll(&mut [0]) {
                    Ok(_) => count += 1,
                    Err(_) => thread::yield_now(),
                }
            }
            let _ = consumer.poll(&mut [0]);
            consumer
        });
        for value in 0..6 {
            producer.push(&[value; 16]).expect("fits");
        }
        producer.wait_space(112, &Patience::ENDLESS, &Immortal).expect("lives");
        receiver.join().unwrap();
    });
}
