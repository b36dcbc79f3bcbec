//! Entries are handed out in order and once, and again only if their acknowledgement was not durable.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use heliostat_backend_block::{Random, RecordingDevice};

use super::{area, id_of, memory, new_log, payload, reopen};
use crate::format::Marks;
use crate::{Log, LogError, Options, Queue};

fn queue_of(count: u64) -> Queue {
    let queue = Queue::new(new_log(1 << 18));
    (0..count).for_each(|id| drop(queue.push(&payload(id, 10)).unwrap()));
    queue.log().sync().unwrap();
    queue
}

fn pop_ids(queue: &Queue) -> Vec<u64> {
    std::iter::from_fn(|| queue.pop().unwrap()).map(|item| id_of(&item.payload)).collect()
}

fn again(queue: Queue) -> Queue {
    let log = queue.log().clone();
    drop(queue);
    Queue::new(reopen(log, area(1 << 18)))
}

#[test]
fn entries_come_in_the_order_in_which_they_were_pushed_and_once() {
    let queue = queue_of(5);
    assert_eq!(pop_ids(&queue), [0, 1, 2, 3, 4]);
    assert_eq!(queue.pop(), Ok(None));
    queue.push(&payload(5, 0)).unwrap().wait().unwrap();
    assert_eq!(pop_ids(&queue), [5]);
}

#[test]
fn what_was_not_acknowledged_comes_again_after_an_opening_and_nothing_else() {
    let queue = queue_of(6);
    let items: Vec<_> = (0..4).map(|_| queue.pop().unwrap().unwrap()).collect();
    queue.acknowledge(items[0].position).unwrap();
    queue.acknowledge_sync(items[2].position).unwrap();
    let queue = again(queue);
    assert_eq!(pop_ids(&queue), [1, 3, 4, 5]);
}

#[test]
fn an_entry_that_is_given_back_comes_to_the_next_consumer() {
    let queue = queue_of(3);
    let first = queue.pop().unwrap().unwrap();
    assert_eq!(id_of(&queue.pop().unwrap().unwrap().payload), 1);
    queue.give_back(first.position).unwrap();
    let not_taken = Err(LogError::NotTaken { position: first.position });
    assert_eq!(queue.give_back(first.position), not_taken);
    assert_eq!(queue.acknowledge(first.position), not_taken);
    assert_eq!(queue.pop(), Ok(Some(first.clone())));
    queue.acknowledge(first.position).unwrap();
    assert_eq!(queue.acknowledge(first.position), not_taken);
    assert_eq!(pop_ids(&queue), [2]);
}

#[test]
fn so_many_are_handed_out_as_there_are_marks_and_more_after_the_first_is_acknowledged() {
    let queue = queue_of(Marks::ENTRIES + 10);
    let first = queue.pop().unwrap().unwrap();
    let mut handed_out = 1;
    let limit = loop {
        match queue.pop() {
            Ok(Some(_)) => handed_out += 1,
            other => break other,
        }
    };
    assert_eq!(limit, Err(LogError::Taken { limit: Marks::ENTRIES }));
    // Fillers take marks, too.
    assert!(handed_out <= Marks::ENTRIES && handed_out > Marks::ENTRIES - 10);
    queue.acknowledge(first.position).unwrap();
    assert!(queue.pop().unwrap().is_some());
}

#[test]
fn acknowledging_makes_room_in_the_area() {
    let queue = Queue::new(new_log(16 << 10));
    for id in 0..1000 {
        queue.push(&payload(id, 400)).unwrap().wait().unwrap();
        let item = queue.pop().unwrap().unwrap();
        assert_eq!(id_of(&item.payload), id);
        queue.acknowledge(item.position).unwrap();
    }
    assert_eq!(queue.log().begin(), queue.log().end());
}

#[test]
fn several_consumers_share_a_queue_and_each_entry_goes_to_one() {
    let queue = Queue::new(new_log(1 << 18));
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(item) = queue.pop_wait(Duration::from_secs(30)).unwrap() {
                    queue.acknowledge_sync(item.position).unwrap();
                    let id = id_of(&item.payload);
                    if id == u64::MAX {
                        break;
                    }
                    found.lock().unwrap().push(id);
                }
            });
        }
        for id in (0..200).chain([u64::MAX; 4]) {
            drop(queue.push(&payload(id, 20)).unwrap());
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort_unstable();
    assert_eq!(found, (0..200).collect::<Vec<u64>>());
}

#[test]
fn a_wait_for_an_entry_ends_with_its_time_or_with_an_entry() {
    let queue = queue_of(0);
    assert_eq!(queue.pop_wait(Duration::from_millis(5)), Ok(None));
    std::thread::scope(|scope| {
        let popped = scope.spawn(|| queue.pop_wait(Duration::from_secs(60)).unwrap().unwrap());
        drop(queue.push(&payload(9, 3)).unwrap());
        assert_eq!(id_of(&popped.join().unwrap().payload), 9);
    });
}

/// Pushes, takes and acknowledges as a seed says, and opens each crash of it; how many.
fn crash_everywhere(seed: u64) -> usize {
    let area = area(16 << 10);
    let device = memory(area, 512).in_random_order(seed).with_depth(4);
    let start = device.image().clone();
    let recording = RecordingDevice::new(device, start);
    let recorder = recording.recorder();
    let options = Options { checkpoint_bytes: 2000, ..Options::default() };
    let queue = Queue::new(Log::create(Box::new(recording), area, options).unwrap());
    let mut random = Random::new(seed);
    // At each mark: what is pushed durably, what may have been acknowledged, what surely is.
    type Sets = (BTreeSet<u64>, BTreeSet<u64>, BTreeSet<u64>);
    let mut sets: Sets = Default::default();
    let mut marks: Vec<Sets> = vec![sets.clone()];
    let (mut taken, mut next) = (Vec::new(), 0);
    recorder.mark(0);
    for _ in 0..60 {
        match random.below(4) {
            0 | 1 => {
                let pushed = queue.push(&payload(next, random.below(300) as usize));
                if pushed.is_ok_and(|pushed| pushed.wait().is_ok()) {
                    sets.0.insert(next);
                    next += 1;
                }
            }
            2 => taken.extend(queue.pop().unwrap()),
            _ if !taken.is_empty() => {
                let chosen = random.below(taken.len() as u64) as usize;
                let item: crate::Item = taken.swap_remove(chosen);
                sets.1.insert(id_of(&item.payload));
                marks.push(sets.clone());
                recorder.mark(marks.len() as u64 - 1);
                if random.below(2) == 0 {
                    queue.acknowledge_sync(item.position).unwrap();
                    sets.2 = sets.1.clone();
                } else {
                    queue.acknowledge(item.position).unwrap();
                }
            }
            _ => queue.log().poll(),
        }
        marks.push(sets.clone());
        recorder.mark(marks.len() as u64 - 1);
    }
    let recording = recorder.recording();
    let mut count = 0;
    for state in recording.crash_states(6, seed) {
        let Some(promised) = state.promised else { continue };
        let (pushed, _, surely) = &marks[promised as usize];
        let (_, perhaps, _) = &marks[(promised as usize + 1).min(marks.len() - 1)];
        let queue = Queue::new(Log::open(Box::new(state.device), area, options).unwrap());
        let found = pop_ids(&queue);
        assert!(found.is_sorted(), "{found:?}");
        assert!(found.iter().all(|id| !surely.contains(id)), "handed out again: {found:?}");
        let has_all = pushed.difference(perhaps).all(|id| found.contains(id));
        assert!(has_all, "{found:?} of {pushed:?}, {perhaps:?} acknowledged");
        count += 1;
    }
    count
}

#[test]
fn a_crash_forgets_no_durable_acknowledgement_and_loses_no_entry() {
    let count: usize = (1..=30).map(crash_everywhere).sum();
    assert!(count > 5_000, "{count}");
}

#[test]
fn a_log_that_is_a_queue_is_not_trimmed_and_its_consumers_go_on() {
    let queue = queue_of(3);
    let end = queue.log().end();
    assert_eq!(queue.log().trim(end), Err(LogError::IsQueue));
    assert_eq!(pop_ids(&queue), [0, 1, 2]);
}

#[test]
fn what_was_acknowledged_of_a_queue_stays_so_where_it_is_trimmed_as_a_log() {
    let queue = queue_of(5);
    let items: Vec<_> = (0..5).map(|_| queue.pop().unwrap().unwrap()).collect();
    queue.acknowledge_sync(items[2].position).unwrap();
    let log = queue.log().clone();
    drop(queue);
    let log = reopen(log, area(1 << 18));
    log.trim(items[1].position).unwrap();
    let queue = Queue::new(reopen(log, area(1 << 18)));
    assert_eq!(pop_ids(&queue), [1, 3, 4]);
}
