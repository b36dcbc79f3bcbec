//! The producer: writes its plan, publishes every round, and hurts its consumers meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use heliostat_stub::snapshot::{Attachment, PublishError, Region};

use crate::child::Child;
use crate::consume::{follow, header};
use crate::memory::{Kind, Memory};
use crate::orders::{Chaos, Orders};
use crate::plan::{mix, Act, Plan, PAGE};
use crate::surgery::operate;
use crate::writes::Writer;

/// Rounds that a stopped consumer sleeps through.
const STOPPED_ROUNDS: u32 = 20;

/// One consumer: its process, and its place in the region.
struct Follower {
    child: Child,
    place: usize,
    stopped_in: Option<u32>,
}

/// The writing side: memory, plan, and the ways to write.
pub struct Pen {
    /// What versions are made of.
    pub memory: Memory,
    /// What is written.
    pub plan: Plan,
    writer: Writer,
    /// How often each way was used.
    used: BTreeMap<String, u64>,
}

impl Pen {
    /// Memory as ordered, and the plan for it.
    pub fn new(orders: &Orders) -> Result<Self, String> {
        let error = |error: std::io::Error| error.to_string();
        let memory = Memory::new(orders.memory, orders.bytes).map_err(error)?;
        let (seed, pages) = (orders.seed, orders.bytes / PAGE);
        let (least, surgery) = (orders.least, memory.allows_surgery());
        let plan = Plan { seed, pages, least, surgery };
        let writer = Writer::new().map_err(error)?;
        for (way, why) in &writer.missing {
            println!("skipped: writes by {way:?}: {why}");
        }
        Ok(Self { memory, plan, writer, used: BTreeMap::new() })
    }

    /// Writes one round, and its head for the version that comes next.
    pub fn write(&mut self, region: &mut Region, round: u32, number: u64) -> Result<(), String> {
        let says = region.engine() == "declared";
        let (plan, memory) = (self.plan, self.memory);
        for (page, act) in plan.acts(round) {
            let fail = |error: std::io::Error| format!("{act:?} of page {page}: {error}");
            let name = if let Act::Write(luck) = act {
                let at = memory.page(page);
                let way = self.writer.way(luck, at);
                self.writer.stamp(&plan, (round, page), at, way).map_err(fail)?;
                format!("{way:?}")
            } else {
                operate(&memory, page, act).map_err(fail)?;
                format!("{act:?}")
            };
            *self.used.entry(name).or_default() += 1;
            // In a file's private mapping the kernel keeps a dropped page's mark of not written.
            if says || (act == Act::Drop && memory.kind == Kind::File) {
                declare(region, page)?;
            }
        }
        let head = memory.page(0).cast::<u64>();
        for (at, word) in header(&plan, round, number).into_iter().enumerate() {
            // SAFETY: three words of page 0, which this thread alone writes.
            unsafe { head.add(at).write_volatile(word) };
        }
        if says {
            declare(region, 0)?;
        }
        Ok(())
    }
}

fn declare(region: &mut Region, page: usize) -> Result<(), String> {
    region.declare(page * PAGE..(page + 1) * PAGE).map_err(|error| error.to_string())
}

/// A region over the pen's memory.
pub fn region(orders: &Orders, pen: &Pen) -> Result<Region, String> {
    let region = Region::new(pen.memory.live(), orders.settings());
    let region = region.map_err(|error| error.to_string())?;
    match orders.expects.as_deref() {
        Some(wanted) if wanted != region.engine() => {
            Err(format!("the engine is {}, and {wanted} was expected", region.engine()))
        }
        _ => Ok(region),
    }
}

/// Writes, publishes and hurts, as ordered; every consumer must have seen nothing but the truth.
pub fn run(orders: &Orders) -> Result<(), String> {
    let mut pen = Pen::new(orders)?;
    let mut region = region(orders, &pen)?;
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
        let (attachment, place) = attach(region)?;
        let (plan, memory) = (pen.plan, pen.memory);
        let habit = orders.habit(index);
        let child = Child::fork(|| {
            forget(&memory);
            follow(&attachment, plan, habit, &AtomicU64::new(0))
        });
        Ok(Self { child, place, stopped_in: None })
    }
}

/// A consumer needs no copy of the source, which it would keep alive.
fn forget(memory: &Memory) {
    if !matches!(memory.kind, Kind::Malloc | Kind::Stack) {
        // SAFETY: the child's own copy of a mapping that it never looks at.
        unsafe { libc::munmap(memory.start as *mut _, memory.len) };
    }
}

fn attach(region: &mut Region) -> Result<(Attachment, usize), String> {
    let (table, pool) = region.descriptors();
    let copies = (table.duplicate(), pool.duplicate());
    let (Ok(table), Ok(pool)) = copies else { return Err("out of descriptors".into()) };
    let mut place = None;
    let announced = Attachment::new(&table, pool, |pins| {
        place = region.admit(pins).map_err(|error| error.to_string())?;
        Ok::<(), String>(())
    });
    let attachment = announced.map_err(|error| error.to_string())??;
    Ok((attachment, place.ok_or("no room for a consumer")?))
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
            region.dismiss(old.place);
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
    if pen.memory.kind == Kind::Shared {
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

/// Writes by a ring whose buffer was pinned before the region was watched: declared, they are
/// seen. Answers whether they are without.
pub fn pinned(orders: &Orders) -> Result<(), String> {
    let mut ring = match crate::uring::Uring::new() {
        Ok(ring) => ring,
        Err(why) => {
            println!("skipped: io_uring: {why}");
            return Ok(());
        }
    };
    let pen = Pen::new(orders)?;
    let error = |error: std::io::Error| error.to_string();
    let (at, len) = (pen.memory.page(8), 4 * PAGE);
    ring.register(at, len).map_err(error)?;
    let mut region = region(orders, &pen)?;
    let (consumer, _) = attach(&mut region)?;
    let publish = |region: &mut Region| region.publish().map_err(|error| error.to_string());
    publish(&mut region)?;
    let mut write = |byte: u8| {
        let (mut ends, bytes) = ([-1; 2], [byte; 64]);
        // SAFETY: a live array of two descriptors, and 64 live bytes.
        let wrote = unsafe {
            libc::pipe(ends.as_mut_ptr());
            libc::write(ends[1], bytes.as_ptr().cast(), bytes.len())
        };
        ring.read(ends[0], at, wrote as usize, true).map_err(error)
    };
    let seen = |byte: u8| {
        let version = consumer.latest().map_err(|error| error.to_string())?;
        let mut found = [0];
        version.read(8 * PAGE, &mut found).map_err(|error| error.to_string())?;
        Ok::<bool, String>(found[0] == byte)
    };
    write(1)?;
    publish(&mut region)?;
    println!("undeclared: {}", if seen(1)? { "seen" } else { "invisible" });
    write(2)?;
    region.declare(8 * PAGE..9 * PAGE).map_err(|error| error.to_string())?;
    publish(&mut region)?;
    match seen(2)? {
        true => println!("declared: seen"),
        false => return Err("a declared write is not in the version".into()),
    }
    Ok(())
}
