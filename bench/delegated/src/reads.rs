//! Reads past every cache with many under way, and whole files through the cache.

use std::time::Instant;

use heliostat_abi::file::delegated::{OpKind, Pieces};
use heliostat_stub_file::{File, Piece, Transfer, Way};

use crate::{begin, Dice, Outcome, Place};

fn read(file: File, offset: u64, bytes: u32, slot: u64) -> Transfer {
    let pieces = Pieces::new(&[Piece { offset: slot * u64::from(bytes), bytes }]);
    let pieces = pieces.unwrap_or_default();
    Transfer { kind: OpKind::Read, file, offset, argument: 0, pieces, tag: slot, timeout_us: 0 }
}

/// What reads past every cache are like.
pub struct Reads {
    pub bytes: u32,
    /// How many are under way.
    pub depth: u64,
    /// The way that each has to take.
    pub way: Way,
}

/// Keeps reads under way; reads and bytes per second.
pub fn device(place: &Place, reads: &Reads, is_random: bool) -> Outcome {
    let Reads { bytes, depth, way } = *reads;
    let window = depth as usize * bytes as usize;
    let (mut session, file, length) = begin(&place.file, window, Some(way))?;
    let blocks = length / u64::from(bytes);
    let (mut dice, mut next) = (Dice(0x9e37_79b9_7f4a_7c15), 0);
    let mut offset = || {
        next += 1;
        u64::from(bytes) * if is_random { dice.below(blocks) } else { next % blocks }
    };
    let first: Vec<Transfer> = (0..depth).map(|slot| read(file, offset(), bytes, slot)).collect();
    session.submit(&first)?;
    let (mut done, began) = (0u64, Instant::now());
    let mut again = Vec::with_capacity(depth as usize);
    while began.elapsed() < place.seconds {
        let mut found = Some(session.wait(None)?);
        while let Some(completion) = found {
            if completion.result != i64::from(bytes) || completion.way != way {
                return Err(format!("a read ended as {completion:?}").into());
            }
            done += 1;
            again.push(read(file, offset(), bytes, completion.tag));
            found = session.reap()?;
        }
        session.submit(&again)?;
        again.clear();
    }
    let seconds = began.elapsed().as_secs_f64();
    let (rate, bandwidth) = (done as f64 / seconds, done as f64 * f64::from(bytes) / seconds);
    Ok(format!("{{\"reads_per_s\": {rate:.0}, \"bytes_per_s\": {bandwidth:.0}}}"))
}

/// Keeps `depth` cached reads of a file's start under way; bytes per second.
pub fn flood(place: &Place, bytes: u32, depth: u64) -> Outcome {
    let (mut session, file, _) = begin(&place.file, bytes as usize, None)?;
    let reads: Vec<Transfer> =
        (0..depth).map(|tag| Transfer { tag, ..read(file, 0, bytes, 0) }).collect();
    session.submit(&reads)?;
    let (mut done, began) = (0u64, Instant::now());
    while began.elapsed() < place.seconds {
        let completion = session.wait(None)?;
        if completion.result != i64::from(bytes) {
            return Err(format!("a read ended as {completion:?}").into());
        }
        done += 1;
        session.submit(&reads[..1])?;
    }
    let bandwidth = done as f64 * f64::from(bytes) / began.elapsed().as_secs_f64();
    Ok(format!("{{\"reads\": {done}, \"bytes_per_s\": {bandwidth:.0}}}"))
}

/// Reads a whole file in order so many times, and how many reads found it in the cache.
pub fn scan(path: &str, bytes: u32, passes: u64) -> Outcome {
    let (mut session, file, length) = begin(path, bytes as usize, None)?;
    let (mut cached, mut all) = (0u64, 0u64);
    let began = Instant::now();
    for at in (0..passes).flat_map(|_| (0..length).step_by(bytes as usize)) {
        session.submit(&[read(file, at, bytes, 0)])?;
        let done = session.wait(None)?;
        if done.result <= 0 {
            return Err(format!("a read answered {}", done.result).into());
        }
        all += 1;
        cached += u64::from(done.way == Way::Cached);
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(format!("{{\"seconds\": {seconds:.3}, \"reads\": {all}, \"cached\": {cached}}}"))
}
