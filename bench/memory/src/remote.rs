//! A region of another node: one operation after the other, or many on their way at once.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_client::session;
use heliostat_stub_memory::{Memory, Region, Submission, Work};

use crate::{sampled, Dice, Kind, Outcome};

/// Long enough that places differ, short enough that every node has it.
const LENGTH: u64 = 16 << 20;
/// Where the numbers of the places begin.
const SEED: u64 = 88_172_645_463_325_252;

/// How many regions operations go to, and how long each is.
pub struct Many {
    pub count: usize,
    pub length: u64,
}

impl Default for Many {
    fn default() -> Many {
        Many { count: 1, length: LENGTH }
    }
}

/// Has a node make a region there.
fn region_on(memory: &Memory, node: u64, length: u64) -> Result<Region, Box<dyn Error>> {
    let region = memory.allocate(length).make()?;
    // Pages come to be. A long one takes long, and one request does not wait for ever.
    for at in (0..length).step_by(LENGTH as usize) {
        region.set(at, LENGTH.min(length - at), 1)?;
    }
    if region.node() != Some(node) {
        return Err(format!("the region is not of node {node}").into());
    }
    Ok(region)
}

fn memory_of(node: u64) -> Result<Memory, Box<dyn Error>> {
    session::configure(std::env::var("HELIOSTAT_SOCKET")?, "bench".into());
    Ok(Memory::open()?.on(node))
}

/// The median time of an operation, one after the other.
pub fn one_by_one(node: u64, (kind, bytes): (Kind, usize), many: Many, limit: Duration) -> Outcome {
    let memory = memory_of(node)?;
    let regions: Vec<Region> =
        (0..many.count).map(|_| region_on(&memory, node, many.length)).collect::<Result<_, _>>()?;
    let (mut buffer, mut dice) = (vec![1; bytes], Dice(SEED));
    let took = sampled(bytes, limit, || {
        let region = &regions[dice.below(regions.len() as u64) as usize];
        let at = dice.place(bytes, many.length);
        match kind {
            Kind::Read => region.read(at, &mut buffer),
            Kind::Write => region.write(at, &buffer),
            Kind::Add => region.fetch_add(at, 1).map(drop),
        }?;
        Ok(())
    })?;
    Ok(format!("{{\"ns\": {took:.1}}}"))
}

/// Has so many regions, says so, and is there until it is killed: one session has no more of them.
pub fn hold(node: u64, many: Many) -> Outcome {
    let memory = memory_of(node)?;
    let regions = (0..many.count).map(|_| region_on(&memory, node, many.length));
    let _regions: Vec<Region> = regions.collect::<Result<_, _>>()?;
    println!("ready");
    loop {
        std::thread::park();
    }
}

/// Operations a second with `depth` of them on their way. Their buffers are used again.
pub fn at_once(node: u64, (kind, bytes): (Kind, usize), depth: usize, limit: Duration) -> Outcome {
    let memory = memory_of(node)?;
    let region = Arc::new(region_on(&memory, node, LENGTH)?);
    let operations = memory.operations(depth);
    let (mut dice, mut spare) = (Dice(SEED), VecDeque::new());
    spare.extend((0..depth).map(|_| vec![1; bytes]));
    let (began, mut done) = (Instant::now(), 0u64);
    while began.elapsed() < limit {
        let submissions = spare.drain(..).map(|buffer| {
            let offset = dice.place(bytes, LENGTH);
            let work = match kind {
                Kind::Read => Work::Read { offset, into: buffer },
                Kind::Write => Work::Write { offset, from: buffer },
                Kind::Add => Work::FetchAdd { offset, more: 1 },
            };
            Submission::new(&region, work)
        });
        operations.submit_all(submissions.collect()).map_err(|it| it.error)?;
        let mut next = Some(operations.wait(None)?);
        while let Some(completed) = next {
            completed.result?;
            done += 1;
            spare.push_back(completed.bytes);
            next = operations.take();
        }
    }
    Ok(format!("{{\"rate\": {:.1}}}", done as f64 / began.elapsed().as_secs_f64()))
}
