//! Queues: every item whole and in order for whoever it is for, whatever the consumers do.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::os::fd::AsRawFd;
use std::time::Duration;

use heliostat_abi::snapshot::queue::{Shape, CURSOR, HOLD, PAGE_BYTES};
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_base::process::poll_readable;
use heliostat_stub_snapshot::queue::{
    Consumer, Delivery, Flow, Metrics, Queue, QueueError, Settings,
};
use heliostat_stub_snapshot::ConsumerHandle;
use proptest::prelude::*;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

fn queue(slots: u32, item_bytes: u64, delivery: Delivery, flow: Flow) -> Queue {
    Queue::new(Settings { slots, item_bytes, delivery, flow, ..Settings::default() }).unwrap()
}

/// Attaches; the consumer, its handle, and its page for whoever wants to lie in it.
fn attach_with_page(queue: &mut Queue) -> (Consumer, ConsumerHandle, OwnedFd) {
    let (table, pool) = queue.descriptors();
    let (table, pool) = (table.duplicate().unwrap(), pool.duplicate().unwrap());
    let mut seen = None;
    let announce = |page: &OwnedFd, bell: &OwnedFd| {
        seen = Some((queue.admit(page, bell).unwrap().unwrap(), page.duplicate().unwrap()));
        Ok::<(), Infallible>(())
    };
    let consumer = Consumer::new(&table, &pool, announce).unwrap().unwrap();
    let (handle, page) = seen.unwrap();
    (consumer, handle, page)
}

fn attach(queue: &mut Queue) -> Consumer {
    attach_with_page(queue).0
}

fn is_full(answer: Result<u64, QueueError>) -> bool {
    matches!(answer, Err(QueueError::Full { .. }))
}

/// An item whose every 4 KiB carry its number, and its first and last eight bytes.
fn stamped(number: u64, len: usize) -> Vec<u8> {
    let mut item = vec![0; len];
    item.chunks_mut(4096).for_each(|page| {
        let stamp = number.to_le_bytes();
        let room = page.len().min(8);
        page[..room].copy_from_slice(&stamp[..room]);
        let end = page.len();
        page[end - room..].copy_from_slice(&stamp[..room]);
    });
    item
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Pop(usize),
    Hold(usize),
    Leave,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..100usize).prop_map(Step::Push),
        6 => (0..3usize).prop_map(Step::Pop),
        1 => (0..3usize).prop_map(Step::Hold),
        1 => Just(Step::Leave),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_full_queue_gives_everybody_what_a_deque_would(slots in 2..6u32, steps in steps()) {
        let mut queue = queue(slots, 100, Delivery::All, Flow::Full);
        let mut consumers: Vec<_> = (0..3).map(|_| Some(attach_with_page(&mut queue))).collect();
        let mut models = vec![VecDeque::<Vec<u8>>::new(); 3];
        for (value, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(len) => {
                    let item = vec![value as u8; len];
                    let there = consumers.iter().zip(&models).filter(|it| it.0.is_some());
                    let has_room = there.map(|it| it.1.len()).max().unwrap_or(0) < slots as usize;
                    match queue.push(&item) {
                        Ok(_) => {
                            assert!(has_room);
                            models.iter_mut().for_each(|model| model.push_back(item.clone()));
                        }
                        answer => assert!(is_full(answer) && !has_room),
                    }
                }
                Step::Pop(at) => {
                    let Some((consumer, ..)) = &mut consumers[at] else { continue };
                    let mut item = Vec::new();
                    let popped = consumer.pop(&mut item).then_some(item);
                    assert_eq!(popped, models[at].pop_front());
                    assert_eq!(consumer.lost(), 0);
                }
                Step::Hold(at) => {
                    // Held, an item survives whatever the producer tries.
                    let Some((consumer, ..)) = &mut consumers[at] else { continue };
                    let Some(item) = consumer.take() else { continue };
                    let mut bytes = vec![0; item.len()];
                    item.read(0, &mut bytes).unwrap();
                    assert_eq!(Some(bytes), models[at].pop_front());
                }
                Step::Leave => {
                    if let Some((_, handle, _)) = consumers[2].take() {
                        queue.dismiss(handle);
                    }
                }
            }
        }
    }

    #[test]
    fn an_overwriting_queue_always_takes_an_item_and_keeps_order(slots in 2..6u32, steps in steps()) {
        let mut queue = queue(slots, 100, Delivery::All, Flow::Overwrite);
        let mut consumers: Vec<_> = (0..3).map(|_| attach(&mut queue)).collect();
        let (mut pushed, mut seen) = (0u64, [None::<u64>; 3]);
        for step in steps {
            match step {
                Step::Push(_) | Step::Leave => {
                    queue.push(&stamped(pushed, 8)).unwrap();
                    pushed += 1;
                }
                Step::Pop(at) | Step::Hold(at) => {
                    let consumer = &mut consumers[at];
                    let mut item = Vec::new();
                    if !consumer.pop(&mut item) {
                        assert!(seen[at].map_or(0, |seen| seen + 1) == pushed, "something is there");
                        continue;
                    }
                    let value = u64::from_le_bytes(item.try_into().unwrap());
                    assert!(seen[at].is_none_or(|seen| seen < value) && value < pushed);
                    assert!(value + u64::from(slots) >= pushed, "not the oldest that is there");
                    seen[at] = Some(value);
                }
            }
        }
    }

    #[test]
    fn whatever_a_hostile_table_says_a_consumer_gets_answers_inside_its_window(
        words in prop::collection::vec((0..0x1100usize / 8, any::<u64>(), any::<bool>()), 1..60),
        dealt in any::<bool>(),
    ) {
        let shape = Shape::new(1, 100, 4, dealt).unwrap();
        let (fd, table) = SharedMapping::create(c"table", shape.table_bytes()).unwrap();
        let (pool, _) = SharedMapping::create(c"pool", shape.pool_bytes()).unwrap();
        table.copy_in(0, &shape.encode()).unwrap();
        let nobody = |_: &OwnedFd, _: &OwnedFd| Ok::<(), Infallible>(());
        let mut consumer = Consumer::new(&fd, &pool, nobody).unwrap().unwrap();
        for (at, word, is_small) in words {
            // Small numbers meet the marks of small heads, large ones the ends of the count.
            let word = if is_small { word % 8 } else { u64::MAX - word % 8 };
            // HEAD, the entries of the slots, or anything.
            let at = match at % 3 { 0 => 64, 1 => 4096 + at % 32 * 8, _ => at * 8 };
            table.atomic_u64(at).store(word, std::sync::atomic::Ordering::SeqCst);
            if let Some(item) = consumer.take() {
                assert!(item.len() <= 100);
                let mut bytes = vec![0; item.len()];
                item.read(0, &mut bytes).unwrap();
                assert!(item.read(item.len(), &mut [0]).is_err());
            }
            let _ = (consumer.lost(), consumer.is_closed(), consumer.arm());
            assert!(consumer.description().len() <= 2044);
            assert!(!consumer.wait(Some(Duration::ZERO)) || consumer.take().is_some());
        }
    }

    #[test]
    fn what_stands_in_a_hostile_page_costs_its_consumer_alone(
        words in prop::collection::vec((prop_oneof![Just(CURSOR), Just(HOLD)], any::<u64>()), 1..40),
        dealt in any::<bool>(),
    ) {
        let delivery = if dealt { Delivery::One } else { Delivery::All };
        let mut queue = queue(3, 8, delivery, Flow::Full);
        let (_, _, page) = attach_with_page(&mut queue);
        let lies = SharedMapping::from_fd(page.as_raw_fd(), PAGE_BYTES, Access::ReadWrite).unwrap();
        let mut honest = attach(&mut queue);
        let (mut item, mut last) = (Vec::new(), None);
        for (value, (at, word)) in words.into_iter().enumerate() {
            // Small numbers meet real items, large ones none.
            let word = if word % 2 == 0 { word % 8 } else { word };
            lies.atomic_u64(at).store(word, std::sync::atomic::Ordering::SeqCst);
            if is_full(queue.push(&stamped(value as u64, 8))) {
                queue.expel_laggards();
            }
            while honest.pop(&mut item) {
                let value = u64::from_le_bytes(item.clone().try_into().unwrap());
                assert!(last.is_none_or(|last| last < value));
                last = Some(value);
            }
        }
    }
}

#[test]
fn each_item_is_dealt_to_exactly_one_and_the_slow_get_fewer() {
    let mut queue = queue(8, 8, Delivery::One, Flow::Full);
    let mut fast: Vec<_> = (0..3).map(|_| attach(&mut queue)).collect();
    let _slow = attach(&mut queue);
    let (mut item, mut seen, mut pushed) = (Vec::new(), Vec::new(), 0u64);
    while pushed < 300 {
        if queue.push(&stamped(pushed, 8)).is_ok() {
            pushed += 1;
        }
        for consumer in &mut fast {
            if consumer.pop(&mut item) {
                seen.push(u64::from_le_bytes(item.clone().try_into().unwrap()));
            }
        }
    }
    seen.sort_unstable();
    let count = seen.len();
    seen.dedup();
    assert_eq!(seen.len(), count, "an item came twice");
    assert!(count >= 290, "the slow consumer got {} items", 300 - count);
}

#[test]
fn a_laggard_that_is_expelled_keeps_what_it_holds_and_nothing_more() {
    let mut queue = queue(2, 4096, Delivery::All, Flow::Full);
    let mut laggard = attach(&mut queue);
    queue.push(&stamped(1, 4096)).unwrap();
    queue.push(&stamped(2, 4096)).unwrap();
    let held = laggard.take().unwrap();
    assert!(is_full(queue.push(&stamped(3, 4096))));
    assert_eq!(queue.expel_laggards(), 1);
    for number in 3..50 {
        queue.push(&stamped(number, 4096)).unwrap();
        let mut bytes = vec![0; 4096];
        held.read(0, &mut bytes).unwrap();
        assert!(bytes == stamped(1, 4096), "what was held was overwritten");
    }
    drop(held);
    let mut bytes = Vec::new();
    assert!(laggard.pop(&mut bytes) && bytes == stamped(49, 4096));
    assert_eq!(laggard.lost(), 47);
    assert!(matches!(queue.metrics(), Metrics { committed: 49, expelled: 1, .. }));
}

#[test]
fn nobody_is_expelled_from_a_window_that_is_not_full() {
    for delivery in [Delivery::All, Delivery::One] {
        let mut queue = queue(8, 8, delivery, Flow::Full);
        let mut reader = attach(&mut queue);
        queue.push(b"first").unwrap();
        assert_eq!(queue.expel_laggards(), 0);
        for _ in 0..7 {
            queue.push(b"further").unwrap();
        }
        assert!(is_full(queue.push(b"too many")), "the reader counts");
        let mut item = Vec::new();
        assert!(reader.pop(&mut item) && item == b"first");
    }
}

#[test]
fn items_of_every_size_are_written_in_place() {
    for len in [1, 7, 4095, 4096, 100_000, 64 << 20] {
        let mut queue = queue(2, len as u64, Delivery::All, Flow::Full);
        let mut consumer = attach(&mut queue);
        for number in 1..4 {
            let slot = queue.reserve().unwrap();
            slot.write(0, &stamped(number, len)).unwrap();
            assert!(slot.write(len, &[1]).is_err());
            slot.commit(len).unwrap();
            let mut bytes = Vec::new();
            assert!(consumer.pop(&mut bytes) && bytes == stamped(number, len), "{len}");
        }
        assert!(matches!(queue.push(&vec![0; len + 1]), Err(QueueError::TooLong(_))));
    }
}

#[test]
fn a_reserved_slot_that_is_given_up_is_never_seen() {
    let mut queue = queue(2, 8, Delivery::All, Flow::Full);
    let mut consumer = attach(&mut queue);
    queue.reserve().unwrap().write(0, b"nobody").unwrap();
    assert!(consumer.take().is_none());
    queue.push(b"one").unwrap();
    let mut bytes = Vec::new();
    assert!(consumer.pop(&mut bytes) && bytes == b"one" && !consumer.pop(&mut bytes));
}

#[test]
fn both_sides_sleep_until_the_other_rings_and_hear_of_its_end() {
    let mut queue = queue(2, 8, Delivery::All, Flow::Full);
    let mut consumer = attach(&mut queue);
    let quiet = consumer.bell_fd().as_raw_fd();
    assert!(!consumer.arm() && poll_readable(quiet, 0) == Ok(false));
    assert!(!consumer.wait(Some(Duration::from_millis(5))));
    let reader = std::thread::spawn(move || {
        let (mut bytes, mut sum) = (Vec::new(), 0);
        while consumer.wait(None) {
            while consumer.pop(&mut bytes) {
                sum += u64::from_le_bytes(bytes.clone().try_into().unwrap());
            }
        }
        sum
    });
    for number in 0..2000u64 {
        queue.push_wait(&number.to_le_bytes(), PATIENCE).unwrap();
    }
    drop(queue);
    assert_eq!(reader.join().unwrap(), 1999 * 2000 / 2);
}

#[test]
fn a_producer_that_waits_learns_that_its_consumer_is_gone() {
    let mut queue = queue(2, 8, Delivery::All, Flow::Full);
    let consumer = attach(&mut queue);
    queue.push(b"1").unwrap();
    queue.push(b"2").unwrap();
    assert!(is_full(queue.push_wait(b"3", Some(Duration::from_millis(5)))));
    let end = std::thread::spawn(move || drop(consumer));
    queue.push_wait(b"3", PATIENCE).unwrap();
    end.join().unwrap();
}

#[test]
fn who_is_dismissed_late_does_not_take_along_who_has_its_seat_now() {
    let mut queue = queue(2, 4096, Delivery::All, Flow::Full);
    let (gone, handle, _) = attach_with_page(&mut queue);
    drop(gone);
    queue.push(&stamped(1, 4096)).unwrap();
    queue.push(&stamped(2, 4096)).unwrap();
    // Here the producer sees that the bell is closed.
    queue.push(&stamped(3, 4096)).unwrap();
    let mut reader = attach(&mut queue);
    queue.push(&stamped(4, 4096)).unwrap();
    let held = reader.take().unwrap();
    queue.dismiss(handle);
    for number in 5..9 {
        let _ = queue.push(&stamped(number, 4096));
    }
    let mut bytes = vec![0; 4096];
    held.read(0, &mut bytes).unwrap();
    assert!(bytes == stamped(4, 4096), "what is held was overwritten");
}

#[test]
fn an_item_that_was_dealt_to_who_left_is_not_read_again_by_who_comes() {
    let mut queue = queue(4, 8, Delivery::One, Flow::Full);
    let (mut first, handle, _) = attach_with_page(&mut queue);
    let (table, pool) = queue.descriptors();
    let mut shown = None;
    let keep = |page: &OwnedFd, bell: &OwnedFd| {
        shown = Some((page.duplicate().unwrap(), bell.duplicate().unwrap()));
        Ok::<(), Infallible>(())
    };
    // It has attached, and the producer has yet to hear of it.
    let mut second = Consumer::new(table, pool, keep).unwrap().unwrap();
    queue.push(b"dealt").unwrap();
    let mut item = Vec::new();
    assert!(first.pop(&mut item) && item == b"dealt");
    queue.dismiss(handle);
    let (page, bell) = shown.unwrap();
    queue.admit(&page, &bell).unwrap().unwrap();
    assert!(!second.pop(&mut item), "an item came twice");
}

#[test]
fn a_limit_beyond_the_clock_is_none() {
    let mut queue = queue(2, 8, Delivery::All, Flow::Full);
    let mut consumer = attach(&mut queue);
    queue.push_wait(b"item", Some(Duration::MAX)).unwrap();
    assert!(consumer.wait(Some(Duration::MAX)));
}
