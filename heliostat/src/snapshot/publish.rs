//! `heliostat snapshot publish`: versions of a program that knows nothing of it, by name.
//!
//! This process is the producer; the program is stopped for each version and left alone in
//! between. What its mappings are is looked up before each version: what came gets a region, what
//! went loses it. Mechanism: `stub/src/snapshot/outside.rs`; what it promises: docs/snapshots.md.

mod choose;
mod parts;
mod target;

use std::time::{Duration, Instant};

use heliostat_stub::snapshot::{Outside, OutsideError, PublishError, Round, Tracking};
use serde_json::json;

use super::args::PublishArguments;
use super::error::SnapshotError;
use super::live::open_session;
use crate::ensure;
use crate::place::surroundings;
use crate::show::print;
use crate::table::{bytes, Table};
use parts::Parts;
use target::Target;

/// Between two looks at whether the program is still there.
const LOOK: Duration = Duration::from_millis(200);

/// Publishes until the count is reached, the program ends or somebody interrupts.
pub fn publish(arguments: &PublishArguments) -> Result<(), SnapshotError> {
    let every = arguments.every;
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
    let mut parts = Parts::new(target, arguments.keep);
    let count = arguments.count.unwrap_or(if every.is_some() { u64::MAX } else { 1 });
    for done in 1..=count {
        let begun = Instant::now();
        match version(&outside, &mut parts) {
            Err(SnapshotError::Outside { .. }) if done > 1 && !outside.is_there() => break,
            answer => print(&said(&parts, &answer?, arguments.format.json))?,
        }
        let pause = every.unwrap_or_default().saturating_sub(begun.elapsed());
        if done < count && !is_there_after(&outside, pause) {
            break;
        }
    }
    if !outside.is_there() {
        eprintln!("heliostat: process {} has ended, or runs another program now", parts.pid());
        return Ok(());
    }
    while !arguments.once && is_there_after(&outside, LOOK) {}
    Ok(())
}

/// One version of all parts.
fn version(outside: &Outside, parts: &mut Parts) -> Result<Round, SnapshotError> {
    let pid = parts.pid();
    let failed = |error| SnapshotError::Outside { pid, error };
    parts.follow(outside)?;
    let mut regions: Vec<_> = parts.regions().collect();
    loop {
        match outside.publish(&mut regions) {
            // Said of the moment, not of the program.
            Err(OutsideError::Trace(heliostat_base::tracee::TraceError::Stuck { tid })) => {
                eprintln!("heliostat: thread {tid} does not stand still; trying again");
            }
            answer => return answer.map_err(failed),
        }
    }
}

/// Waits; false once the program is not there any more.
fn is_there_after(outside: &Outside, pause: Duration) -> bool {
    let ends = Instant::now() + pause;
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        if !outside.is_there() || left.is_zero() {
            return outside.is_there();
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
    let at_stop = copied.saturating_sub(round.ahead_bytes);
    let failed: Vec<&PublishError> =
        round.versions.iter().filter_map(|it| it.as_ref().err()).collect();
    if is_json {
        let versions: Vec<_> = parts.described(&round.versions).collect();
        let line = json!({
            "regions": versions, "threads": round.threads, "stopped_ns": round.stopped_ns,
            "copied_bytes": copied, "copied_while_stopped_bytes": at_stop,
        });
        return format!("{line}\n");
    }
    let [all, copied, at_stop] = [parts.promised(), copied as u64, at_stop as u64].map(bytes);
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
