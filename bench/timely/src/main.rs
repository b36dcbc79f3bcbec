//! Word count by timely dataflow on one machine, as `bench/suite/wordcount.py` compares it with ours.
//!
//! `heliostat-bench-timely table|map WORKERS INPUT OUTPUT`: each worker counts a share of the file, sends each
//! word with its count to the worker that it belongs to, and that one adds. `table` counts as our programs
//! do, so that what is compared is what is around it; `map` by the standard library's HashMap, as one would
//! write it first. Prints one line of JSON.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Instant;

use mapreduce::table::{Table, SPACE};
use timely::dataflow::operators::{Exchange, Input, Inspect, Probe};
use timely::dataflow::{InputHandle, ProbeHandle};

const BLOCK_BYTES: usize = 16 << 20;

type Counts = Vec<(Vec<u8>, u64)>;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [way, workers, input, output] = words.as_slice() else {
        return Err("heliostat-bench-timely table|map WORKERS INPUT OUTPUT".into());
    };
    let begun = Instant::now();
    let (is_table, input) = (way == "table", input.clone());
    let guards = timely::execute(timely::Config::process(workers.parse()?), move |worker| {
        let (index, peers) = (worker.index(), worker.peers());
        let counts = share(&input, index, peers, is_table).expect("the input is there");
        let totals = Rc::new(RefCell::new(HashMap::<Vec<u8>, u64>::new()));
        let (mut handle, probe, sums) = (InputHandle::new(), ProbeHandle::new(), totals.clone());
        worker.dataflow::<u64, _, _>(|scope| {
            scope
                .input_from(&mut handle)
                .container::<Vec<(Vec<u8>, u64)>>()
                .exchange(|(word, _)| hash(word))
                .inspect(move |(word, count)| add(&mut sums.borrow_mut(), word, *count))
                .probe_with(&probe);
        });
        counts.into_iter().for_each(|counted| handle.send(counted));
        handle.close();
        while !probe.done() {
            worker.step();
        }
        let sums: Counts = totals.borrow_mut().drain().collect();
        sums
    })?;
    let mut all = Counts::new();
    for guard in guards.join() {
        all.extend(guard?);
    }
    all.sort_unstable();
    let mut out = BufWriter::new(File::create(output)?);
    for (word, count) in all {
        out.write_all(&word)?;
        writeln!(out, "\t{count}")?;
    }
    out.flush()?;
    println!(r#"{{"seconds":{:.4}}}"#, begun.elapsed().as_secs_f64());
    Ok(())
}

/// The words of one worker's share of the file, with their counts.
fn share(path: &str, index: usize, peers: usize, is_table: bool) -> std::io::Result<Counts> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let border = |worker: usize| bytes * worker as u64 / peers as u64;
    let (mut at, end) = (word_end(&file, border(index))?, word_end(&file, border(index + 1))?);
    let (mut table, mut map, mut block) = (Table::default(), HashMap::new(), vec![0; BLOCK_BYTES]);
    while at < end {
        let read = file.read_at(&mut block, at)?.min((end - at) as usize);
        let cut = block[..read].iter().rposition(|byte| *byte <= SPACE).map_or(read, |cut| cut + 1);
        let text = &block[..if at + read as u64 == end { read } else { cut }];
        if is_table {
            table.count(text);
        } else {
            let words = text.split(|byte| *byte <= SPACE).filter(|word| !word.is_empty());
            words.for_each(|word| add(&mut map, word, 1));
        }
        at += text.len() as u64;
    }
    let with_key = |entry: &mapreduce::entry::Entry| {
        let mut key = Vec::new();
        entry.push_key(&mut key);
        (key, entry.count)
    };
    Ok(if is_table { table.entries().iter().map(with_key).collect() } else { map.into_iter().collect() })
}

/// Where the word ends that a share would begin or end in.
fn word_end(file: &File, mut at: u64) -> std::io::Result<u64> {
    let mut byte = [0];
    while at > 0 && file.read_at(&mut byte, at - 1)? == 1 && byte[0] > SPACE {
        at += 1;
    }
    Ok(at)
}

fn add(counts: &mut HashMap<Vec<u8>, u64>, word: &[u8], count: u64) {
    match counts.get_mut(word) {
        Some(known) => *known += count,
        None => drop(counts.insert(word.to_vec(), count)),
    }
}

fn hash(word: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    hasher.finish()
}
