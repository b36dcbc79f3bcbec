//! The same jobs by one thread in plain Rust: what is right, and what a cluster has to be worth.

use std::fs::File;
use std::io::{Read, Write};
use std::time::Instant;

use crate::job::Job;
use crate::table::Table;
use crate::Failure;

const BLOCK_BYTES: usize = 16 << 20;

/// Does a job; returns the seconds that it took, from the file to the file.
///
/// # Errors
/// What the file system says.
pub fn run(job: Job, input: &str, output: &str) -> Result<f64, Failure> {
    let begun = Instant::now();
    let mut text = Vec::new();
    match job {
        Job::Count => {
            let table = count(&mut File::open(input)?)?;
            job.format(&table.entries(), &mut text);
        }
        Job::Sort => {
            let all = std::fs::read(input)?;
            job.format(&job.entries(&all, &mut Table::default()), &mut text);
        }
    }
    File::create(output)?.write_all(&text)?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Counts the words of a file block by block; the word that a block ends in begins the next one.
fn count(file: &mut File) -> Result<Table, Failure> {
    let (mut table, mut block, mut kept) = (Table::default(), vec![0; BLOCK_BYTES], 0);
    loop {
        let bytes = file.read(&mut block[kept..])?;
        let filled = kept + bytes;
        if bytes == 0 {
            table.count(&block[..filled]);
            return Ok(table);
        }
        let end = block[..filled].iter().rposition(|byte| Job::Count.is_end(*byte));
        let end = end.map_or(0, |at| at + 1);
        table.count(&block[..end]);
        block.copy_within(end..filled, 0);
        kept = filled - end;
        if kept == block.len() {
            block.resize(kept * 2, 0);
        }
    }
}
