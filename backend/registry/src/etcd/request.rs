//! One operation as etcd's requests, and what their answers mean.

use serde_json::{json, Value as Json};

use super::client::Client;
use super::failure::Failure;
use super::json::{encode, end_of, number, record, revision, signed};
use super::{current, set_current, CurrentLease};
use crate::key::Key;
use crate::registry::{Guard, Operation, Outcome, Record, Why, Write, LISTED_MAX};

// Of gRPC: what an error of etcd is.
const DEADLINE: i64 = 4;
const NOT_FOUND: i64 = 5;
const UNKNOWN_ERROR: i64 = 2;
const INTERNAL: i64 = 13;
const UNAVAILABLE: i64 = 14;

/// Does an operation; waits for it, not longer than its deadline.
pub(crate) fn carry_out(
    client: &Client,
    lease: &CurrentLease,
    operation: Operation,
    deadline_ns: u64,
) -> Outcome {
    let is_read = matches!(operation, Operation::Get { .. } | Operation::List { .. });
    let asked = Asked { client, lease, deadline_ns };
    let outcome = match operation {
        Operation::Get { key } => asked.get(&key),
        Operation::List { prefix, after } => asked.list(&prefix, after.as_ref()),
        Operation::Write(write) => asked.write(write),
        Operation::Lease { ttl_ms } => asked.begin(ttl_ms),
        Operation::KeepAlive => asked.keep(),
        Operation::EndLease => asked.end(),
    };
    match outcome {
        Ok(outcome) => outcome,
        Err(Failure::NotSent(why)) => Outcome::NotDone(Why::Unreachable(why)),
        Err(Failure::Lost(why)) if is_read => Outcome::NotDone(Why::Unreachable(why)),
        Err(Failure::Lost(why)) => Outcome::Unknown(Why::Unreachable(why)),
        Err(Failure::Error(code, why)) => match code {
            NOT_FOUND => Outcome::NotDone(Why::NoLease),
            DEADLINE | UNKNOWN_ERROR | INTERNAL | UNAVAILABLE if is_read => {
                Outcome::NotDone(Why::Unreachable(why))
            }
            DEADLINE | UNKNOWN_ERROR | INTERNAL | UNAVAILABLE => {
                Outcome::Unknown(Why::Unreachable(why))
            }
            _ => Outcome::NotDone(Why::Refused(why)),
        },
    }
}

struct Asked<'a> {
    client: &'a Client,
    lease: &'a CurrentLease,
    deadline_ns: u64,
}

/// An answer that etcd never gives.
fn malformed(what: &str) -> Failure {
    Failure::Lost(format!("its answer has no {what}"))
}

impl Asked<'_> {
    fn ask(&self, path: &str, body: &Json) -> Result<Json, Failure> {
        self.client.ask(path, body, self.deadline_ns)
    }

    fn place(&self, key: &Key) -> Json {
        encode(format!("{}{key}", self.client.prefix()).as_bytes())
    }

    fn get(&self, key: &Key) -> Result<Outcome, Failure> {
        let answer = self.ask("/v3/kv/range", &json!({ "key": self.place(key) }))?;
        let revision = revision(&answer).ok_or_else(|| malformed("revision"))?;
        match &answer["kvs"][0] {
            Json::Null => Ok(Outcome::Absent { revision }),
            entry => Ok(match record(entry, self.client.prefix()) {
                Some(record) => Outcome::Found(record),
                None => Outcome::NotDone(Why::Malformed(format!("the record of {key}"))),
            }),
        }
    }

    fn list(&self, prefix: &Key, after: Option<&Key>) -> Result<Outcome, Failure> {
        let first = format!("{}{prefix}", self.client.prefix());
        let end = end_of(first.as_bytes());
        let from = match after {
            // The first text behind a key is the key with a byte 0.
            Some(key) if key >= prefix => format!("{}{key}\0", self.client.prefix()),
            _ => first,
        };
        let body = json!({
            "key": encode(from.as_bytes()),
            "range_end": encode(&end),
            "limit": LISTED_MAX,
        });
        let answer = self.ask("/v3/kv/range", &body)?;
        let revision = revision(&answer).ok_or_else(|| malformed("revision"))?;
        let entries = answer["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
        // A record that we would not have written is nobody's.
        let records = entries.iter().filter_map(|entry| record(entry, self.client.prefix()));
        let records: Vec<_> = records.take(LISTED_MAX).collect();
        let has_more = answer["more"].as_bool().unwrap_or(false) && !records.is_empty();
        Ok(Outcome::Listed { records, revision, has_more })
    }

    fn write(&self, write: Write) -> Result<Outcome, Failure> {
        let Write { key, expected, value, is_leased, guard } = write;
        if key.as_str().is_empty() {
            let why = "a record's key is not empty".to_owned();
            return Ok(Outcome::NotDone(Why::Refused(why)));
        }
        let lease = if is_leased && value.is_some() { current(self.lease) } else { Some(0) };
        let Some(lease) = lease else { return Ok(Outcome::NotDone(Why::NoLease)) };
        let place = self.place(&key);
        let done = match &value {
            Some(value) => json!({ "request_put": {
                "key": place, "value": encode(value.bytes()), "lease": lease.to_string(),
            }}),
            None => json!({ "request_delete_range": { "key": place } }),
        };
        let is_so = |key: &Key, revision: u64| {
            json!({
                "key": self.place(key), "target": "MOD", "result": "EQUAL",
                "mod_revision": revision.to_string(),
            })
        };
        let look = |key: &Key| json!({ "request_range": { "key": self.place(key) } });
        let (mut compare, mut otherwise) = (vec![is_so(&key, expected)], vec![look(&key)]);
        if let Some(guard) = &guard {
            compare.push(is_so(&guard.key, guard.revision));
            otherwise.push(look(&guard.key));
        }
        let body = json!({ "compare": compare, "success": [done], "failure": otherwise });
        let answer = self.ask("/v3/kv/txn", &body)?;
        let revision = revision(&answer).ok_or_else(|| malformed("revision"))?;
        if answer["succeeded"].as_bool().unwrap_or(false) {
            return Ok(Outcome::Done { revision });
        }
        Ok(self.not_so(&answer, guard))
    }

    /// A write was not done: what is there.
    fn not_so(&self, answer: &Json, guard: Option<Guard>) -> Outcome {
        let found = |at: usize| &answer["responses"][at]["response_range"]["kvs"][0];
        let guarded = number(&found(1)["mod_revision"]);
        if guard.is_some_and(|guard| guarded != Some(guard.revision)) {
            return Outcome::Unguarded;
        }
        let found: Option<Record> = match found(0) {
            Json::Null => None,
            entry => match record(entry, self.client.prefix()) {
                Some(record) => Some(record),
                None => return Outcome::NotDone(Why::Malformed("what is there".to_owned())),
            },
        };
        Outcome::Conflict { found }
    }

    fn begin(&self, ttl_ms: u64) -> Result<Outcome, Failure> {
        // Where the earlier one cannot be ended it runs out.
        let _ = self.end();
        let ttl = ttl_ms.div_ceil(1_000).max(1).to_string();
        let answer = self.ask("/v3/lease/grant", &json!({ "TTL": ttl, "ID": "0" }))?;
        let id = signed(&answer["ID"]).ok_or_else(|| malformed("lease"))?;
        set_current(self.lease, Some(id));
        Ok(Outcome::Done { revision: revision(&answer).unwrap_or(0) })
    }

    fn keep(&self) -> Result<Outcome, Failure> {
        let Some(id) = current(self.lease) else { return Ok(Outcome::NotDone(Why::NoLease)) };
        let answer = self.ask("/v3/lease/keepalive", &json!({ "ID": id.to_string() }))?;
        let kept = &answer["result"];
        if kept.is_null() {
            return Err(malformed("lease"));
        }
        match number(&kept["TTL"]) {
            Some(ttl) if ttl > 0 => Ok(Outcome::Done { revision: revision(kept).unwrap_or(0) }),
            _ => Ok(Outcome::NotDone(Why::NoLease)),
        }
    }

    fn end(&self) -> Result<Outcome, Failure> {
        let Some(id) = current(self.lease) else { return Ok(Outcome::Done { revision: 0 }) };
        set_current(self.lease, None);
        let answer = self.ask("/v3/lease/revoke", &json!({ "ID": id.to_string() }))?;
        Ok(Outcome::Done { revision: revision(&answer).unwrap_or(0) })
    }
}
