//! A consumer: pins versions and checks every stamp of every page of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use heliostat_stub_snapshot::{AttachError, Attachment, Version, View};

use crate::child::Child;
use crate::plan::{mix, Model, Plan, PAGE};

/// Longest sleep before another look at whether the region has ended.
const LOOK: Duration = Duration::from_millis(200);
/// Every so many versions a fork of the consumer checks the pinned one as well.
const FORK_EVERY: u64 = 16;

/// How a consumer behaves.
#[derive(Clone, Copy, Debug)]
pub struct Habit {
    /// Through a contiguous view, else by copying out.
    pub views: bool,
    /// How long it holds a version before it checks it again.
    pub pause: Duration,
    /// Takes each version in turn as long as it is there, else always the newest.
    pub in_order: bool,
}

/// What holds a version, in either way.
enum Held {
    View(Box<View>),
    Version(Version),
}

impl Held {
    fn number(&self) -> u64 {
        match self {
            Self::View(view) => view.version().map_or(0, Version::number),
            Self::Version(version) => version.number(),
        }
    }

    /// Copies one page out.
    fn page(&self, page: usize, into: &mut [u8; PAGE]) -> Result<(), String> {
        match self {
            Self::View(view) => {
                let from = view.as_ptr().wrapping_add(page * PAGE);
                // SAFETY: pages that the plan counts lie inside the region, which is mapped as
                // long as the view lives; nobody writes a pinned version.
                unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), PAGE) };
                Ok(())
            }
            Self::Version(version) => {
                version.read(page * PAGE, into).map_err(|error| error.to_string())
            }
        }
    }
}

/// Page 0: the round, the version's number, and both mixed.
pub fn header(plan: &Plan, round: u32, number: u64) -> [u64; 3] {
    [u64::from(round), number, mix(plan.seed ^ number << 32 ^ u64::from(round))]
}

/// Follows a region until its producer ends it, and has checked its last version then. Counts in
/// `verified`.
pub fn follow(
    region: &Attachment,
    plan: Plan,
    habit: Habit,
    verified: &AtomicU64,
) -> Result<(), String> {
    while !follow_for(region, plan, habit, verified, LOOK)? {}
    Ok(())
}

/// The same until there was no version for `silence`; true when the producer has ended the region.
pub fn follow_for(
    region: &Attachment,
    plan: Plan,
    habit: Habit,
    verified: &AtomicU64,
    silence: Duration,
) -> Result<bool, String> {
    let (mut model, mut held, mut last) = (Model::new(plan), None, 0);
    loop {
        if !region.wait(last, Some(silence)) {
            return Ok(region.is_closed() && region.latest_number() == last);
        }
        let Some(version) = next(region, last, habit)? else { continue };
        let now = hold(held.take(), version, habit)?;
        last = now.number();
        check(&now, &mut model)?;
        let seen = verified.fetch_add(1, Ordering::Relaxed) + 1;
        if seen % FORK_EVERY == 0 {
            // It must not let go of what its parent has pinned: it ends without dropping.
            let child = Child::fork(|| check(&now, &mut model));
            check(&now, &mut model)?;
            if child.wait() != 0 {
                return Err("a fork of the consumer saw something else".into());
            }
        }
        if !habit.pause.is_zero() {
            std::thread::sleep(habit.pause);
            check(&now, &mut model).map_err(|why| format!("while it was held: {why}"))?;
        }
        held = Some(now);
    }
}

/// A version after `last`; nothing when it went away meanwhile.
fn next(region: &Attachment, last: u64, habit: Habit) -> Result<Option<Version>, String> {
    let in_turn = habit.in_order.then(|| region.numbered(last + 1).ok()).flatten();
    match in_turn.map_or_else(|| region.latest(), Ok) {
        Ok(version) if version.number() > last => Ok(Some(version)),
        Ok(version) => Err(format!("version {} after version {last}", version.number())),
        Err(AttachError::Pin(_)) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn hold(before: Option<Held>, version: Version, habit: Habit) -> Result<Held, String> {
    if !habit.views {
        return Ok(Held::Version(version));
    }
    let view = match before {
        Some(Held::View(mut view)) => view.advance(version).map(|_| view),
        _ => View::new(version).map(Box::new),
    };
    view.map(Held::View).map_err(|error| error.to_string())
}

/// Every stamp of every page.
fn check(held: &Held, model: &mut Model) -> Result<(), String> {
    let mut bytes = [0; PAGE];
    let of_version = |why: String| format!("version {}: {why}", held.number());
    held.page(0, &mut bytes)?;
    let found = [0, 8, 16].map(|at| word(&bytes, at));
    let round = u32::try_from(found[0]).unwrap_or(0);
    let wanted = header(&model.plan, round, held.number());
    if round == 0 || found != wanted {
        return Err(of_version(format!("its head is {found:x?}, and should be {wanted:x?}")));
    }
    if !model.advance(round) {
        return Err(of_version(format!("it is of round {round}, which was over before")));
    }
    for page in 1..model.plan.pages {
        held.page(page, &mut bytes)?;
        model.check(page, |at| word(&bytes, at)).map_err(of_version)?;
    }
    Ok(())
}

fn word(bytes: &[u8; PAGE], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}
