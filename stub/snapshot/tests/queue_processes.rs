//! Queues between processes: stamps in every 4 KiB, slow, stopped and killed consumers, a producer
//! that is killed at any instruction.

use std::convert::Infallible;
use std::time::Duration;

use heliostat_stub_snapshot::queue::{Consumer, Delivery, Flow, Queue, QueueError, Settings};
use heliostat_stub_snapshot::ConsumerHandle;

const LEN: usize = 64 << 10;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

/// Runs `child` in a forked process, which ends with its answer; the parent gets its pid.
fn forked(child: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child runs the test's own code only and ends by _exit; it never returns into the
    // test harness.
    unsafe {
        match libc::fork() {
            0 => {
                let is_fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
                libc::_exit(if matches!(is_fine, Ok(true)) { 0 } else { 1 });
            }
            pid => pid,
        }
    }
}

fn waited(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: a child of ours, and a live word for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: kill takes no pointer.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

fn queue(delivery: Delivery, flow: Flow) -> Queue {
    let settings = Settings { slots: 4, item_bytes: LEN as u64, delivery, flow, generation: 1 };
    Queue::new(settings).unwrap()
}

fn attach(queue: &mut Queue) -> (Consumer, ConsumerHandle) {
    let (table, pool) = queue.descriptors();
    let (table, pool) = (table.duplicate().unwrap(), pool.duplicate().unwrap());
    let mut handle = None;
    let announce = |page: &_, bell: &_| {
        handle = queue.admit(page, bell).unwrap();
        Ok::<(), Infallible>(())
    };
    (Consumer::new(&table, &pool, announce).unwrap().unwrap(), handle.unwrap())
}

/// Writes an item in place, its number in every 4 KiB.
fn push(queue: &mut Queue, number: u64) -> Result<u64, QueueError> {
    let slot = queue.reserve()?;
    for page in (0..LEN).step_by(4096) {
        slot.write(page, &number.to_le_bytes()).unwrap();
    }
    slot.commit(LEN)
}

/// The number of the next item, read in place twice over; every stamp has to say the same.
fn pop(consumer: &mut Consumer) -> Option<u64> {
    let item = consumer.take()?;
    assert_eq!(item.len(), LEN);
    let stamp = |page| {
        let mut stamp = [0; 8];
        item.read(page, &mut stamp).unwrap();
        u64::from_le_bytes(stamp)
    };
    let first = stamp(0);
    for _ in 0..2 {
        assert!((0..LEN).step_by(4096).all(|page| stamp(page) == first), "a torn item");
    }
    Some(first)
}

/// Reads until `last` has come; true when order held, and nothing was missed unless allowed.
fn reads(mut consumer: Consumer, last: u64, may_miss: bool, nap: Duration) -> bool {
    let mut seen = 0;
    while seen < last {
        while let Some(number) = pop(&mut consumer) {
            assert!(number > seen && (may_miss || number == seen + 1), "{number} after {seen}");
            seen = number;
            std::thread::sleep(nap);
        }
        consumer.wait(Some(Duration::from_millis(200)));
    }
    true
}

#[test]
fn eight_readers_see_every_item_whole_and_in_order() {
    let mut queue = queue(Delivery::All, Flow::Full);
    let readers: Vec<i32> = (0..8)
        .map(|at| {
            let (consumer, _) = attach(&mut queue);
            let nap = Duration::from_micros(if at == 0 { 300 } else { 0 });
            forked(move || reads(consumer, 300, false, nap))
        })
        .collect();
    for number in 1..=300 {
        while push(&mut queue, number).is_err() {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    assert!(readers.into_iter().all(|pid| waited(pid) == 0));
}

#[test]
fn an_overwriting_producer_is_never_held_up_by_stopped_killed_and_slow_readers() {
    let mut queue = queue(Delivery::All, Flow::Overwrite);
    let pids: Vec<i32> = (0..4)
        .map(|at| {
            let (consumer, _) = attach(&mut queue);
            let last = if at < 2 { u64::MAX } else { 3000 };
            let nap = Duration::from_micros(if at == 3 { 2000 } else { 0 });
            forked(move || reads(consumer, last, true, nap))
        })
        .collect();
    for number in 1..=3000 {
        push(&mut queue, number).unwrap();
        match number {
            1000 => kill(pids[0], libc::SIGSTOP),
            1500 => kill(pids[1], libc::SIGKILL),
            _ => {}
        }
    }
    assert_eq!((waited(pids[2]), waited(pids[3])), (0, 0));
    for pid in &pids[..2] {
        // SAFETY: kill takes no pointer; one of both is a zombie already.
        unsafe { libc::kill(*pid, libc::SIGKILL) };
        waited(*pid);
    }
}

#[test]
fn a_stopped_reader_holds_a_full_queue_up_until_it_is_expelled() {
    let mut queue = queue(Delivery::All, Flow::Full);
    let (stopped, _) = attach(&mut queue);
    let pid = forked(move || reads(stopped, u64::MAX, true, Duration::ZERO));
    kill(pid, libc::SIGSTOP);
    let mut status = 0;
    // SAFETY: a child of ours, and a live word for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, libc::WUNTRACED) }, pid);
    let (mut reader, _) = attach(&mut queue);
    let mut number = 1;
    while push(&mut queue, number).is_ok() {
        assert_eq!(pop(&mut reader), Some(number));
        number += 1;
    }
    assert_eq!((number, queue.expel_laggards()), (5, 1));
    for number in 5..500 {
        push(&mut queue, number).unwrap();
        assert_eq!(pop(&mut reader), Some(number));
    }
    kill(pid, libc::SIGKILL);
    waited(pid);
}

#[test]
fn a_producer_killed_at_any_instruction_leaves_whole_items_only() {
    for round in 0..8 {
        let mut queue = queue(Delivery::All, Flow::Overwrite);
        let (mut consumer, _) = attach(&mut queue);
        let producer = forked(|| {
            for number in 1.. {
                push(&mut queue, number).unwrap();
            }
            false
        });
        assert!(consumer.wait(PATIENCE));
        std::thread::sleep(Duration::from_micros(200 * round));
        kill(producer, libc::SIGKILL);
        waited(producer);
        let (mut seen, mut count) = (0, 0);
        while let Some(number) = pop(&mut consumer) {
            assert!(number > seen);
            (seen, count) = (number, count + 1);
        }
        assert!((1..=4).contains(&count), "{count} items of a window of 4");
    }
}

#[test]
fn a_producer_killed_between_reserve_and_commit_leaves_what_was_committed() {
    let mut queue = queue(Delivery::All, Flow::Full);
    let (mut consumer, _) = attach(&mut queue);
    let producer = forked(|| {
        push(&mut queue, 1).unwrap();
        let slot = queue.reserve().unwrap();
        slot.write(0, &[9; LEN]).unwrap();
        kill(std::process::id() as i32, libc::SIGKILL);
        false
    });
    waited(producer);
    assert_eq!((pop(&mut consumer), pop(&mut consumer)), (Some(1), None));
}
