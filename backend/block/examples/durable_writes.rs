//! What a lone durable write costs through a device, beside the system call that it is made of.
//!
//! `cargo run --release -p heliostat-backend-block --example durable_writes -- FILE [COUNT]`: makes FILE,
//! measures, removes it. Both are measured in turn, so that load meets both alike.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use heliostat_backend_block::{Buffer, Device, FileDevice, Options, Request};
use heliostat_backend_uring::{transfer, Direction, Manner, Range};

const BYTES: usize = 4096;
const FILE_BYTES: u64 = 16 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let path = words.next().ok_or("the name of a file to be made is missing")?;
    let count: usize = words.next().map_or(Ok(500), |word| word.parse())?;
    FileDevice::create(Path::new(&path), FILE_BYTES)?;
    let found = measure(Path::new(&path), count);
    std::fs::remove_file(&path)?;
    found
}

fn measure(path: &Path, count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let mut device = FileDevice::open(path, Options::default())?;
    println!("direct {}, by {}", device.is_direct(), device.by().name());
    println!("{:#?}", device.measure(0, 50)?);
    let plain = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::DIRECT;
    let file = rustix::fs::open(path, plain, rustix::fs::Mode::empty())?;
    let from = Buffer::new(BYTES)?;
    let (mut by_call, mut by_device) = (Vec::new(), Vec::new());
    for at in 0..count as u64 {
        let offset = at * 7919 % (FILE_BYTES / BYTES as u64) * BYTES as u64;
        by_call.push(call(&file, offset, &from)?);
        by_device.push(through(&mut device, offset, &from)?);
    }
    for (name, mut each) in [("pwritev2", by_call), ("device", by_device)] {
        each.sort_unstable();
        let of = |hundredths: usize| each[each.len() * hundredths / 100].as_secs_f64() * 1e6;
        println!("{name:9} p10 {:.1} us, median {:.1} us, p90 {:.1} us", of(10), of(50), of(90));
    }
    Ok(())
}

fn call(file: &OwnedFd, offset: u64, from: &Buffer) -> Result<Duration, &'static str> {
    let (begun, range) = (Instant::now(), Range { offset: from.at, len: from.bytes });
    let memory = (&*from.memory, range);
    match transfer(Direction::Write, file, offset, memory, Manner::Durable) {
        Ok(moved) if moved == BYTES as i32 => Ok(begun.elapsed()),
        _ => Err("pwritev2 failed"),
    }
}

fn through(
    device: &mut FileDevice,
    offset: u64,
    from: &Buffer,
) -> Result<Duration, Box<dyn std::error::Error>> {
    let (begun, mut completions) = (Instant::now(), Vec::with_capacity(1));
    device.begin(0, Request::Write { offset, from: from.clone(), durable: true })?;
    while completions.is_empty() {
        device.reap(Some(Duration::from_secs(1)), &mut completions)?;
    }
    completions[0].result?;
    Ok(begun.elapsed())
}
