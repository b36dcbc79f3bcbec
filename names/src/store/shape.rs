//! The files of a log, and what an entry is in each.

use std::fmt::Write;

use heliostat_backend_log::format::Position;
use heliostat_backend_log::Entry;
use serde_json::json;

/// Which of the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// Payloads.
    Data,
    /// Lines.
    Records,
}

/// An entry as a line: a payload that is no text is written as digits.
pub(super) fn line(entry: &Entry) -> String {
    let Position { at, sequence } = entry.position;
    let bytes = entry.payload.len();
    let told = match std::str::from_utf8(&entry.payload) {
        Ok(text) => json!({ "at": at, "sequence": sequence, "bytes": bytes, "text": text }),
        Err(_) => {
            json!({ "at": at, "sequence": sequence, "bytes": bytes, "hex": hex(&entry.payload) })
        }
    };
    format!("{told}\n")
}

/// Two digits for each byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
