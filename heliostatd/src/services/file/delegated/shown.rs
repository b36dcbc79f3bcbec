//! What sessions have open, for people: which ways their transfers took, and why.

use std::os::fd::AsFd;

use heliostat_abi::name::ObjectId;
use heliostat_backend_lease::resident::resident_bytes;
use heliostat_server_file::{FileStats, WayReason, SMALL_BYTES};
use rustix::fs::fstat;
use serde_json::{json, Map, Value};

use super::devices::number_text;
use crate::daemon::Daemon;
use crate::state::file::delegated::{KnownFile, Why};

/// Small reads of a file that are worth saying that a mapping would do: as many as it takes for the
/// stub to map one (docs/files.md).
const SMALL_READS_MIN: u64 = 256;
/// What of a long file is looked at: 4,096 pages.
const LOOKED_AT_BYTES: u64 = 16 << 20;
/// Percent of it that has to be in memory, as for the stub.
const RESIDENT_PERCENT_MIN: u64 = 75;

impl Daemon {
    /// The files that a session has open, for people.
    pub(crate) fn delegated_files(&self, id: ObjectId) -> Vec<Value> {
        let held = self.services.file.delegated.as_ref().and_then(|it| it.sessions.get(&id));
        let mut files: Vec<_> = held.into_iter().flat_map(|held| &held.files).collect();
        files.sort_by_key(|(serial, _)| **serial);
        files.into_iter().map(|(_, seen)| self.delegated_file(seen)).collect()
    }

    fn delegated_file(&self, seen: &KnownFile) -> Value {
        let is_over = |lease: ObjectId| !self.node.lease_word(lease).is_active();
        let why = if seen.lease.is_some_and(is_over) { Why::Broken } else { seen.why };
        let asked = if seen.is_buffered { "; it was opened for the buffered way" } else { "" };
        let stats = &seen.stats;
        let reasons = stats.reasons().map(|(reason, count)| {
            json!({ "reason": reason.name(), "count": count, "text": reason.text() })
        });
        let [last_read, last_write] = stats.last().map(|reason| reason.map(WayReason::name));
        json!({
            "path": seen.path,
            "ways": ways_json(stats),
            "why": format!("{}{asked}", why.text()),
            "buffered": seen.is_buffered,
            "followed": stats.followed(),
            "found_ahead": stats.found(),
            "device": seen.device.as_ref().map(|device| number_text(device.number)),
            "reasons": reasons.collect::<Vec<_>>(),
            "last_read": last_read,
            "last_write": last_write,
            "small_reads": stats.small(),
            "mapping": mapping_json(seen, why),
        })
    }
}

/// Whether a program of this system would rather map the file, with what speaks for it; null where it
/// would not.
fn mapping_json(seen: &KnownFile, why: Why) -> Value {
    let small = seen.stats.small();
    if why != Why::Leased || small < SMALL_READS_MIN {
        return Value::Null;
    }
    let Ok(status) = fstat(&seen.buffered) else { return Value::Null };
    let looked_at = (status.st_size.max(0) as u64).min(LOOKED_AT_BYTES);
    let Ok(resident) = resident_bytes(seen.buffered.as_fd(), (0, looked_at)) else {
        return Value::Null;
    };
    let percent = (resident.saturating_mul(100) / looked_at.max(1)).min(100);
    if percent < RESIDENT_PERCENT_MIN {
        return Value::Null;
    }
    json!({ "small_reads": small, "of_bytes": SMALL_BYTES, "resident_percent": percent })
}

/// Transfers and bytes of each way that was taken.
fn ways_json(stats: &FileStats) -> Value {
    let each = stats.taken().map(|(way, transfers, bytes)| {
        (way.name().to_owned(), json!({ "transfers": transfers, "bytes": bytes }))
    });
    Value::Object(each.collect::<Map<_, _>>())
}
