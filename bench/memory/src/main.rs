//! One measurement of what a node or a cluster shares per call: regions, functions, locks.
//! `bench/suite/memory.py`, `cluster.py` and `isolation.py` put them together.
//!
//! ```text
//! region KIND BYTES REGIONS LENGTH SECONDS   operations one after the other, each in another region and
//!                                            at another place; KIND is read, write or add
//! copy KIND BYTES LENGTH SECONDS             the same in this process's own memory: memcpy, or a word
//! socket KIND BYTES SECONDS                  asked of another thread over a unix socket
//! node NODE KIND BYTES [REGIONS LENGTH] SECONDS
//!                                            regions of another node, one operation after the other
//! hold NODE REGIONS LENGTH 0                 so many regions of another node, and nothing done with them
//! rate NODE KIND BYTES DEPTH SECONDS         the same, so many on their way; operations a second
//! redis PORT KIND BYTES SECONDS              asked of Redis over TCP
//! redis-key PORT BYTES SECONDS               a key made with so many bytes, and deleted
//! redis-lock PORT SECONDS                    a key set where it is not, and deleted
//! redis-barrier PORT NAME ROUNDS SECONDS     two processes that wait for each other by a counter and a list
//! allocate NODE BYTES SECONDS                a region made and given back; node 0 is this one
//! map NODE BYTES SECONDS                     a region found by its name and given back
//! file BYTES SECONDS                         a file in memory made and removed
//! lock NODE SECONDS                          a lock acquired and released
//! barrier NODE NAME ROUNDS SECONDS           two processes that wait for each other, so long at most
//! serve NAME BYTES 0                         a function that answers with 8 bytes
//! call NODE NAME BYTES SECONDS               calls of it, one after the other
//! calls NODE NAME BYTES DEPTH SECONDS        the same, so many on the way; calls a second
//! stay NODE NAME CALLS 0                     so many calls, and then nothing
//! reader NODE NAME SECONDS                   reads of a word on another node, over time
//! writer NODE NAME DEPTH SECONDS             writes of 256 KiB there, so many on the way at once
//! ```
//! The control plane is where HELIOSTAT_SOCKET says; whether it is direct, it says. Each prints one line
//! of JSON with the median time of an operation.
#![forbid(unsafe_code)]

mod costs;
mod isolation;
mod lock;
mod own;
mod redis;
mod remote;
mod rpc;

use std::error::Error;
use std::time::{Duration, Instant};

use heliostat_bench_report::median;
use heliostat_client::session;
use heliostat_stub_memory::{Memory, Region};

/// Operations of one sample: as many as take some microseconds or more.
const SAMPLE_BYTES: u64 = 64 * 1024;
const SAMPLE_MAX: u64 = 256;
/// Bytes of an operation that is a sample by itself.
pub const ONE_EACH: usize = SAMPLE_BYTES as usize;
/// Samples kept at most.
const SAMPLES_MAX: usize = 1_000_000;

/// One line of JSON.
pub type Outcome = Result<String, Box<dyn Error>>;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes out of it.
    Read,
    /// Bytes into it.
    Write,
    /// One more to a word.
    Add,
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((seconds, words)) = words.split_last() else {
        return Err("what is measured? see the head of bench/memory/src/main.rs".into());
    };
    let limit = Duration::from_secs_f64(seconds.parse()?);
    println!("{}", measured(words, limit)?);
    Ok(())
}

fn measured(words: &[&str], limit: Duration) -> Outcome {
    match *words {
        ["region", kind, bytes, regions, length] => {
            regions_of(what(kind, bytes)?, regions.parse()?, length.parse()?, limit)
        }
        ["copy", kind, bytes, length] => own::copy(what(kind, bytes)?, length.parse()?, limit),
        ["socket", kind, bytes] => own::socket(what(kind, bytes)?, limit),
        ["node", node, kind, bytes] => {
            let many = remote::Many::default();
            remote::one_by_one(node.parse()?, what(kind, bytes)?, many, limit)
        }
        ["node", node, kind, bytes, count, length] => {
            let many = remote::Many { count: count.parse()?, length: length.parse()? };
            remote::one_by_one(node.parse()?, what(kind, bytes)?, many, limit)
        }
        ["hold", node, count, length] => {
            let many = remote::Many { count: count.parse()?, length: length.parse()? };
            remote::hold(node.parse()?, many)
        }
        ["rate", node, kind, bytes, depth] => {
            remote::at_once(node.parse()?, what(kind, bytes)?, depth.parse()?, limit)
        }
        ["redis", port, kind, bytes] => redis::one_by_one(port.parse()?, what(kind, bytes)?, limit),
        ["reader", node, name] => isolation::read(node.parse()?, name, limit),
        ["writer", node, name, depth] => {
            isolation::write(node.parse()?, name, depth.parse()?, limit)
        }
        _ => of_services(words, limit),
    }
}

/// What is no transfer: functions, locks, and what it costs to make something.
fn of_services(words: &[&str], limit: Duration) -> Outcome {
    match *words {
        ["redis-key", port, bytes] => redis::keys(port.parse()?, bytes.parse()?, limit),
        ["redis-lock", port] => redis::locks(port.parse()?, limit),
        ["redis-barrier", port, name, rounds] => {
            redis::barrier(port.parse()?, name, rounds.parse()?)
        }
        ["allocate", node, bytes] => costs::allocate(node.parse()?, bytes.parse()?, limit),
        ["map", node, bytes] => costs::map(node.parse()?, bytes.parse()?, limit),
        ["file", bytes] => costs::file(bytes.parse()?, limit),
        ["lock", node] => lock::pairs(node.parse()?, limit),
        ["barrier", node, name, rounds] => {
            lock::barrier(node.parse()?, name, rounds.parse()?, limit)
        }
        ["serve", name, bytes] => rpc::serve(name, bytes.parse()?),
        ["call", node, name, bytes] => rpc::one_by_one(node.parse()?, name, bytes.parse()?, limit),
        ["calls", node, name, bytes, depth] => {
            rpc::at_once(node.parse()?, name, bytes.parse()?, depth.parse()?, limit)
        }
        ["stay", node, name, calls] => rpc::stay(node.parse()?, name, calls.parse()?),
        _ => Err("what is measured? see the head of bench/memory/src/main.rs".into()),
    }
}

/// An operation's kind and its bytes.
fn what(kind: &str, bytes: &str) -> Result<(Kind, usize), Box<dyn Error>> {
    let kind = match kind {
        "read" => Kind::Read,
        "write" => Kind::Write,
        "add" => Kind::Add,
        other => return Err(format!("no kind of operation: {other}").into()),
    };
    Ok((kind, bytes.parse()?))
}

/// Operations on `count` regions of so many bytes.
fn regions_of(
    (kind, bytes): (Kind, usize),
    count: usize,
    length: u64,
    limit: Duration,
) -> Result<String, Box<dyn Error>> {
    let socket = std::env::var("HELIOSTAT_SOCKET")?;
    session::configure(socket, "bench".into());
    let memory = Memory::open()?;
    let made: Result<Vec<Region>, _> = (0..count).map(|_| memory.allocate(length).make()).collect();
    let regions = made?;
    // Pages come to be, here and where they are mapped.
    regions.iter().try_for_each(|region| region.set(0, length, 1))?;
    let mut buffer = vec![1; bytes];
    let mut dice = Dice(88_172_645_463_325_252);
    let took = sampled(bytes, limit, || {
        let region = &regions[dice.below(regions.len() as u64) as usize];
        let at = dice.place(bytes, length);
        match kind {
            Kind::Read => region.read(at, &mut buffer),
            Kind::Write => region.write(at, &buffer),
            Kind::Add => region.fetch_add(at, 1).map(drop),
        }?;
        Ok(())
    })?;
    let is_direct = regions.iter().all(Region::is_direct);
    Ok(format!("{{\"ns\": {took:.1}, \"direct\": {is_direct}}}"))
}

/// The median time of an operation, in nanoseconds, over samples of several.
pub fn sampled(
    bytes: usize,
    limit: Duration,
    mut act: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let each = (SAMPLE_BYTES / bytes.max(1) as u64).clamp(1, SAMPLE_MAX);
    // The first is not counted: what is called for the first time takes longer.
    for _ in 0..each {
        act()?;
    }
    let (began, mut samples) = (Instant::now(), Vec::new());
    loop {
        let sent = Instant::now();
        for _ in 0..each {
            act()?;
        }
        samples.push(sent.elapsed().as_nanos() as f64 / each as f64);
        if began.elapsed() >= limit || samples.len() >= SAMPLES_MAX {
            break;
        }
    }
    Ok(median(&samples))
}

/// Numbers that look random, the same in each run.
pub struct Dice(pub u64);

impl Dice {
    /// Returns one below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }

    /// Returns where so many bytes lie in so many, at a multiple of 8.
    pub fn place(&mut self, bytes: usize, length: u64) -> u64 {
        self.below(length.saturating_sub(bytes as u64) / 8 + 1) * 8
    }
}
