//! The ways in which another process gets at the flux, each with its producer's and consumer's side.

use heliostat_backend_pages::live::LiveMemory;
use heliostat_base::clock;
use heliostat_stub_snapshot::{Attachment, EngineKind, Region, Settings, View};

use crate::board::Board;
use crate::memory::Floats;
use crate::spectrum::Spectrum;
use crate::Failure;

/// How the flux is shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Not at all, but the consumer analyses as much memory of its own at every step: what the
    /// analysis costs by its use of cores and caches, whatever the sharing costs.
    Own,
    /// A snapshot region over the flux, engine as probed.
    Snapshot,
    /// The same, every version a whole copy.
    Whole,
    /// The flux in shared memory, a spin lock held while a step changes it and while it is read.
    Spin,
    /// A copy in shared memory, made and read under a mutex.
    Copy,
}

impl Way {
    /// All of them, in the order in which they take turns.
    pub const ALL: [Way; 5] = [Way::Own, Way::Snapshot, Way::Whole, Way::Spin, Way::Copy];

    /// As the results call it.
    pub fn name(self) -> &'static str {
        match self {
            Way::Own => "own data",
            Way::Snapshot => "snapshot",
            Way::Whole => "snapshot, whole",
            Way::Spin => "spin lock",
            Way::Copy => "copy",
        }
    }
}

/// The producer's side.
pub struct Sharing {
    way: Way,
    /// Before `flux`, over which it lies.
    region: Option<Region>,
    /// What the solver works on.
    pub flux: Floats,
    copy: Option<Floats>,
    /// The words beside it.
    pub board: Board,
}

impl Sharing {
    /// Memory for `len` values; whatever the way, it is there before the consumer is forked.
    pub fn new(way: Way, len: usize) -> Result<Self, Failure> {
        let flux = if way == Way::Spin { Floats::shared(len) } else { Floats::private(len) }?;
        let copy = (way == Way::Copy).then(|| Floats::shared(len)).transpose()?;
        let engine = if way == Way::Whole { EngineKind::Whole } else { EngineKind::Probed };
        let region = matches!(way, Way::Snapshot | Way::Whole).then(|| {
            // SAFETY: `flux` stands behind `region` in the struct and so outlives it.
            let memory = unsafe { LiveMemory::new(flux.start(), flux.bytes()) };
            Region::new(memory, Settings { engine, ..Settings::default() })
        });
        let board = Board::new()?;
        if way == Way::Spin {
            // Held by the producer but for the moments in which it shares.
            board.spin_lock();
        }
        Ok(Self { way, region: region.transpose()?, flux, copy, board })
    }

    /// The consumer's attachment, made here so that a fork hands it on.
    pub fn attach(&mut self) -> Result<Option<Attachment>, Failure> {
        let Some(region) = &mut self.region else { return Ok(None) };
        let (table, pool) = region.descriptors();
        let (table, pool) = (table.duplicate()?, pool.duplicate()?);
        let attached = Attachment::new(&table, pool, |pins| match region.admit(pins)? {
            Some(_) => Ok::<(), Failure>(()),
            None => Err("no room for another consumer".into()),
        });
        attached?.map(Some)
    }

    /// Between two steps: shows the flux to the consumer as version `number`.
    pub fn share(&mut self, number: u64) -> Result<(), Failure> {
        let board = &self.board;
        match (&mut self.region, &self.copy) {
            (Some(region), _) => {
                region.publish()?;
                return Ok(());
            }
            // SAFETY: the mutex is held, and the solver, which alone writes the flux, waits.
            (_, Some(copy)) => board.with_mutex(|| unsafe {
                copy.values_mut().copy_from_slice(self.flux.values());
                board.complete(number);
            }),
            _ => board.complete(number),
        }
        if self.way == Way::Spin {
            board.spin_unlock();
        }
        board.ring();
        if self.way == Way::Spin {
            board.spin_lock();
        }
        Ok(())
    }

    /// Ends the consumer, and gives back the lock that it may wait for.
    pub fn end(&self) {
        self.board.stop();
        if self.way == Way::Spin {
            self.board.spin_unlock();
        }
    }
}

/// The consumer's side: analyses every version until the end. Runs in the forked process.
pub fn consume(
    sharing: &Sharing,
    attached: Option<Attachment>,
    groups: usize,
) -> Result<(), Failure> {
    let own = Floats::private(sharing.flux.bytes() / 8)?;
    // SAFETY: nobody else knows this memory.
    unsafe { own.values_mut().fill(0.5) };
    let (mut seen, mut view) = (0, None);
    while !sharing.board.is_stopped() {
        if let Some(attachment) = &attached {
            let _ = attachment.wait(seen, Some(std::time::Duration::from_millis(100)));
            seen = analyse_version(sharing, attachment, &mut view, (seen, groups))?;
        } else {
            sharing.board.wait(seen);
            seen = analyse_shared(sharing, &own, (seen, groups));
        }
    }
    Ok(())
}

fn analyse_version(
    sharing: &Sharing,
    attachment: &Attachment,
    view: &mut Option<View>,
    (seen, groups): (u64, usize),
) -> Result<u64, Failure> {
    if attachment.latest_number() <= seen {
        return Ok(seen);
    }
    let began = clock::monotonic_ns();
    let version = attachment.latest()?;
    let number = version.number();
    match view {
        Some(view) => drop(view.advance(version)?),
        None => *view = Some(View::new(version)?),
    }
    let start = view.as_ref().map_or(std::ptr::null(), View::as_ptr);
    // SAFETY: the view shows a pinned version of as many bytes, which nobody writes; the region
    // begins at the start of a page.
    let values = unsafe { std::slice::from_raw_parts(start.cast(), sharing.flux.bytes() / 8) };
    let digest = Spectrum::of(values, groups).digest();
    sharing.board.analysed(number, digest, clock::monotonic_ns() - began);
    Ok(number)
}

fn analyse_shared(sharing: &Sharing, own: &Floats, (seen, groups): (u64, usize)) -> u64 {
    if sharing.board.step() <= seen {
        return seen;
    }
    let began = clock::monotonic_ns();
    let board = &sharing.board;
    // SAFETY: nobody writes what is read: one's own memory, or the lock is held.
    let read = |from: &Floats| Spectrum::of(unsafe { from.values() }, groups).digest();
    let (step, digest) = match (sharing.way, &sharing.copy) {
        (Way::Spin, _) => {
            board.spin_lock();
            let found = (board.step(), read(&sharing.flux));
            board.spin_unlock();
            found
        }
        (_, Some(copy)) => board.with_mutex(|| (board.step(), read(copy))),
        _ => (board.step(), std::hint::black_box(read(own))),
    };
    board.analysed(step, digest, clock::monotonic_ns() - began);
    step
}
