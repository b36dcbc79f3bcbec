//! etcd's records as its gateway writes them: numbers as text, bytes in base64. All of it is foreign.

use base64::prelude::{Engine, BASE64_STANDARD};
use serde_json::Value as Json;

use crate::key::{Key, Value};
use crate::registry::Record;

/// Bytes, as the gateway has them.
pub(crate) fn encode(bytes: &[u8]) -> Json {
    Json::String(BASE64_STANDARD.encode(bytes))
}

/// A number that is written as text, or as a number; absent where it is 0.
pub(crate) fn number(json: &Json) -> Option<u64> {
    match json {
        Json::Null => Some(0),
        Json::String(text) => text.parse().ok(),
        other => other.as_u64(),
    }
}

/// The same with a sign: a lease's.
pub(crate) fn signed(json: &Json) -> Option<i64> {
    match json {
        Json::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}

fn bytes(json: &Json) -> Option<Vec<u8>> {
    match json {
        Json::Null => Some(Vec::new()),
        other => BASE64_STANDARD.decode(other.as_str()?).ok(),
    }
}

/// The registry's revision in an answer's head.
pub(crate) fn revision(answer: &Json) -> Option<u64> {
    number(&answer["header"]["revision"]).filter(|revision| *revision > 0)
}

/// A key of ours.
pub(crate) fn key(entry: &Json, prefix: &str) -> Option<Key> {
    let bytes = bytes(&entry["key"])?;
    let text = std::str::from_utf8(&bytes).ok()?;
    Key::parse(text.strip_prefix(prefix)?)
}

/// A record of ours; none where key or value is nothing that we would have written.
pub(crate) fn record(entry: &Json, prefix: &str) -> Option<Record> {
    let key = key(entry, prefix)?;
    let revision = number(&entry["mod_revision"])?;
    let value = Value::new(bytes(&entry["value"])?)?;
    Some(Record { key, revision, value })
}

/// The end of all keys that begin so.
pub(crate) fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    // Keys are ASCII: the last byte is never the largest.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn records_are_read_and_foreign_ones_are_none() {
        let entry = json!({"key": "L2gvYS8x", "mod_revision": "7", "value": "eA=="});
        let record = record(&entry, "/h/").unwrap();
        assert_eq!((record.key.as_str(), record.revision), ("a/1", 7));
        assert_eq!(record.value.bytes(), b"x");
        for wrong in [
            json!({"key": "L2gvYS8x", "mod_revision": "7", "value": "!"}),
            json!({"key": "L2gvYS8x", "mod_revision": "-7"}),
            json!({"key": 3}),
            json!({"key": encode(b"/other/a")}),
            json!({"key": encode(b"/h/\xff")}),
            json!({"key": "L2gvYS8x", "mod_revision": "7", "value": encode(&[0; 4097])}),
        ] {
            assert_eq!(super::record(&wrong, "/h/"), None, "{wrong}");
        }
    }

    #[test]
    fn the_end_of_a_prefix_is_behind_all_that_begin_so() {
        assert_eq!(end_of(b"/h/"), b"/h0");
    }
}
