//! The producer: writes its plan, publishes every round, and hurts its consumers meanwhile.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use heliostat_stub_snapshot::{Attachment, ConsumerHandle, PublishError, Region};

use crate::child::Child;
use crate::consume::follow;
use crate::memory::{Memory, MemoryKind};
use crate::orders::{Chaos, Orders};
use crate::pen::{self, Pen};
use crate::plan::mix;

/// Rounds that a stopped consumer sleeps through.
const STOPPED_ROUNDS: u32 = 20;

/// One consumer: its process, and its handle at the region.
struct Follower {
    child: Child,
    handle: ConsumerHandle,
    stopped_in: Option<u32>,
}

/// Writes, publishes and hurts, as ordered; every consumer must have seen nothing but the truth.
pub fn run(orders: &Orders) -> Result<(), String> {
    let (mut pen, mut region) = pen::begin(orders)?;
    let mut followers = Vec::new();
    for index in 0..orders.consumers {
        followers.push(Follower::start(orders, &pen, &mut region, index)?);
    }
    let (mut number, mut round, mut full) = (0, 0, 0);
    let ends = std::time::Instant::now() + orders.time;
    while round < orders.rounds || std::time::Instant::now() < ends {
        round += 1;
        pen.write(&mut region, round, number + 1)?;
        match region.publish() {
            Ok(done) if done.has_raced == Some(true) => return Err("nobody raced".into()),
            Ok(done) => number = done.number,
            Err(PublishError::Full { .. }) if !orders.has_room() => full += 1,
            Err(error) => return Err(format!("round {round}: {error}")),
        }
        hurt(orders, &pen, &mut region, &mut followers, round)?;
        std::thread::sleep(Duration::from_micros(mix(orders.seed ^ u64::from(round)) % 1500));
    }
    last_round(&mut pen, &mut region, &mut followers, round + 1, number + 1)?;
    let (engine, metrics) = (region.engine(), region.metrics());
    drop(region);
    wake(&mut followers);
    let bad = followers.into_iter().map(|it| it.child.wait()).filter(|it| *it != 0);
    match bad.count() {
        0 => println!("whole: {engine}, {round} rounds, {full} full, {metrics:?}, {:?}", pen.used),
        bad => return Err(format!("{bad} consumers saw something wrong")),
    }
    Ok(())
}

/// A round that must find room, so that every consumer ends with it.
fn last_round(
    pen: &mut Pen,
    region: &mut Region,
    followers: &mut [Follower],
    round: u32,
    number: u64,
) -> Result<(), String> {
    pen.write(region, round, number)?;
    loop {
        match region.publish() {
            Ok(_) => return Ok(()),
            Err(PublishError::Full { .. }) => wake(followers),
            Err(error) => return Err(error.to_string()),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn wake(followers: &mut [Follower]) {
    followers.iter_mut().for_each(|follower| {
        follower.child.signal(libc::SIGCONT);
        follower.stopped_in = None;
    });
}

impl Follower {
    fn start(
        orders: &Orders,
        pen: &Pen,
        region: &mut Region,
        index: usize,
    ) -> Result<Self, String> {
        let (attachment, handle) = attach(region)?;
        let (plan, memory) = (pen.plan, pen.memory);
        let habit = orders.habit(index);
        let child = Child::fork(|| {
            forget(&memory);
            follow(&attachment, plan, habit, &AtomicU64::new(0))
        });
        Ok(Self { child, handle, stopped_in: None })
    }
}

/// A consumer needs no copy of the source, which it would keep alive.
fn forget(memory: &Memory) {
    if !matches!(memory.kind, MemoryKind::Malloc | MemoryKind::Stack | MemoryKind::Region) {
        // SAFETY: the child's own copy of a mapping that it never looks at.
        unsafe { libc::munmap(memory.start as *mut _, memory.len) };
    }
}

/// A consumer of `region` in this process, and its handle.
pub fn attach(region: &mut Region) -> Result<(Attachment, ConsumerHandle), String> {
    let (table, pool) = region.descriptors();
    let copies = (table.duplicate(), pool.duplicate());
    let (Ok(table), Ok(pool)) = copies else { return Err("out of descriptors".into()) };
    let mut handle = None;
    let announced = Attachment::new(&table, pool, |pins| {
        handle = region.admit(pins).map_err(|error| error.to_string())?;
        Ok::<(), String>(())
    });
    let attachment = announced.map_err(|error| error.to_string())??;
    Ok((attachment, handle.ok_or("no room for a consumer")?))
}

/// What happens to the consumers, and to the producer, after a round.
fn hurt(
    orders: &Orders,
    pen: &Pen,
    region: &mut Region,
    followers: &mut [Follower],
    round: u32,
) -> Result<(), String> {
    let luck = mix(orders.seed ^ 0xdead ^ u64::from(round));
    for follower in followers.iter_mut() {
        if follower.stopped_in.is_some_and(|since| since + STOPPED_ROUNDS < round) {
            follower.child.signal(libc::SIGCONT);
            follower.stopped_in = None;
        }
    }
    if orders.chaos == Chaos::None || followers.is_empty() {
        return Ok(());
    }
    let index = (luck >> 8) as usize % followers.len();
    match luck % 24 {
        0 | 1 => {
            let fresh = Follower::start(orders, pen, region, index)?;
            let old = std::mem::replace(&mut followers[index], fresh);
            old.child.kill();
            region.dismiss(old.handle);
        }
        2 => {
            followers[index].child.signal(libc::SIGSTOP);
            followers[index].stopped_in = Some(round);
        }
        3 => scribbling_fork(pen),
        _ => {}
    }
    Ok(())
}

/// A fork of the producer writes its own copy of the memory: no version may show it.
fn scribbling_fork(pen: &Pen) {
    // Shared memory has no copy, and a region's own memory is not there in a fork.
    if matches!(pen.memory.kind, MemoryKind::Shared | MemoryKind::Region) {
        return;
    }
    let memory = pen.memory;
    let child = Child::fork(|| {
        for page in 0..pen.plan.pages.min(64) {
            // SAFETY: the child's own copy, in a process of one thread.
            unsafe { memory.page(page).cast::<u64>().write_volatile(0xbad) };
        }
        Ok(())
    });
    child.wait();
}
