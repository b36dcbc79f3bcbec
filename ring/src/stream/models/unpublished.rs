//! Loom: what is not published is seen by nobody, and a reader that sleeps is woken when it is.

use std::io::IoSlice;
use std::sync::Arc;

use loom::thread;

use super::{lane, model, read, Bell, WriteCache};
use crate::sync::AtomicU32;
use crate::sync::Ordering::Relaxed;

#[test]
fn loom_nothing_is_read_before_it_is_published_and_no_wakeup_is_lost() {
    model(3, || {
        let (lane, bell) = (lane(), Bell::default());
        let (writer, ringer) = (lane.clone(), bell.clone());
        // Written without an order of its own, as a device's answer: the publication orders it.
        let is_durable = Arc::new(AtomicU32::new(0));
        let device = is_durable.clone();
        let sender = thread::spawn(move || {
            let mut cache = WriteCache::new();
            for part in [&[1][..], &[2, 3]] {
                let put = writer.write_unpublished(&[IoSlice::new(part)], &mut cache);
                assert_eq!(put, Ok(part.len()));
            }
            device.store(1, Relaxed);
            writer.publish_unpublished(u64::MAX, &mut cache);
            if writer.take_sleeping_reader() {
                ringer.ring();
            }
        });
        let mut got = Vec::new();
        while got.len() < 3 {
            lane.reader_sleeps();
            if lane.unread().unwrap() == 0 {
                bell.sleep();
            }
            got.extend(read(&lane, 4, &bell));
            assert!(got.is_empty() || is_durable.load(Relaxed) == 1);
        }
        assert_eq!(got, [1, 2, 3]);
        sender.join().unwrap();
    });
}
