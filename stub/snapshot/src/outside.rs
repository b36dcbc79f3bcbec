//! Versions of a program's memory that knows nothing of it, made by another process.
//!
//! The program is stopped for a moment (`backend/pages/src/tracee.rs`), at which nobody writes. Most of the
//! copying is done before, while it runs: what it writes meanwhile is known and copied again, so
//! the stop is for the last writes only. No page is copied in it that was not written since the
//! last look; what else a slot lacks comes out of the pool afterwards (`paused.rs`).
//!
//! ```text
//! runs    ask what was written, copy it    (again while that pays)
//! stops   ask what was written since, copy it
//! runs    complete slots out of the pool, publish every region
//! ```
//!
//! A version shows what the program's memory held at one instant, as a fork's would: consistent as
//! a crash is, wherever the program happened to be. What is mapped comes and goes; what is not
//! mapped, or not readable, reads as zeros. Which ranges to publish is for the caller to choose.

mod engine;
mod outcome;
mod pieces;
mod source;
mod turn;

use std::sync::{Arc, Mutex, PoisonError};

use heliostat_backend_pages::tracee::{Mapping, TraceError, Tracee};
use heliostat_backend_pages::track::{Pages, WriteTracker};

use super::engine::{Engine, Whole};
use super::ledger::PAGE_BYTES;
use super::region::Region;
use super::settings::{Placement, Settings};
use engine::Watched;
pub use outcome::{OutsideError, Round};
use source::Reader;
use turn::Turn;

/// Rounds of copying while the program runs. Each copies what was written during the one before.
const ROUNDS: usize = 8;
/// What a round must have copied to be worth another: below it, what comes with the stop itself
/// dominates.
const WORTH_BYTES: usize = 1 << 20;
/// A round that copied more than so much of what the one before did shrinks the rest too little:
/// the program writes nearly as fast as it is copied.
const SHRINKS_TO: (usize, usize) = (3, 4);

const FILTERED: &str = "it has a system-call filter (seccomp) that this process lacks, which may \
                        kill it for one; tracking can be forced (--force-tracking)";

/// Whether writes are to be tracked, which takes one system call made in the program's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tracking {
    /// Unless the program has a system-call filter that this process does not have.
    #[default]
    Careful,
    /// Even so: the filter may kill the program for it.
    Forced,
    /// No: every version copies everything.
    Never,
}

/// A range that may be published, and how the program shares it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its addresses, whole pages.
    pub pages: Pages,
    /// Nobody else writes it, so its writes can be tracked.
    pub is_private: bool,
}

/// The program, which all its regions share.
struct Target {
    tracee: Tracee,
    tracker: Option<WriteTracker>,
    /// What is mapped and readable, in order, as it was when it was last asked.
    mapped: Mutex<Vec<Part>>,
}

impl Target {
    fn mapped(&self) -> std::sync::MutexGuard<'_, Vec<Part>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What of it meets `range`: asked for every run of pages, so all of it is not copied.
    fn mapped_in(&self, range: &Pages) -> Vec<Pages> {
        let mapped = self.mapped();
        let first = mapped.partition_point(|part| part.pages.end <= range.start);
        let met = mapped[first..].iter().take_while(|part| part.pages.start < range.end);
        met.map(|part| part.pages.clone()).collect()
    }
}

/// A program whose memory is published from outside.
pub struct Outside {
    target: Arc<Target>,
    untracked: Option<TraceError>,
}

impl Outside {
    /// Opens process `pid`; unless `tracking` says otherwise, one of its threads makes two system
    /// calls. Where writes cannot be tracked versions are whole copies, and `untracked` says why.
    pub fn open(pid: i32, tracking: Tracking) -> Result<Self, OutsideError> {
        let tracee = Tracee::open(pid)?;
        // A program that may not be stopped is refused here, not at its first version.
        tracee.stop()?.resume();
        let tracker = match tracking {
            Tracking::Never => Err(None),
            Tracking::Careful if tracee.has_foreign_filter() => {
                Err(Some(TraceError::NoCall { why: FILTERED }))
            }
            _ => tracee.track().map_err(Some),
        };
        let (tracker, untracked) = match tracker {
            Ok(tracker) => (Some(tracker), None),
            Err(why) => (None, why),
        };
        let target = Target { tracee, tracker, mapped: Mutex::new(Vec::new()) };
        let it = Self { target: Arc::new(target), untracked };
        it.look()?;
        Ok(it)
    }

    /// Why writes are not tracked though they were to be.
    pub fn untracked(&self) -> Option<&TraceError> {
        self.untracked.as_ref()
    }

    /// False once it has ended, or runs another program.
    pub fn is_there(&self) -> bool {
        self.target.tracee.is_there()
    }

    /// What is mapped in it now.
    pub fn mappings(&self) -> Result<Vec<Mapping>, OutsideError> {
        Ok(self.target.tracee.mappings()?)
    }

    /// A region of the `len` bytes at `start`, which need not be mapped now, nor all of them ever.
    pub fn region(
        &self,
        start: usize,
        len: usize,
        mut settings: Settings,
    ) -> Result<Region, OutsideError> {
        self.look()?;
        if settings.placement == Placement::Probed {
            // Whoever watches a program from outside has no claim on memory for whole copies.
            settings.placement = Placement::Chunks;
        }
        let first = start % PAGE_BYTES;
        let span = first..first + len;
        let engine: Box<dyn Engine> = match self.target.tracker {
            Some(_) => Box::new(Watched::new(self.target.clone(), start - first, span)),
            None => Box::new(Whole::new(span)),
        };
        let memory = Box::new(Reader::new(self.target.clone(), start, len));
        Region::with_engine(memory, settings, engine).map_err(OutsideError::Region)
    }

    /// Makes a version of each region, all of one instant. Blocks for the copying, and for the
    /// regions' patience where one has no place; the program stands meanwhile only for what is
    /// copied last, and not at all when no region has a place.
    ///
    /// # Errors
    /// The program is gone, or does not stop. Each region's own failure stands with its version.
    pub fn publish(&self, regions: &mut [&mut Region]) -> Result<Round, OutsideError> {
        let mut turns: Vec<Turn<'_>> = regions.iter_mut().map(|it| Turn::new(it)).collect();
        let ahead_bytes = self.copy_ahead(&mut turns)?;
        let (mut stopped_ns, mut threads) = (0, 0);
        if turns.iter().any(|turn| turn.place.is_ok()) {
            let stopped = self.target.tracee.stop()?;
            threads = stopped.threads();
            let looked = self.look();
            if looked.is_ok() {
                turns.iter_mut().for_each(Turn::begin);
            }
            let is_there = self.target.tracee.is_there();
            stopped_ns = stopped.resume();
            looked?;
            if !is_there {
                return Err(TraceError::Gone.into());
            }
        }
        let stopped_bytes = turns.iter().map(Turn::copied_bytes).sum();
        let versions = turns.into_iter().map(Turn::finish).collect();
        Ok(Round { stopped_ns, threads, ahead_bytes, stopped_bytes, versions })
    }

    fn copy_ahead(&self, turns: &mut [Turn<'_>]) -> Result<usize, OutsideError> {
        let (mut ahead, mut last) = (0, usize::MAX);
        for _ in 0..ROUNDS {
            if self.target.tracker.is_none() || last < WORTH_BYTES {
                break;
            }
            self.look()?;
            let copied = turns.iter_mut().map(Turn::copy_ahead).sum();
            ahead += copied;
            if copied > last / SHRINKS_TO.1 * SHRINKS_TO.0 {
                break;
            }
            last = copied;
        }
        Ok(ahead)
    }

    /// Looks at what is mapped.
    fn look(&self) -> Result<(), OutsideError> {
        let found = self.target.tracee.mappings()?;
        if found.is_empty() {
            return Err(TraceError::Gone.into());
        }
        let readable = found.into_iter().filter(|it| it.is_readable);
        let part = |it: Mapping| Part { pages: it.pages, is_private: !it.is_shared };
        *self.target.mapped() = readable.map(part).collect();
        Ok(())
    }
}
