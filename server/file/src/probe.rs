//! Measures a device: its own way against filling the cache, by reading a piece of one large file.
//!
//! The same requests as the loops make, by a ring of its own and into memory of its own, at a depth:
//!
//! ```text
//! direct:  reads of a size at once, past the caches, into a window
//! filled:  their blocks at once, into a cache, each copied into the window when it is there
//! ```
//! All sizes in turn, then all again, until time or bytes are used up; of each the best time counts.
//! Before blocks are read the kernel is asked to forget its own copies of them, so that the device is
//! measured and not memory. Nothing is ever written.

use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use heliostat_backend_lease::resident::resident_bytes;
use heliostat_backend_uring::{By, Manner, Range, Requests};
use heliostat_base::clock::monotonic_ns;
use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::copy_part;
use rustix::fs::{fadvise, Advice};

use super::cache::BLOCK_BYTES;
use super::device::{Cost, Measured};
use super::verdict::SizeTimes;

/// Bytes of the file that are read, again and again.
const PIECE_BYTES: u64 = 2 << 20;
/// Files that are large enough: the piece begins at a multiple of its length, so that no large page of
/// the kernel's memory reaches beyond it.
pub const FILE_BYTES_MIN: u64 = 2 * PIECE_BYTES;
/// Sizes that are measured.
const SIZES: [u64; 6] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];
/// Reads of a size at once, as far as the piece has them.
const DEPTH: u64 = 4;
/// Times that all sizes are measured.
const ROUNDS: usize = 8;
/// No reads begin after so long. Those under way end when the device is done with them.
const LIMIT_NS: u64 = 100_000_000;
/// No reads begin after so many bytes.
const LIMIT_BYTES: u64 = 128 << 20;
/// Reads that have not come back by then never do, as far as the measurement goes.
const PATIENCE: Duration = Duration::from_secs(1);
/// One part of the piece that may stay in the kernel's memory for the device to be what is measured.
const RESIDENT_SHARE: u64 = 16;

const NO_MEMORY: &str = "there was no memory to measure it with";
const FAILED: &str = "the file that it was measured by could not be read";
const HANGS: &str = "it did not answer";
const KEPT: &str = "the file that it was measured by lies in the kernel's memory";

/// A file by which a device can be measured.
pub struct ProbeFile {
    /// Past the page cache.
    pub direct: Arc<OwnedFd>,
    /// Through it.
    pub buffered: Arc<OwnedFd>,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Reads of one piece, and the memory that they go to.
struct Bench<'a> {
    file: &'a ProbeFile,
    /// Where it begins in the file.
    start: u64,
    /// By their places in the piece.
    requests: Requests<u64>,
    window: Arc<SharedMapping>,
    blocks: Arc<SharedMapping>,
    fill_manner: Manner,
    bytes: u64,
    began_ns: u64,
}

/// Measures a device by one of its files. Waits for it.
///
/// # Errors
/// Why it could not be, for people.
pub fn measure(file: &ProbeFile, by: By) -> Result<Measured, &'static str> {
    let mut bench = Bench::create(file, by)?;
    // What is yet to be written of the piece is written by the kernel first, and can be forgotten then.
    bench.read_direct(PIECE_BYTES, 1)?;
    bench.find_manner()?;
    let mut best: Vec<SizeTimes> = Vec::new();
    for bytes in SIZES.iter().cycle().take(ROUNDS * SIZES.len()).copied() {
        if bench.is_over() {
            break;
        }
        let sample = bench.sample(bytes)?;
        match best.iter_mut().find(|known| known.bytes == bytes) {
            Some(known) => {
                known.direct_ns = known.direct_ns.min(sample.direct_ns);
                known.filled_ns = known.filled_ns.min(sample.filled_ns);
                known.times += 1;
            }
            None => best.push(sample),
        }
    }
    let ns = monotonic_ns().saturating_sub(bench.began_ns);
    Ok(Measured { samples: best, cost: Cost { ns, bytes: bench.bytes } })
}

impl Bench<'_> {
    fn create(file: &ProbeFile, by: By) -> Result<Bench<'_>, &'static str> {
        let most = (PIECE_BYTES / BLOCK_BYTES) as u32;
        let requests = Requests::create_for_transfers(by, most, most).map_err(|_| NO_MEMORY)?;
        let memory = || -> Result<Arc<SharedMapping>, &'static str> {
            let (_fd, memory) = SharedMapping::create(c"heliostat-probe", PIECE_BYTES as usize)
                .map_err(|_| NO_MEMORY)?;
            // Its pages are there before the first time is taken.
            memory.zero(0, memory.len()).map_err(|_| NO_MEMORY)?;
            Ok(Arc::new(memory))
        };
        Ok(Bench {
            file,
            start: file.bytes.saturating_sub(PIECE_BYTES) / 2 / PIECE_BYTES * PIECE_BYTES,
            requests,
            window: memory()?,
            blocks: memory()?,
            fill_manner: Manner::Uncached,
            bytes: 0,
            began_ns: monotonic_ns(),
        })
    }

    /// Finds how the loops read blocks of this file: before Linux 6.14 the kernel keeps them as well.
    fn find_manner(&mut self) -> Result<(), &'static str> {
        self.begin_fill(0)?;
        if self.await_one(BLOCK_BYTES).is_err() {
            self.fill_manner = Manner::Plain;
            self.begin_fill(0)?;
            self.await_one(BLOCK_BYTES)?;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let passed_ns = monotonic_ns().saturating_sub(self.began_ns);
        passed_ns >= LIMIT_NS || self.bytes >= LIMIT_BYTES
    }

    /// Both ways once, each with as many reads at once as count; the time of one read.
    fn sample(&mut self, bytes: u64) -> Result<SizeTimes, &'static str> {
        let reads = (PIECE_BYTES / bytes).min(DEPTH);
        let direct_ns = self.read_direct(bytes, reads)? / reads;
        self.forget()?;
        let filled_ns = self.fill(bytes, reads)? / reads;
        Ok(SizeTimes { bytes, direct_ns, filled_ns, times: 1 })
    }

    fn read_direct(&mut self, bytes: u64, reads: u64) -> Result<u64, &'static str> {
        let began_ns = monotonic_ns();
        for at in (0..reads).map(|number| number * bytes) {
            let into = [Range { offset: at as usize, len: bytes as usize }];
            let into = (&self.window, &into[..]);
            let (file, start) = (&self.file.direct, self.start + at);
            self.requests.read(at, file, start, into, Manner::Direct).map_err(|_| FAILED)?;
        }
        for _ in 0..reads {
            self.await_one(bytes)?;
        }
        Ok(monotonic_ns().saturating_sub(began_ns))
    }

    /// What the loop does where none of the blocks is there: each is copied once it is.
    fn fill(&mut self, bytes: u64, reads: u64) -> Result<u64, &'static str> {
        let began_ns = monotonic_ns();
        let blocks = bytes * reads / BLOCK_BYTES;
        (0..blocks).try_for_each(|block| self.begin_fill(block * BLOCK_BYTES))?;
        for _ in 0..blocks {
            let at = self.await_one(BLOCK_BYTES)? as usize;
            let (from, into) = ((&*self.blocks, at), (&*self.window, at));
            copy_part(from, into, BLOCK_BYTES as usize, bytes).map_err(|_| FAILED)?;
        }
        Ok(monotonic_ns().saturating_sub(began_ns))
    }

    fn begin_fill(&mut self, at: u64) -> Result<(), &'static str> {
        let into = [Range { offset: at as usize, len: BLOCK_BYTES as usize }];
        let into = (&self.blocks, &into[..]);
        let (file, start) = (&self.file.buffered, self.start + at);
        let begun = self.requests.read(at, file, start, into, self.fill_manner);
        begun.map(drop).map_err(|_| FAILED)
    }

    /// The place of a read of so many bytes that has come back.
    fn await_one(&mut self, bytes: u64) -> Result<u64, &'static str> {
        let ends_ns = monotonic_ns() + PATIENCE.as_nanos() as u64;
        loop {
            if let Some((at, result)) = self.requests.reap() {
                self.bytes += bytes;
                return (i64::from(result) == bytes as i64).then_some(at).ok_or(FAILED);
            }
            if monotonic_ns() >= ends_ns || self.requests.sleep(Some(PATIENCE)).is_err() {
                return Err(HANGS);
            }
        }
    }

    /// Has the kernel let go of its copies of the piece, as those who read it before have left them.
    fn forget(&self) -> Result<(), &'static str> {
        let range = (self.start, PIECE_BYTES);
        let file = &self.file.buffered;
        // Where it does not, that is seen below.
        let _ = fadvise(file, range.0, NonZeroU64::new(range.1), Advice::DontNeed);
        match resident_bytes(file.as_fd(), range) {
            Ok(left) if left > PIECE_BYTES / RESIDENT_SHARE => Err(KEPT),
            // Before Linux 6.5 nobody can say.
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{open, Mode, OFlags};

    #[test]
    fn a_file_is_measured_within_its_limits_and_not_changed() {
        let path = std::env::temp_dir().join(format!("heliostat-probe-{}", std::process::id()));
        let content: Vec<u8> = (0..FILE_BYTES_MIN).map(|at| (at / 7 % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let reopen = |flags| open(&path, OFlags::RDONLY | flags, Mode::empty()).map(Arc::new);
        let buffered = reopen(OFlags::empty()).unwrap();
        let direct = reopen(OFlags::DIRECT).unwrap_or_else(|_| buffered.clone());
        let file = ProbeFile { direct, buffered, bytes: FILE_BYTES_MIN };
        for by in [By::available(), By::Threads] {
            match measure(&file, by) {
                Ok(Measured { samples, cost }) => {
                    assert_eq!(samples.first().map(|sample| sample.bytes), Some(SIZES[0]));
                    assert!(samples.iter().all(|it| it.direct_ns > 0 && it.filled_ns > 0));
                    assert!((1..LIMIT_BYTES + 4 * PIECE_BYTES).contains(&cost.bytes), "{cost:?}");
                }
                // On tmpfs, and where others have the file mapped.
                Err(why) => assert_eq!(why, KEPT),
            }
        }
        assert!(std::fs::read(&path).unwrap() == content);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let null = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let file = ProbeFile { direct: null.clone(), buffered: null, bytes: FILE_BYTES_MIN };
        assert_eq!(measure(&file, By::available()), Err(FAILED));
    }
}
