//! Waiting for versions: by several threads of one consumer, and for a producer that is no more.

#[allow(dead_code)] // these tests use their part
#[path = "support/region.rs"]
mod region;

use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

use heliostat_stub_snapshot::{Attachment, Settings};
use region::attach;

/// A test whose sleeper is never woken fails after it.
const WATCHDOG: Duration = Duration::from_secs(30);

/// What `reader.wait(0, None)` answers, from a thread of its own that is asleep by now, as far as
/// that can be known.
fn sleeper(reader: &Attachment) -> Receiver<bool> {
    let (tell, told) = channel();
    let reader = reader.clone();
    std::thread::spawn(move || tell.send(reader.wait(0, None)));
    std::thread::sleep(Duration::from_millis(30));
    told
}

#[test]
fn who_gives_up_waiting_leaves_the_other_threads_of_its_consumer_waiting() {
    let bytes = vec![0; 4096];
    let mut region = region::region(&bytes, Settings::default());
    let (reader, _) = attach(&mut region);
    let other = sleeper(&reader);
    assert!(!reader.wait(0, Some(Duration::from_millis(20))));
    region.publish().unwrap();
    assert_eq!(other.recv_timeout(WATCHDOG), Ok(true));
}

#[test]
fn who_waits_for_a_producer_that_was_killed_is_not_left_waiting() {
    let bytes = vec![0; 4096];
    let region = region::region(&bytes, Settings::default());
    let (table, pool) = region.descriptors();
    // The producer's end of the bell is open nowhere, as after its death.
    let nobody = |_: &_, _: &_| Ok::<(), ()>(());
    let reader = Attachment::with_bell(table, pool.duplicate().unwrap(), nobody);
    let reader = reader.unwrap().unwrap();
    assert!(reader.is_deserted() && !reader.is_closed());
    assert_eq!(sleeper(&reader).recv_timeout(WATCHDOG), Ok(false));
}

#[test]
fn a_producer_that_dies_while_somebody_sleeps_is_noticed() {
    let bytes = vec![0; 4096];
    let region = region::region(&bytes, Settings::default());
    let (table, pool) = region.descriptors();
    let mut theirs = None;
    let keep = |_: &_, bell: &heliostat_base::fd::OwnedFd| {
        theirs = Some(bell.duplicate().unwrap());
        Ok::<(), ()>(())
    };
    let reader = Attachment::with_bell(table, pool.duplicate().unwrap(), keep).unwrap().unwrap();
    let asleep = sleeper(&reader);
    assert!(!reader.is_deserted());
    drop(theirs);
    assert_eq!(asleep.recv_timeout(WATCHDOG), Ok(false));
}
