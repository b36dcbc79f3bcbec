//! `heliostat snapshot watch`: the versions of a region as they come, a line for each look.
//!
//! A look costs the producer one wake-up. At most ten a second are made; what came between two of
//! them is counted as missed, and the line is about the newest.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heliostat_abi::code::Code;
use heliostat_base::clock::monotonic_ns;
use heliostat_stub_snapshot::{AttachError, Attachment, NamedError, PinError};
use serde_json::json;

use super::error::SnapshotError;
use super::live::{attached, await_newer};
use crate::args::snapshot::WatchArguments;
use crate::show::print;
use crate::table::bytes;

/// Least time between two lines.
const PERIOD: Duration = Duration::from_millis(100);
/// Time between two looks for a name that nobody has.
const NAME_PERIOD: Duration = Duration::from_millis(500);

/// What a line tells.
struct Line {
    generation: u64,
    number: u64,
    published_ns: u64,
    written: u64,
    copied: u64,
    length: u64,
    interval_ns: Option<u64>,
    missed: u64,
}

/// Follows a region until its producer ends, or for ever.
pub fn watch(asked: &WatchArguments) -> Result<(), SnapshotError> {
    if !asked.json {
        print("     version  time (UTC)       written      copied   dirty    interval  missed\n")?;
    }
    let mut before = None;
    loop {
        let region = find(asked, before.as_ref())?;
        follow(asked, &region)?;
        if !asked.follow {
            eprintln!("heliostat: the producer has ended");
            return Ok(());
        }
        before = Some(region);
    }
}

/// The region, attached; with `--follow` as soon as somebody has the name, and another producer
/// than `before`.
fn find(asked: &WatchArguments, before: Option<&Attachment>) -> Result<Attachment, SnapshotError> {
    let region = &asked.region;
    loop {
        // The name of a producer that died is free a moment after its regions are known as ended.
        let found = match before {
            Some(before) => before.successor().map_err(|error| {
                let name = region.region.clone();
                SnapshotError::Region { name, error }
            }),
            None => attached(&region.place, &region.region, region.owner).map(Some),
        };
        match found {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            Err(error) if asked.follow && may_pass(&error, before.is_some()) => {}
            Err(error) => return Err(error),
        }
        std::thread::sleep(NAME_PERIOD);
    }
}

/// Nobody has the name, or (of one that was there) the control plane is being started anew.
fn may_pass(error: &SnapshotError, was_there: bool) -> bool {
    match error {
        SnapshotError::Region { error: NamedError::Refused(Code::NotFound, _), .. } => true,
        SnapshotError::Region { error: NamedError::Control(_), .. } => was_there,
        _ => false,
    }
}

/// Prints a line for each look, until the producer ends.
fn follow(asked: &WatchArguments, region: &Attachment) -> Result<(), SnapshotError> {
    let mut last: Option<(u64, u64)> = None;
    while await_newer(region, last.map_or(0, |(number, _)| number)) {
        let version = match region.latest() {
            Ok(version) => version,
            Err(AttachError::Pin(PinError::Busy)) => {
                std::thread::sleep(PERIOD);
                continue;
            }
            Err(error) => {
                let (name, alive) = (asked.region.region.clone(), region.alive());
                return Err(SnapshotError::Version { name, alive, error });
            }
        };
        let (number, published_ns) = (version.number(), version.published_ns());
        let (written, copied) = version.cost();
        drop(version);
        let line = Line {
            generation: region.generation(),
            number,
            published_ns,
            written,
            copied,
            length: region.shape().length,
            interval_ns: last.map(|(_, before)| published_ns.saturating_sub(before)),
            missed: last.map_or(0, |(before, _)| number.saturating_sub(before + 1)),
        };
        print(&if asked.json { line.json() } else { line.text() })?;
        last = Some((number, published_ns));
        std::thread::sleep(PERIOD);
    }
    Ok(())
}

impl Line {
    /// The part of the region that was written. Whole pages are counted, also of a region that does
    /// not fill its last one.
    fn dirty(&self) -> f64 {
        (self.written as f64 / self.length as f64).min(1.0)
    }

    fn json(&self) -> String {
        let said = json!({
            "generation": self.generation, "version": self.number,
            "published_ns": self.published_ns, "written_bytes": self.written,
            "copied_bytes": self.copied, "dirty": self.dirty(),
            "interval_ns": self.interval_ns, "missed": self.missed,
        });
        format!("{said}\n")
    }

    fn text(&self) -> String {
        let ms = |ns: u64| format!("{:.1} ms", ns as f64 / 1e6);
        format!(
            "{:>12}  {}  {:>10}  {:>10}  {:>5.1}%  {:>10}  {:>6}\n",
            self.number,
            time_of_day(self.published_ns),
            bytes(self.written),
            bytes(self.copied),
            100.0 * self.dirty(),
            self.interval_ns.map_or(String::new(), ms),
            self.missed,
        )
    }
}

/// The time of day in UTC at a time of the monotonic clock.
fn time_of_day(at_ns: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age = Duration::from_nanos(monotonic_ns().saturating_sub(at_ns));
    let at = now.saturating_sub(age);
    let (s, ms) = (at.as_secs() % 86_400, at.subsec_millis());
    format!("{:02}:{:02}:{:02}.{ms:03}", s / 3600, s / 60 % 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_of_a_region_that_does_not_fill_them_are_no_more_than_all_of_it() {
        let (length, written) = (12_288, 16_384);
        let line = Line {
            generation: 1,
            number: 1,
            published_ns: 0,
            written,
            copied: written,
            length,
            interval_ns: None,
            missed: 0,
        };
        assert!(line.text().contains(" 100.0%"), "{}", line.text());
        assert!(line.json().contains(r#""dirty":1.0"#), "{}", line.json());
    }
}
