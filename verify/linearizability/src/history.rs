//! What was recorded: calls with the times of their invocation and response.

use std::collections::BTreeMap;
use std::fmt;

/// One call. Times are of one clock for all processes, as CLOCK_MONOTONIC is on one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call<O, A> {
    /// Who called: one thread, which makes one call at a time.
    pub process: u64,
    /// When, taken before the call was made.
    pub invoked_ns: u64,
    /// When it had returned, and what it returned, if that is known.
    pub responded: Option<(u64, A)>,
    /// What was asked.
    pub operation: O,
}

/// Calls in any order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History<O, A> {
    calls: Vec<Call<O, A>>,
}

/// Why calls are no history: a mistake of whoever recorded them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// A call of this process responded before it was invoked.
    Backwards(u64),
    /// This process made a call before its last one had responded.
    Overlapping(u64),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backwards(process) => {
                write!(f, "a call of process {process} responded before it was invoked")
            }
            Self::Overlapping(process) => {
                write!(f, "process {process} made a call before its last one had responded")
            }
        }
    }
}

impl std::error::Error for Malformed {}

impl<O, A> History<O, A> {
    /// Takes calls in, in whatever order.
    ///
    /// # Errors
    /// They contradict each other.
    pub fn new(mut calls: Vec<Call<O, A>>) -> Result<Self, Malformed> {
        calls.sort_by_key(|call| call.invoked_ns);
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for call in &calls {
            let end = call.responded.as_ref().map_or(u64::MAX, |(at, _)| *at);
            if end < call.invoked_ns {
                return Err(Malformed::Backwards(call.process));
            }
            let before = last.insert(call.process, end).unwrap_or(0);
            if before > call.invoked_ns {
                return Err(Malformed::Overlapping(call.process));
            }
        }
        Ok(Self { calls })
    }

    /// The calls, by the time of their invocation.
    pub fn calls(&self) -> &[Call<O, A>] {
        &self.calls
    }

    /// One history for each object.
    pub fn by_object<K: Ord>(self, object: impl Fn(&O) -> K) -> BTreeMap<K, History<O, A>> {
        let mut parts: BTreeMap<K, History<O, A>> = BTreeMap::new();
        for call in self.calls {
            let part = parts.entry(object(&call.operation));
            part.or_insert_with(|| History { calls: Vec::new() }).calls.push(call);
        }
        parts
    }
}
