//! What it costs to make a region and to find one, beside a file in memory that a program makes by itself.

use std::error::Error;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use heliostat_client::session;
use heliostat_stub_memory::{Memory, Rights};

use crate::{sampled, Outcome, ONE_EACH};

/// The memory of this node, or of another one.
fn memory(node: u64) -> Result<Memory, Box<dyn Error>> {
    session::configure(std::env::var("HELIOSTAT_SOCKET")?, "bench".into());
    let memory = Memory::open()?;
    Ok(if node == 0 { memory } else { memory.on(node) })
}

/// Makes a region and gives it back.
pub fn allocate(node: u64, bytes: u64, limit: Duration) -> Outcome {
    let memory = memory(node)?;
    let took = sampled(ONE_EACH, limit, || Ok(memory.allocate(bytes).make().map(drop)?))?;
    Ok(format!("{{\"ns\": {took:.1}}}"))
}

/// Finds a region by its name and gives the handle back.
pub fn map(node: u64, bytes: u64, limit: Duration) -> Outcome {
    let memory = memory(node)?;
    let name = format!("bench/map-{}", std::process::id());
    let _kept = memory.allocate(bytes).name(&name).make()?;
    let took = sampled(ONE_EACH, limit, || Ok(memory.map(&name, Rights::DATA).map(drop)?))?;
    Ok(format!("{{\"ns\": {took:.1}}}"))
}

/// Makes a file of so many bytes in memory, writes to it, and removes it.
pub fn file(bytes: u64, limit: Duration) -> Outcome {
    let path = PathBuf::from(format!("/dev/shm/heliostat-bench-{}", std::process::id()));
    let took = sampled(ONE_EACH, limit, || {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        file.set_len(bytes)?;
        file.write_all_at(&[1; 8], 0)?;
        Ok(std::fs::remove_file(&path)?)
    })?;
    Ok(format!("{{\"ns\": {took:.1}}}"))
}
