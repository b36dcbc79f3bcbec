//! Records of regions in the cluster's registry.
//!
//! ```text
//! thread --Ask--> daemon: ask_registry ... registry_ended --> thread
//! ```
//! A record's key is `replicas/UID/NAME`, where a capital letter is `_` and the small one, and `_` is
//! `__`: keys have no capital letters. A name whose key would be too long has no region on several nodes.

use heliostat_backend_registry::{Key, Operation, Outcome, Value, Write};
use heliostat_base::clock::monotonic_ns;
use heliostat_server_replica::{AskRecord, Records, SERVICE};

use crate::daemon::Daemon;
use crate::state::replica::{News, ReplicaEvent};

/// How long the registry may take.
const ASK_NS: u64 = 2_000_000_000;

/// Records by the registry that the daemon has.
pub fn by_registry(news: News) -> Records {
    Records::Registry(Box::new(move |asked| news.tell(ReplicaEvent::Ask(asked))))
}

impl Daemon {
    /// The thread asks for a record.
    pub(super) fn ask_record(&mut self, asked: AskRecord) {
        let AskRecord { token, key, write } = asked;
        let operation = registry_key(&key).and_then(|key| match write {
            None => Some(Operation::Get { key }),
            Some((expected, record)) => {
                let value = if record.is_empty() { None } else { Some(Value::new(record)?) };
                let write = Write { key, expected, value, is_leased: false, guard: None };
                Some(Operation::Write(write))
            }
        });
        let deadline_ns = monotonic_ns().saturating_add(ASK_NS);
        let is_asked =
            operation.is_some_and(|it| self.ask_registry(SERVICE, token, it, deadline_ns));
        if !is_asked {
            self.tell_record(token, None);
        }
    }

    /// The registry has answered.
    pub(super) fn record_came(&mut self, token: u64, outcome: Outcome) {
        let answer = match outcome {
            Outcome::Found(record) => Some((record.revision, record.value.bytes().to_vec())),
            Outcome::Done { revision } => Some((revision, Vec::new())),
            Outcome::Absent { .. } | Outcome::Conflict { .. } => Some((0, Vec::new())),
            // Not done, or nobody knows: it is asked again.
            _ => None,
        };
        self.tell_record(token, answer);
    }

    fn tell_record(&self, token: u64, answer: Option<(u64, Vec<u8>)>) {
        if let Some(replica) = &self.services.replica {
            replica.replicas.record(token, answer);
        }
    }
}

fn registry_key(key: &str) -> Option<Key> {
    let mut text = String::from("replicas/");
    for letter in key.chars() {
        match letter {
            '_' => text.push_str("__"),
            'A'..='Z' => text.extend(['_', letter.to_ascii_lowercase()]),
            other => text.push(other),
        }
    }
    Key::parse(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_have_keys_that_differ() {
        let all = ["0/kv", "0/Kv", "0/_kv", "0/k_v", "0/KV", "1/kv", "0/k.v"].map(registry_key);
        let texts: std::collections::HashSet<_> =
            all.iter().map(|key| key.as_ref().unwrap().as_str()).collect();
        assert_eq!(texts.len(), all.len());
    }
}
