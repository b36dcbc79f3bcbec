//! A reader of a word on another node, and writers of long parts there: what each saw, over time.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_client::session;
use heliostat_stub_memory::{Memory, Region, Rights, Submission, Work};

/// Times that are told as one: what happened within so many milliseconds.
const SLICE_MS: u128 = 20;
/// A part of a writer's.
const PART: usize = 256 << 10;
/// The reader reads again after so long: a program that does something with what it has read.
const THINK: Duration = Duration::from_micros(200);

fn memory(node: u64) -> Result<(Memory, Memory), Box<dyn Error>> {
    session::configure(std::env::var("HELIOSTAT_SOCKET")?, "bench".into());
    let memory = Memory::open()?;
    let there = memory.on(node);
    Ok((memory, there))
}

fn region(there: &Memory, name: &str, bytes: u64) -> Result<Region, Box<dyn Error>> {
    match there.allocate(bytes).name(name).lasting().make() {
        Ok(region) => Ok(region),
        // Another program of this measurement has made it.
        Err(_) => Ok(there.map(name, Rights::DATA)?),
    }
}

/// Reads 8 bytes again and again: `[ms, median ns, largest ns, reads]` for each slice of time.
pub fn read(node: u64, name: &str, limit: Duration) -> Result<String, Box<dyn Error>> {
    let (_memory, there) = memory(node)?;
    let region = region(&there, name, 4096)?;
    let (began, mut word) = (Instant::now(), [0; 8]);
    let (mut slices, mut of_slice, mut slice) = (Vec::new(), Vec::new(), 0);
    while began.elapsed() < limit {
        let asked = Instant::now();
        region.read(0, &mut word)?;
        let took = asked.elapsed().as_nanos() as u64;
        let now = began.elapsed().as_millis() / SLICE_MS;
        if now != slice {
            slices.extend(told(slice * SLICE_MS, &mut of_slice));
            slice = now;
        }
        of_slice.push(took);
        std::thread::sleep(THINK);
    }
    slices.extend(told(slice * SLICE_MS, &mut of_slice));
    Ok(format!("{{\"slices\": [{}]}}", slices.join(", ")))
}

fn told(at_ms: u128, times: &mut Vec<u64>) -> Option<String> {
    times.sort_unstable();
    let (middle, last) = (times.get(times.len() / 2).copied()?, times.last().copied()?);
    let line = format!("[{at_ms}, {middle}, {last}, {}]", times.len());
    times.clear();
    Some(line)
}

/// Writes parts, so many of them on the way at once; how many bytes a second.
pub fn write(
    node: u64,
    name: &str,
    depth: usize,
    limit: Duration,
) -> Result<String, Box<dyn Error>> {
    let (memory, there) = memory(node)?;
    let region = Arc::new(region(&there, name, 64 << 20)?);
    let operations = memory.operations(depth);
    let began = Instant::now();
    let (mut submitted, mut done) = (0_u64, 0_u64);
    let places = (64 << 20) / PART as u64;
    loop {
        let is_over = began.elapsed() >= limit;
        while !is_over && submitted - done < depth as u64 {
            let offset = submitted % places * PART as u64;
            let work = Work::Write { offset, from: vec![submitted as u8; PART] };
            if operations.submit(Submission::new(&region, work)).is_err() {
                return Err("no room for a part".into());
            }
            submitted += 1;
        }
        if submitted == done {
            break;
        }
        operations.wait(Some(Duration::from_secs(60)))?.result?;
        done += 1;
    }
    let bytes = done as f64 * PART as f64 / began.elapsed().as_secs_f64();
    Ok(format!("{{\"bytes_per_second\": {bytes:.0}}}"))
}
