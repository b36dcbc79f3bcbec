//! A watch: a thread that reads a stream of changes, and begins it anew behind the last one it told.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{sleep, Builder};
use std::time::Duration;

use heliostat_base::clock::monotonic_ns;
use serde_json::{json, Value as Json};

use super::client::Client;
use super::json::{encode, end_of, key, number, record};
use super::Told;
use crate::key::Key;
use crate::registry::{Change, Event, WatchId};

/// How long one stream lasts: a connection that died silently is noticed after it.
const STREAM_NS: u64 = 5_000_000_000;
/// A stream that lasts less has been cut off.
const SHORT_NS: u64 = 100_000_000;
/// How long etcd is left alone after it did not answer.
const PAUSE: Duration = Duration::from_millis(250);
/// Bytes of one line: a change of every record of a large transaction.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// Ends a watch's thread, within the time of one stream.
pub(crate) struct Ending(Arc<Mutex<bool>>);

impl Ending {
    pub(crate) fn end(self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

struct Watch {
    client: Client,
    id: WatchId,
    prefix: Key,
    /// What it told last.
    after: u64,
    told: Told,
    is_ended: Arc<Mutex<bool>>,
}

/// How a stream ended.
enum End {
    /// It is begun anew.
    Again,
    /// etcd was not reached, or answered nothing that can be read.
    Failed,
    /// Nobody wants it any more.
    Unwanted,
    /// Changes were missed.
    Broken(String),
}

/// Begins to watch.
pub(crate) fn start(client: Client, id: WatchId, prefix: Key, after: u64, told: Told) -> Ending {
    let is_ended = Arc::new(Mutex::new(false));
    let ending = Ending(is_ended.clone());
    let mut watch = Watch { client, id, prefix, after, told: told.clone(), is_ended };
    let thread = Builder::new().name("registry-watch".to_owned()).spawn(move || watch.run());
    if let Err(error) = thread {
        told.tell(Event::Broken { watch: id, why: format!("no thread: {error}") });
    }
    ending
}

impl Watch {
    fn run(&mut self) {
        loop {
            let begun_ns = monotonic_ns();
            match self.stream() {
                // One that etcd ends as soon as it has begun is not begun as fast as that.
                End::Again if monotonic_ns().saturating_sub(begun_ns) < SHORT_NS => sleep(PAUSE),
                End::Again => {}
                End::Failed => {
                    // It may have been for the token.
                    self.client.forget_token();
                    self.client.pass_on();
                    sleep(PAUSE);
                }
                End::Unwanted => return,
                End::Broken(why) => {
                    self.told.tell(Event::Broken { watch: self.id, why });
                    return;
                }
            }
        }
    }

    fn is_unwanted(&self) -> bool {
        *self.is_ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stream(&mut self) -> End {
        let first = format!("{}{}", self.client.prefix(), self.prefix);
        let body = json!({ "create_request": {
            "key": encode(first.as_bytes()),
            "range_end": encode(&end_of(first.as_bytes())),
            "start_revision": (self.after + 1).to_string(),
        }});
        if self.is_unwanted() {
            return End::Unwanted;
        }
        let deadline_ns = monotonic_ns().saturating_add(STREAM_NS);
        let Ok(response) = self.client.open("/v3/watch", &body.to_string(), deadline_ns) else {
            return End::Failed;
        };
        if !response.status().is_success() {
            return End::Failed;
        }
        let mut lines = BufReader::new(response.into_body().into_reader());
        let mut has_begun = false;
        loop {
            let mut line = Vec::new();
            let read = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let is_over = read.is_err() || line.last() != Some(&b'\n');
            if is_over || self.is_unwanted() {
                return if has_begun { End::Again } else { End::Failed };
            }
            let Ok(said) = serde_json::from_slice::<Json>(&line) else { return End::Failed };
            if let Err(end) = self.take(&said["result"]) {
                return end;
            }
            has_begun = true;
        }
    }

    fn take(&mut self, said: &Json) -> Result<(), End> {
        let revision = number(&said["header"]["revision"]).unwrap_or(0);
        if said["created"].as_bool().unwrap_or(false) && revision < self.after {
            let why = format!("etcd is at revision {revision}, before {}", self.after);
            return Err(End::Broken(why));
        }
        if said["canceled"].as_bool().unwrap_or(false) {
            let compacted = number(&said["compact_revision"]).unwrap_or(0);
            if compacted > 0 {
                return Err(End::Broken(format!("etcd keeps changes from {compacted} on")));
            }
            return Err(End::Failed);
        }
        let events = said["events"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut last = self.after;
        for event in events {
            let entry = &event["kv"];
            let Some(revision) = number(&entry["mod_revision"]) else { continue };
            last = last.max(revision);
            let Some(key) = key(entry, self.client.prefix()) else { continue };
            let is_deleted = event["type"].as_str() == Some("DELETE");
            let found = if is_deleted { None } else { record(entry, self.client.prefix()) };
            // One that holds what we would not have written holds nothing.
            let value = found.map(|record| record.value);
            let change = Change { key, revision, value };
            if !self.told.tell(Event::Changed { watch: self.id, change }) {
                return Err(End::Unwanted);
            }
        }
        // All changes of a revision come at once.
        self.after = last;
        Ok(())
    }
}
