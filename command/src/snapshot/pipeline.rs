//! A version on its way into a file: read by one thread, packed by some, written in order by one.
//!
//! The version is let go when its last byte is read, not when the disk has it: the queue between
//! holds what the disk is behind, up to a limit. A producer is never waited for and never
//! made to wait; a pinned version costs it one of its places meanwhile.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::{channel, sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex};

use heliostat_snapfile::{
    chunk_bytes, chunks, FileError, Header, Index, Packed, Packer, Writer, Written,
};
use heliostat_stub_snapshot::Version;

/// Chunks that wait to be packed, and as many that wait to be written: 128 MiB each.
const QUEUE: usize = 64;
/// Packers; more would wait for the one that reads.
const PACKERS_MAX: usize = 8;

type Job = (u32, Vec<u8>);
type Done = Result<(Packed, Vec<u8>), FileError>;

/// How a version becomes bytes of a file.
pub struct Packing<'a> {
    /// Level of zstd, `None` for no compression.
    pub level: Option<i32>,
    /// What the base holds.
    pub base: Option<&'a Index>,
}

/// Writes `version` to `sink`, and tells `progress` how many bytes of the region are done; where
/// that says no, the work ends with `Interrupted`.
pub fn write(
    version: Version,
    header: Header,
    packing: &Packing<'_>,
    sink: impl Write,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<Written, FileError> {
    let count = chunks(header.length);
    let mut writer = Writer::new(sink, header)?;
    let packers = std::thread::available_parallelism().map_or(1, |n| n.get().min(PACKERS_MAX));
    let (jobs, jobs_there) = sync_channel(QUEUE);
    let (done, done_there) = sync_channel(QUEUE);
    let (spare, spare_there) = channel();
    let jobs_there = Arc::new(Mutex::new(jobs_there));
    // What the closure owns goes when it returns, before the threads are waited for: after an
    // error nobody takes their work any more, and they end.
    std::thread::scope(move |scope| {
        scope.spawn(move || read(&version, count, &jobs, &spare_there));
        for _ in 0..packers {
            let (jobs_there, done) = (jobs_there.clone(), done.clone());
            scope.spawn(move || pack(&jobs_there, &done, packing));
        }
        drop((done, jobs_there));
        let mut early = BTreeMap::new();
        let mut next = 0;
        while next < count {
            // Every packer is gone only when the reader was: its error came before.
            let (packed, bytes) = done_there.recv().map_err(|_| gone())??;
            let length = bytes.len() as u64;
            let _ = spare.send(bytes);
            early.insert(packed.chunk(), (packed, length));
            while let Some((packed, length)) = early.remove(&next) {
                writer.put(&packed)?;
                next += 1;
                if !progress(length) {
                    return Err(std::io::Error::from(std::io::ErrorKind::Interrupted).into());
                }
            }
        }
        let (mut sink, written) = writer.finish()?;
        sink.flush()?;
        Ok(written)
    })
}

fn gone() -> FileError {
    std::io::Error::other("the version could not be read").into()
}

/// Reads all chunks; the version goes with this thread. Memory is used again: fresh pages cost
/// more than the copy into them.
fn read(version: &Version, count: u32, jobs: &SyncSender<Job>, spare: &Receiver<Vec<u8>>) {
    let length = version.len() as u64;
    for chunk in 0..count {
        let mut bytes: Vec<u8> = spare.try_recv().unwrap_or_default();
        bytes.resize(chunk_bytes(length, chunk), 0);
        let offset = chunk as usize * heliostat_snapfile::CHUNK_BYTES;
        // Nobody takes it: somebody failed, and says so.
        if version.read(offset, &mut bytes).is_err() || jobs.send((chunk, bytes)).is_err() {
            return;
        }
    }
}

fn pack(jobs: &Mutex<Receiver<Job>>, done: &SyncSender<Done>, packing: &Packing<'_>) {
    let mut packer = match Packer::new(packing.level) {
        Ok(packer) => packer,
        Err(error) => return drop(done.send(Err(error))),
    };
    loop {
        let job = jobs.lock().map(|jobs| jobs.recv());
        let Ok(Ok((chunk, bytes))) = job else { return };
        let packed = packer.pack(chunk, &bytes, packing.base).map(|packed| (packed, bytes));
        if done.send(packed).is_err() {
            return;
        }
    }
}
