//! Cached reads: one after the other, and in batches beside pread(2).

use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::{OpKind, Pieces};
use heliostat_bench_report::median;
use heliostat_stub_file::{Delegated, File, Piece, Transfer};

use crate::{begin, Outcome, Place};

const PAGE: u32 = 4096;
/// The part of the file that is read: it stays in the processor's cache, as in a plain copy.
const HOT_BYTES: u64 = 256 * 1024;
/// Reads of one round: short, so that most pass without a switch to another program.
const TRIPS: u32 = 200;
/// Samples kept at most.
const SAMPLES_MAX: usize = 4_000_000;

fn read(file: File, at: u64, bytes: u32, place: u64) -> Transfer {
    let pieces = Pieces::new(&[Piece { offset: place, bytes }]).unwrap_or_default();
    Transfer {
        kind: OpKind::Read,
        file,
        offset: at,
        argument: 0,
        pieces,
        tag: place,
        timeout_us: 0,
    }
}

/// Reads of 4 KiB one after the other: the median of short rounds, as that of the bare line is.
pub fn roundtrip(place: &Place) -> Outcome {
    let (mut session, file, bytes) = begin(&place.file, 1 << 20, None)?;
    let hot = bytes.min(HOT_BYTES);
    let mut rounds: Vec<f64> = Vec::new();
    let (began, mut at) = (Instant::now(), 0);
    while began.elapsed() < place.seconds && rounds.len() < SAMPLES_MAX {
        let sent = Instant::now();
        for _ in 0..TRIPS {
            match session.read_at(file, at, Piece { offset: 0, bytes: PAGE })? {
                all if all == PAGE as usize => {}
                other => return Err(format!("a read answered {other}").into()),
            }
            at = (at + u64::from(PAGE)) % hot;
        }
        rounds.push(sent.elapsed().as_nanos() as f64 / TRIPS as f64);
    }
    Ok(format!("{{\"trip_ns\": {:.1}, \"rounds\": {}}}", median(&rounds), rounds.len()))
}

/// Reads of 4 KiB with a pause between them, of a session that wants little: each for itself.
pub fn now_and_then(place: &Place, pause_us: u64) -> Outcome {
    let (mut session, file, bytes) = begin(&place.file, 1 << 20, None)?;
    let hot = bytes.min(HOT_BYTES);
    let mut trips: Vec<f64> = Vec::new();
    let began = Instant::now();
    let mut at = 0;
    while began.elapsed() < place.seconds && trips.len() < SAMPLES_MAX {
        let sent = Instant::now();
        one(&mut session, &read(file, at, PAGE, 0))?;
        trips.push(sent.elapsed().as_nanos() as f64);
        at = (at + u64::from(PAGE)) % hot;
        // Awake all the while, so that what is measured is the server and not this core's sleep.
        let pause = Duration::from_micros(pause_us);
        while sent.elapsed() < pause {
            std::hint::spin_loop();
        }
    }
    trips.sort_by(f64::total_cmp);
    let p99 = trips.get(trips.len() * 99 / 100).copied().unwrap_or(f64::NAN);
    Ok(format!(
        "{{\"p50_ns\": {:.1}, \"p99_ns\": {p99:.1}, \"trips\": {}}}",
        median(&trips),
        trips.len()
    ))
}

fn one(session: &mut Delegated, transfer: &Transfer) -> Result<(), Box<dyn std::error::Error>> {
    session.submit(std::slice::from_ref(transfer))?;
    let done = session.wait(None)?;
    match done.result == i64::from(transfer.pieces.as_slice()[0].bytes) {
        true => Ok(()),
        false => Err(format!("a read answered {}", done.result).into()),
    }
}

/// Batches of cached reads, delegated and by pread(2) in turn: nanoseconds per read of both.
pub fn batch(place: &Place, bytes: u32, batch: usize) -> Outcome {
    let (mut session, file, length) = begin(&place.file, 8 << 20, None)?;
    let slots = (8 << 20) / u64::from(bytes);
    let hot = length.min(HOT_BYTES.max(u64::from(bytes)));
    let at = |n: u64| n * u64::from(bytes) % hot;
    let reads: Vec<Transfer> =
        (0..batch as u64).map(|n| read(file, at(n), bytes, n % slots * u64::from(bytes))).collect();
    let plain = std::fs::File::open(&place.file)?;
    let mut buffer = vec![0; bytes as usize];
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let began = Instant::now();
    while began.elapsed() < place.seconds {
        let sent = Instant::now();
        together(&mut session, &reads)?;
        ours.push(sent.elapsed().as_nanos() as f64 / batch as f64);
        let sent = Instant::now();
        for n in 0..batch as u64 {
            plain.read_exact_at(&mut buffer, at(n))?;
        }
        theirs.push(sent.elapsed().as_nanos() as f64 / batch as f64);
    }
    Ok(format!("{{\"ours_ns\": {:.1}, \"pread_ns\": {:.1}}}", median(&ours), median(&theirs)))
}

fn together(session: &mut Delegated, reads: &[Transfer]) -> Result<(), Box<dyn std::error::Error>> {
    let sent = session.submit(reads)?;
    if sent != reads.len() {
        return Err(format!("{sent} of a batch of {} were taken", reads.len()).into());
    }
    for _ in 0..sent {
        let done = session.wait(None)?;
        if done.result <= 0 {
            return Err(format!("a read answered {}", done.result).into());
        }
    }
    Ok(())
}
