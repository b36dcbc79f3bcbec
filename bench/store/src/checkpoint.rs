//! The ways to write the store's memory to a file while it serves.

use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use heliostat_backend_pages::live::LiveMemory;
use heliostat_stub_snapshot::{Attachment, Region, Settings, View};

use crate::arena::Arena;
use crate::process::{forked, write_file};
use crate::Failure;

/// How a checkpoint is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The server writes the file itself and answers nobody meanwhile.
    Stop,
    /// A forked child writes what it inherited, as BGSAVE does.
    Fork,
    /// One version is published for the checkpoint; another process writes it.
    Snapshot,
    /// The same, after copying ahead between operations what was written so far.
    Ahead,
    /// A version is published every 50 ms whatever happens; the checkpoint takes the newest.
    Steady,
}

impl Way {
    /// All, in the order in which they take turns.
    pub const ALL: [Way; 5] = [Way::Stop, Way::Fork, Way::Snapshot, Way::Ahead, Way::Steady];

    /// As the results call it.
    pub fn name(self) -> &'static str {
        match self {
            Way::Stop => "stop",
            Way::Fork => "fork",
            Way::Snapshot => "snapshot",
            Way::Ahead => "snapshot, copied ahead",
            Way::Steady => "snapshot every 50 ms",
        }
    }
}

/// One piece of copying ahead.
const PIECE: usize = 256 << 10;
/// A round that copied less is the last before the version.
const ENOUGH: usize = 4 << 20;

/// Words that server and helpers share.
pub mod words {
    /// Checkpoints asked for; the helper that writes snapshots looks at it.
    pub const ASKED: usize = 0;
    /// Checkpoints written.
    pub const WRITTEN: usize = 8;
    /// Pid of the writing process, for who watches memory.
    pub const WRITER: usize = 16;
    /// Greatest memory of server and writer together.
    pub const PEAK: usize = 24;
    /// The same just before the checkpoint began.
    pub const BEFORE: usize = 32;
    /// Number of the version that was written.
    pub const VERSION: usize = 40;
}

/// The server's side of checkpoints.
pub struct Checkpoints {
    way: Way,
    /// Before the arena it lies over is dropped; the arena belongs to the caller.
    pub region: Option<Region>,
    path: PathBuf,
    core: usize,
    /// The process that writes.
    pub writer: Option<i32>,
    /// Bytes that this round ahead copied so far, and the one before.
    ahead: (usize, usize),
}

impl Checkpoints {
    /// Ready to make checkpoints of `arena`, which outlives the answer.
    pub fn new(
        way: Way,
        arena: &Arena,
        board: &Arena,
        at: (PathBuf, usize),
    ) -> Result<Self, Failure> {
        let (path, core) = at;
        let mut it = Self { way, region: None, path, core, writer: None, ahead: (0, usize::MAX) };
        if !matches!(way, Way::Stop | Way::Fork) {
            // SAFETY: the arena outlives the region, as `new` asks.
            let memory = unsafe { LiveMemory::new(arena.start() as usize, arena.len()) };
            let mut region = Region::new(memory, Settings::default())?;
            // Slots of two versions are used once, so that no checkpoint is the first.
            for _ in 0..3 {
                region.declare(0..arena.len())?;
                region.publish()?;
            }
            let attached = attach(&mut region)?;
            let path = it.path.clone();
            let len = arena.len();
            it.writer = Some(forked(core, || write_versions(&attached, board, &path, len))?);
            it.region = Some(region);
        }
        Ok(it)
    }

    /// Makes one, or sees to it that one is made. The caller stands still meanwhile.
    pub fn begin(&mut self, arena: &Arena, board: &Arena) -> Result<(), Failure> {
        // SAFETY: the server stands still, and so does a child's copy of its memory.
        let bytes = unsafe { arena.bytes() };
        match self.way {
            Way::Stop => {
                write_file(&self.path, bytes)?;
                board.word(words::WRITTEN).store(1, Release);
            }
            Way::Fork => {
                self.writer = Some(forked(self.core, || {
                    write_file(&self.path, bytes)?;
                    board.word(words::WRITTEN).store(1, Release);
                    Ok(())
                })?);
            }
            Way::Snapshot | Way::Ahead | Way::Steady => {
                if self.way != Way::Steady {
                    self.publish()?;
                }
                board.word(words::ASKED).store(1, Release);
            }
        }
        board.word(words::WRITER).store(self.writer.unwrap_or(0) as u64, Release);
        Ok(())
    }

    /// Copies one piece ahead; true when it is time for the version, as another round would copy
    /// little, or not much less than this one.
    pub fn copy_ahead(&mut self) -> Result<bool, Failure> {
        let region = self.region.as_mut().ok_or("nothing to copy")?;
        let done = region.copy_ahead(PIECE)?;
        self.ahead.0 += done.bytes;
        if !done.is_done {
            return Ok(false);
        }
        let (copied, before) = self.ahead;
        self.ahead = (0, copied);
        Ok(copied < ENOUGH || copied > before / 2)
    }

    /// Publishes a version.
    pub fn publish(&mut self) -> Result<u64, Failure> {
        let region = self.region.as_mut().ok_or("nothing to publish")?;
        Ok(region.publish()?.number)
    }
}

fn attach(region: &mut Region) -> Result<Attachment, Failure> {
    let (table, pool) = region.descriptors();
    let (table, pool) = (table.duplicate()?, pool.duplicate()?);
    let attached = Attachment::new(&table, pool, |pins| match region.admit(pins)? {
        Some(_) => Ok::<(), Failure>(()),
        None => Err("no room for another consumer".into()),
    });
    attached?
}

/// The other process: waits until it is asked, pins the newest version, writes it.
fn write_versions(
    attached: &Attachment,
    board: &Arena,
    path: &std::path::Path,
    len: usize,
) -> Result<(), Failure> {
    while board.word(words::ASKED).load(Acquire) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let version = attached.latest()?;
    board.word(words::VERSION).store(version.number(), Release);
    let view = View::new(version)?;
    // SAFETY: the view shows a pinned version of as many bytes, which nobody writes.
    let bytes = unsafe { std::slice::from_raw_parts(view.as_ptr(), len) };
    write_file(path, bytes)?;
    board.word(words::WRITTEN).store(1, Release);
    Ok(())
}
