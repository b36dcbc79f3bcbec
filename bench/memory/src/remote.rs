//! A region of another node: one operation after the other, or many on their way at once.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_client::session;
use heliostat_stub_memory::{Memory, Region, Submission, Work};

use crate::{sampled, Dice, Kind};

type Outcome = Result<String, Box<dyn Error>>;

/// Long enough that places differ, short enough that every node has it.
const LENGTH: u64 = 16 << 20;
/// Where the numbers of the places begin.
const SEED: u64 = 88_172_645_463_325_252;

/// Has a node make a region there. Operations on it go together only by the same connection.
fn region_on(node: u64) -> Result<(Memory, Region), Box<dyn Error>> {
    session::configure(std::env::var("HELIOSTAT_SOCKET")?, "bench".into());
    let memory = Memory::open()?.on(node);
    let region = memory.allocate(LENGTH).make()?;
    // Pages come to be.
    region.set(0, LENGTH, 1)?;
    if region.node() != Some(node) {
        return Err(format!("the region is not of node {node}").into());
    }
    Ok((memory, region))
}

/// The median time of an operation, one after the other.
pub fn one_by_one(node: u64, (kind, bytes): (Kind, usize), limit: Duration) -> Outcome {
    let (_memory, region) = region_on(node)?;
    let (mut buffer, mut dice) = (vec![1; bytes], Dice(SEED));
    let took = sampled(bytes, limit, || {
        let at = dice.place(bytes, LENGTH);
        match kind {
            Kind::Read => region.read(at, &mut buffer),
            Kind::Write => region.write(at, &buffer),
            Kind::Add => region.fetch_add(at, 1).map(drop),
        }?;
        Ok(())
    })?;
    Ok(format!("{{\"ns\": {took:.1}}}"))
}

/// Operations a second with `depth` of them on their way. Their buffers are used again.
pub fn at_once(node: u64, (kind, bytes): (Kind, usize), depth: usize, limit: Duration) -> Outcome {
    let (memory, region) = region_on(node)?;
    let (region, operations) = (Arc::new(region), memory.operations(depth));
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
