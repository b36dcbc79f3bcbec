//! What it costs to read and write a region of another node: 64 MiB at once, and 8 bytes.
//!
//!     cargo run --release -p heliostat --example memory_of_node -- 2
//!
//! Two nodes of a cluster have to run (docs/cluster.md), and this program on the one that is not 2.

use std::time::Instant;

use heliostat::control;
use heliostat::memory::{Memory, Region};

const BYTES: usize = 64 << 20;
const TRANSFERS: usize = 7;
const ROUNDS: usize = 20;
const READS: usize = 500;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    control::configure_as_usual("memory_of_node");
    let node = std::env::args().nth(1).ok_or("which node?")?.parse()?;
    let region = Memory::open()?.on(node).allocate(BYTES as u64).make()?;
    if region.node().is_none() {
        return Err("that is this program's own node".into());
    }
    measure(&region)
}

fn measure(region: &Region) -> Result<(), Failure> {
    let (mut writes, mut reads, mut words) = (Vec::new(), Vec::new(), Vec::new());
    let mut found = vec![0; BYTES];
    for round in 0..TRANSFERS {
        let sent: Vec<u8> = (0..BYTES).map(|at| (at / 7 + round) as u8).collect();
        writes.push(time(1, || Ok(region.write(0, &sent)?))?);
        reads.push(time(1, || Ok(region.read(0, &mut found)?))?);
        assert!(found == sent);
    }
    let mut word = [0; 8];
    for _ in 0..ROUNDS {
        words.push(time(READS, || Ok(region.read(4096, &mut word)?))?);
    }
    println!("write of 64 MiB   {:8.0} MB/s", BYTES as f64 / median(&mut writes));
    println!("read of 64 MiB    {:8.0} MB/s", BYTES as f64 / median(&mut reads));
    println!("read of 8 bytes   {:8.1} us", median(&mut words));
    Ok(())
}

/// Microseconds of one, over many.
fn time(count: usize, mut one: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    let begun = Instant::now();
    for _ in 0..count {
        one()?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / count as f64)
}

fn median(all: &mut [f64]) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
