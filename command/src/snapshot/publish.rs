//! `heliostat snapshot publish`: versions of a program that knows nothing of it, by name.
//!
//! This process is the producer; the program is stopped for each version and left alone in
//! between. What its mappings are is looked up before each version: what came gets a region, what
//! went loses it. Mechanism: `stub/snapshot/src/outside.rs`; what it promises: docs/snapshots.md.

mod choose;
mod interrupt;
mod parts;
mod target;

use std::time::{Duration, Instant};

use heliostat_backend_pages::tracee::TraceError;
use heliostat_stub_snapshot::{Outside, OutsideError, PublishError, Round, Tracking};
use serde_json::json;

use super::error::SnapshotError;
use super::live::open_session;
use crate::args::snapshot::PublishArguments;
use crate::ensure;
use crate::place::surroundings;
use crate::show::print;
use crate::table::{bytes, Table};
use interrupt::Interrupt;
use parts::Parts;
use target::Target;

/// Between two looks at whether the program is still there.
const LOOK: Duration = Duration::from_millis(200);
/// Vain attempts to stop the program for one version, and the pause after each, in which it runs.
/// An attempt takes 2 s at most.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// Publishes until the count is reached, the program ends or somebody interrupts.
pub fn publish(arguments: &PublishArguments) -> Result<(), SnapshotError> {
    let place = &arguments.format.place;
    ensure::ensure(&surroundings(place), None)
        .map_err(|error| SnapshotError::Asked(error.to_string()))?;
    open_session(place)?;
    let target = Target::find(arguments)?;
    let failed = |error| SnapshotError::Outside { pid: target.pid, error };
    let outside = Outside::open(target.pid, tracking(arguments)).map_err(failed)?;
    if let Some(why) = outside.untracked() {
        eprintln!("heliostat: every version is a whole copy: {why}");
    }
    let interrupt = Interrupt::listen()
        .map_err(|error| SnapshotError::Asked(format!("no signal handler: {error}")))?;
    let mut parts = Parts::new(target, arguments.keep);
    repeat(arguments, &outside, &mut parts, &interrupt)?;
    if interrupt.came() {
        return Ok(());
    }
    if !outside.is_there() {
        eprintln!("heliostat: process {} has ended, or runs another program now", parts.pid());
        return Ok(());
    }
    while !arguments.once && goes_on_after(&outside, &interrupt, LOOK) {}
    Ok(())
}

/// All versions that were asked for, or those until the program ends or somebody interrupts.
fn repeat(
    arguments: &PublishArguments,
    outside: &Outside,
    parts: &mut Parts,
    interrupt: &Interrupt,
) -> Result<(), SnapshotError> {
    let every = arguments.every;
    let count = arguments.count.unwrap_or(if every.is_some() { u64::MAX } else { 1 });
    for done in 1..=count {
        let begun = Instant::now();
        match version(outside, parts, interrupt) {
            Err(SnapshotError::Outside { .. }) if done > 1 && !outside.is_there() => break,
            Err(_) if interrupt.came() => break,
            answer => print(&said(parts, &answer?, arguments.format.json))?,
        }
        if done == 1 && !arguments.no_tracking && outside.untracked().is_none() {
            parts.whole().for_each(|name| {
                eprintln!(
                    "heliostat: region {name} is copied whole for every version: its writes cannot \
                     be tracked (its memory is shared, or the program tracks them itself)"
                );
            });
        }
        let pause = every.unwrap_or_default().saturating_sub(begun.elapsed());
        if done < count && !goes_on_after(outside, interrupt, pause) {
            break;
        }
    }
    Ok(())
}

/// One version of all parts.
fn version(
    outside: &Outside,
    parts: &mut Parts,
    interrupt: &Interrupt,
) -> Result<Round, SnapshotError> {
    let pid = parts.pid();
    let failed = |error| SnapshotError::Outside { pid, error };
    parts.follow(outside)?;
    let mut regions: Vec<_> = parts.regions().collect();
    let mut attempt = 1;
    loop {
        match outside.publish(&mut regions) {
            // Said of the moment, not of the program: so not at once the end.
            Err(OutsideError::Trace(TraceError::Stuck { tid }))
                if attempt < ATTEMPTS && !interrupt.came() =>
            {
                eprintln!(
                    "heliostat: thread {tid} does not stand still; attempt {attempt} of {ATTEMPTS}"
                );
            }
            answer => return answer.map_err(failed),
        }
        attempt += 1;
        std::thread::sleep(PAUSE);
    }
}

/// Waits; false once the program is not there any more, or somebody interrupts.
fn goes_on_after(outside: &Outside, interrupt: &Interrupt, pause: Duration) -> bool {
    let ends = Instant::now() + pause;
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        let goes_on = outside.is_there() && !interrupt.came();
        if !goes_on || left.is_zero() {
            return goes_on;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

fn tracking(arguments: &PublishArguments) -> Tracking {
    match (arguments.force_tracking, arguments.no_tracking) {
        (true, _) => Tracking::Forced,
        (_, true) => Tracking::Never,
        _ => Tracking::Careful,
    }
}

/// A version as one line.
fn said(parts: &Parts, round: &Round, is_json: bool) -> String {
    let made = round.versions.iter().flatten();
    let copied: usize = made.clone().map(|it| it.copied_bytes).sum();
    let failed: Vec<&PublishError> =
        round.versions.iter().filter_map(|it| it.as_ref().err()).collect();
    if is_json {
        let versions: Vec<_> = parts.described(&round.versions).collect();
        let line = json!({
            "regions": versions, "threads": round.threads, "stopped_ns": round.stopped_ns,
            "copied_bytes": copied, "copied_while_stopped_bytes": round.stopped_bytes,
        });
        return format!("{line}\n");
    }
    let sizes = [parts.promised(), copied as u64, round.stopped_bytes as u64];
    let [all, copied, at_stop] = sizes.map(bytes);
    let mut text = format!(
        "{}: {} of {all}, copied {copied} ({at_stop} of it while stopped), stopped {:.3} ms, {} threads\n",
        parts.name(),
        match made.map(|it| it.number).max() {
            Some(number) => format!("version {number}"),
            None => "no version".to_owned(),
        },
        round.stopped_ns as f64 / 1e6,
        round.threads,
    );
    failed.iter().for_each(|error| text.push_str(&format!("  not published: {error}\n")));
    text
}

/// Shows what can be published of a program.
pub fn memory(pid: i32) -> Result<(), SnapshotError> {
    let failed = |error| SnapshotError::Outside { pid, error };
    let outside = Outside::open(pid, Tracking::Never).map_err(failed)?;
    let mut table = Table::new(&["--memory", "#size", "rights", "name"]);
    for it in outside.mappings().map_err(failed)?.iter().filter(|it| it.is_readable) {
        let range = format!("{:#x}+{:#x}", it.pages.start, it.pages.len());
        let rights = format!(
            "r{}{}",
            if it.is_writable { 'w' } else { '-' },
            if it.is_shared { 's' } else { 'p' }
        );
        table.row([range, bytes(it.pages.len() as u64), rights, it.name.clone()]);
    }
    Ok(print(&table.render())?)
}
