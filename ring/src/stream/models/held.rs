//! Loom: what is held back is moved by the writer's push and by the reader, whose time has come.

use std::io::IoSlice;

use loom::thread;

use super::{lane, model, read, Bell, Cells, Lane, WriteCache};

fn hold(lane: &Lane<Cells>, cache: &mut WriteCache, bytes: &[u8]) -> bool {
    let held = lane.hold(&[IoSlice::new(bytes)], 0, cache).unwrap();
    assert_eq!(held.bytes, bytes.len());
    held.is_news
}

#[test]
fn loom_what_is_held_comes_once_and_in_order_whoever_moves_the_tail() {
    model(3, || {
        let (lane, bell) = (lane(), Bell::default());
        let writer = lane.clone();
        let sender = thread::spawn(move || {
            let mut cache = WriteCache::new();
            hold(&writer, &mut cache, &[1]);
            hold(&writer, &mut cache, &[2, 3]);
            writer.push_only(2);
            writer.push();
            assert_eq!(writer.held(), 0);
        });
        let mut got = Vec::new();
        for _ in 0..2 {
            lane.release_held();
            got.extend(read(&lane, 4, &bell));
        }
        sender.join().unwrap();
        got.extend(read(&lane, 4, &bell));
        assert_eq!(got, [1, 2, 3]);
    });
}

#[test]
fn loom_a_reader_that_sleeps_learns_that_something_is_held() {
    model(3, || {
        let (lane, bell) = (lane(), Bell::default());
        let (writer, ringer) = (lane.clone(), bell.clone());
        let sender = thread::spawn(move || {
            let mut cache = WriteCache::new();
            for byte in [1, 2] {
                if hold(&writer, &mut cache, &[byte]) && writer.take_sleeping_reader() {
                    ringer.ring();
                }
            }
        });
        let mut got = Vec::new();
        while got.len() < 2 {
            lane.reader_sleeps();
            // With something held it would sleep by the clock, whose time has come.
            if lane.unread().unwrap() == 0 && lane.held() == 0 {
                bell.sleep();
            }
            lane.release_held();
            got.extend(read(&lane, 4, &bell));
        }
        assert_eq!(got, [1, 2]);
        sender.join().unwrap();
    });
}
