//! Programs with regions that are spread over nodes, as `programs.rs` has them with ordinary ones.

use std::collections::HashMap;

use heliostat_abi::code::Code;
use heliostat_abi::memory::spread::{Directory, SpreadHead, SpreadPart, SpreadState, HEAD_BYTES};
use heliostat_stub_memory::{Memory, Region, Rights, SpreadError, SpreadRegion, Work};

use super::programs::{number, pattern, play_with, rights, told as told_of_memory};

/// What a generation is that a test makes up.
const MADE_UP: u64 = 77;

/// A program's part.
pub fn play() {
    play_with(|| {
        let memory = Memory::open().unwrap();
        let mut actor = Spreader { memory, regions: HashMap::new(), kept: Vec::new() };
        move |words: &[&str]| actor.act(words).unwrap_or_else(|error| told(&error))
    });
}

fn told(error: &SpreadError) -> String {
    match error {
        SpreadError::Memory(error) => told_of_memory(error),
        SpreadError::Part { node, from, to, why } => {
            let why = told_of_memory(why);
            format!("error part on {node} with {from}..{to}: {}", why.trim_start_matches("error "))
        }
        SpreadError::Range { limit, .. } => format!("error range {limit}"),
        SpreadError::Misaligned { .. } => "error misaligned".into(),
        SpreadError::Nodes { given, .. } => format!("error nodes {given}"),
        SpreadError::Taken { .. } => "error taken".into(),
        SpreadError::Unfinished { node } => format!("error unfinished {node}"),
        SpreadError::Corrupt { node } => format!("error corrupt {node}"),
        SpreadError::Held { node } => format!("error held {node}"),
    }
}

struct Spreader {
    memory: Memory,
    regions: HashMap<String, SpreadRegion>,
    /// Ordinary regions that a test holds.
    kept: Vec<Region>,
}

impl Spreader {
    fn act(&mut self, words: &[&str]) -> Result<String, SpreadError> {
        let done = || Ok("done".to_owned());
        match *words {
            ["spread", key, bytes, nodes, ref rest @ ..] => {
                let made = self.make(number(bytes), &numbers(nodes), rest)?;
                self.keep(key, made)
            }
            ["map", key, name, what] => {
                let mapped = self.memory.map_spread(name, rights(what))?;
                self.keep(key, mapped)
            }
            ["drop", key] => {
                self.regions.remove(key).unwrap();
                done()
            }
            ["free", key] => {
                self.regions.remove(key).unwrap().free()?;
                done()
            }
            ["free_held", key] => {
                let region = self.regions.remove(key).unwrap();
                let held = region.reads(0, 8)?;
                let freed = region.free();
                drop(held);
                freed.map(|()| "done".into())
            }
            ["copy", key, offset, into, at, bytes] => {
                let into = &self.regions[into];
                self.regions[key].copy_to(number(offset), into, number(at), number(bytes))?;
                done()
            }
            ["later", key, seed, offset, len] => {
                self.later(&self.regions[key], [seed, offset, len])
            }
            ["remains", nodes, name, state, ref rest @ ..] => self.leave(nodes, name, state, rest),
            ["let_go"] => {
                self.kept.clear();
                done()
            }
            ["plain", name, bytes] => {
                let made = self.memory.allocate(number(bytes)).name(name).make()?;
                self.kept.push(made);
                done()
            }
            ["again", name, bytes, nodes] => loop {
                let made = self.make(number(bytes), &numbers(nodes), &["lasting", name])?;
                made.write(0, &pattern(1, 0, number(bytes)))?;
                made.free()?;
            },
            ["until", name, bytes, nodes] => {
                Ok(self.make_at_last(name, number(bytes), &numbers(nodes)))
            }
            [_, key, ..] => on(&self.regions[key], words),
            _ => panic!("{words:?}"),
        }
    }

    fn make(&self, bytes: u64, nodes: &[u64], rest: &[&str]) -> Result<SpreadRegion, SpreadError> {
        let mut asked = self.memory.spread(bytes, nodes);
        for word in rest {
            asked = match word.split_once('=') {
                Some(("others", what)) => asked.others(rights(what)),
                None if *word == "lasting" => asked.lasting(),
                _ => asked.name(word),
            };
        }
        asked.make()
    }

    /// Makes it as soon as nobody is at it any more: its last maker was killed a moment ago.
    fn make_at_last(&mut self, name: &str, bytes: u64, nodes: &[u64]) -> String {
        let begun = std::time::Instant::now();
        loop {
            match self.make(bytes, nodes, &["lasting", name]) {
                Ok(made) => {
                    self.regions.insert("last".into(), made);
                    return "made".into();
                }
                Err(error) if is_early(&error) && begun.elapsed() < super::WATCHDOG => {
                    // A region that was whole when its maker died is there, for who wants it.
                    if let Ok(found) = self.memory.map_spread(name, Rights::ALL) {
                        let _ = found.free();
                    }
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                Err(error) => return told(&error),
            }
        }
    }

    fn keep(&mut self, key: &str, region: SpreadRegion) -> Result<String, SpreadError> {
        let told = parts(&region);
        self.regions.insert(key.into(), region);
        Ok(told)
    }

    /// Writes, then reads, by operations that complete later.
    fn later(&self, region: &SpreadRegion, words: [&str; 3]) -> Result<String, SpreadError> {
        let [seed, offset, len] = words.map(number);
        let operations = self.memory.operations(1000);
        let batch = |all| operations.submit_batch(all).map_err(|refused| refused.error);
        let bytes = pattern(seed, offset, len);
        for written in batch(region.writes(offset, &bytes)?)?.wait() {
            written.result?;
        }
        let read = batch(region.reads(offset, len)?)?.wait();
        let all: Result<Vec<_>, _> =
            read.into_iter().map(|it| it.result.map(|_| it.bytes)).collect();
        let word = region.word(offset / 8 * 8, |offset| Work::Swap { offset, new: 5 })?;
        batch(vec![word])?.wait();
        let old = region.fetch_add(offset / 8 * 8, 0)?;
        Ok(format!("{} {old}", if all?.concat() == bytes { "same" } else { "different" }))
    }

    /// Leaves parts as a program does that has died on the way. `kept` holds handles on them; parts of
    /// nodes in `-` are none.
    fn leave(
        &mut self,
        nodes: &str,
        name: &str,
        state: &str,
        rest: &[&str],
    ) -> Result<String, SpreadError> {
        let (nodes, each) = (numbers(nodes), 4096);
        let missing = rest.iter().find_map(|word| word.strip_prefix('-')).map(numbers);
        let mut made = Vec::new();
        for node in &nodes {
            let memory = self.memory.on(*node);
            made.push(memory.allocate(HEAD_BYTES as u64 + each).lasting().make()?);
        }
        let listed = (0..).zip(nodes.iter().zip(&made)).map(|(at, (node, region))| {
            let bytes = at * each..(at + 1) * each;
            SpreadPart { node: *node, region: region.id(), bytes }
        });
        let directory = Directory { generation: MADE_UP, parts: listed.collect() };
        for (number, (node, region)) in nodes.iter().zip(made).enumerate() {
            if missing.as_ref().is_some_and(|missing| missing.contains(node)) {
                region.free()?;
                continue;
            }
            let state = match state {
                "making" => SpreadState::Making,
                "freed" => SpreadState::Freed,
                // All but the first.
                "half" if number == 0 => SpreadState::Making,
                "half_freed" if number == 0 => SpreadState::Freed,
                _ => SpreadState::Ready,
            };
            let head = SpreadHead { state, number, directory: directory.clone() };
            region.write(0, &head.encode())?;
            region.rename(Some(&format!("{name}.spread")), Rights::NONE)?;
            if rest.contains(&"kept") {
                self.kept.push(region);
            }
        }
        Ok("done".into())
    }
}

/// Where a region's bytes lie; parts with `!` are lost.
fn parts(region: &SpreadRegion) -> String {
    let parts = region.parts();
    let told = parts.iter().map(|part| {
        let lost = if part.lost.is_some() { "!" } else { "" };
        format!("{}:{}..{}{lost}", part.node, part.bytes.start, part.bytes.end)
    });
    told.collect::<Vec<_>>().join(" ")
}

/// What is about one region.
fn on(region: &SpreadRegion, words: &[&str]) -> Result<String, SpreadError> {
    match *words {
        ["size", _] => return Ok(region.size().to_string()),
        ["parts", _] => return Ok(parts(region)),
        ["move_part", _, part, node] => {
            let part = number(part) as usize;
            let moved = region.part(part)?.move_to(number(node));
            moved.map_err(|why| region.error_of(part, why))?;
        }
        ["check", _, seed, offset, len] => {
            let mut found = vec![0; number(len) as usize];
            region.read(number(offset), &mut found)?;
            let is_same = found == pattern(number(seed), number(offset), number(len));
            return Ok(if is_same { "same" } else { "different" }.into());
        }
        ["zeros", _, offset, len] => {
            let mut found = vec![1; number(len) as usize];
            region.read(number(offset), &mut found)?;
            return Ok(if found.iter().all(|it| *it == 0) { "zeros" } else { "others" }.into());
        }
        ["fill", _, seed, offset, len] => {
            region.write(number(offset), &pattern(number(seed), number(offset), number(len)))?;
        }
        ["pieces", _, seed, count, stride, len] => {
            return pieces(region, [seed, count, stride, len].map(number));
        }
        ["set", _, offset, bytes, value] => {
            region.set(number(offset), number(bytes), number(value) as u8)?;
        }
        ["add", _, offset, more, times] => {
            let mut old = 0;
            for _ in 0..number(times) {
                old = region.fetch_add(number(offset), number(more))?;
            }
            return Ok(old.to_string());
        }
        ["compare_swap", _, offset, expected, new] => {
            let old = region.compare_swap(number(offset), number(expected), number(new))?;
            return Ok(old.to_string());
        }
        ["mapped", _, offset, bytes] => {
            let mapped = region.mapped(number(offset), number(bytes))?;
            return Ok(if mapped.is_some() { "mapped" } else { "not mapped" }.into());
        }
        _ => panic!("{words:?}"),
    }
    Ok("done".into())
}

/// Writes pieces by one call and reads them by another.
fn pieces(
    region: &SpreadRegion,
    [seed, count, stride, len]: [u64; 4],
) -> Result<String, SpreadError> {
    let written: Vec<_> =
        (0..count).map(|at| (at * stride, pattern(seed, at * stride, len))).collect();
    let from: Vec<_> = written.iter().map(|(at, it)| (*at, &it[..])).collect();
    region.write_vectored(&from)?;
    let mut found: Vec<_> = (0..count).map(|at| (at * stride, vec![0; len as usize])).collect();
    let mut into: Vec<_> = found.iter_mut().map(|(at, it)| (*at, &mut it[..])).collect();
    region.read_vectored(&mut into)?;
    Ok(if found == written { "same" } else { "different" }.into())
}

/// Whether nodes have not heard yet that somebody has died, and so have not given back what that had.
fn is_early(error: &SpreadError) -> bool {
    match error {
        SpreadError::Unfinished { .. } | SpreadError::Taken { .. } => true,
        SpreadError::Part { why, .. } => why.refusal() == Some(Code::Full),
        _ => false,
    }
}

fn numbers(text: &str) -> Vec<u64> {
    text.split(',').map(number).collect()
}
