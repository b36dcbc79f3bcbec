//! What was asked, what was done, and what each caller was told: the three have to agree.

use std::collections::BTreeMap;

use heliostat_backend_transport::error::{CallError, CallFailure, Effect};
use heliostat_backend_transport::frame::CallId;

/// What identifies a request in the whole schedule.
pub type RequestId = u64;

/// How many calls and posts ended in which way.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ends {
    answered: u64,
    posted: u64,
    refused: u64,
    not_sent: u64,
    unknown_done: u64,
    unknown_not_done: u64,
    too_late: u64,
    withdrawn: u64,
    lost: u64,
    full: u64,
    caller_died: u64,
}

impl Ends {
    fn values(&self) -> [u64; 11] {
        [
            self.answered,
            self.posted,
            self.refused,
            self.not_sent,
            self.unknown_done,
            self.unknown_not_done,
            self.too_late,
            self.withdrawn,
            self.lost,
            self.full,
            self.caller_died,
        ]
    }

    pub fn add(&mut self, other: &Ends) {
        self.answered += other.answered;
        self.posted += other.posted;
        self.refused += other.refused;
        self.not_sent += other.not_sent;
        self.unknown_done += other.unknown_done;
        self.unknown_not_done += other.unknown_not_done;
        self.too_late += other.too_late;
        self.withdrawn += other.withdrawn;
        self.lost += other.lost;
        self.full += other.full;
        self.caller_died += other.caller_died;
    }

    pub fn all_happened(&self) -> bool {
        self.values().into_iter().all(|count| count > 0)
    }
}

/// Who called: a node, and which life of it.
pub type Caller = (usize, u64);

#[derive(Debug)]
struct Begun {
    request: RequestId,
    deadline_ns: u64,
    is_post: bool,
}

/// The books of one schedule.
#[derive(Default)]
pub struct Ledger {
    requests: RequestId,
    /// Calls without an end.
    begun: BTreeMap<(Caller, CallId), Begun>,
    /// How often each request was done.
    done: BTreeMap<RequestId, u64>,
    /// What may not have been done, and by which word.
    denied: Vec<(RequestId, &'static str)>,
    unknown: Vec<RequestId>,
    ends: Ends,
}

/// The only right answer to a request, as long as what was asked.
pub fn answer_to(request: RequestId, bytes: usize) -> Vec<u8> {
    let word = request.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    word.into_iter().cycle().take(bytes.max(word.len())).collect()
}

/// What a request carries, of a length that follows from it.
pub fn payload_of(request: RequestId, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (request as usize).wrapping_add(at.wrapping_mul(31)) as u8).collect()
}

impl Ledger {
    pub fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        self.requests
    }

    pub fn begin(
        &mut self,
        caller: Caller,
        call: CallId,
        request: RequestId,
        deadline_ns: u64,
        is_post: bool,
    ) {
        let before = self.begun.insert((caller, call), Begun { request, deadline_ns, is_post });
        assert!(before.is_none(), "{call:?} was given to two calls");
    }

    /// A call was not made at all.
    pub fn not_begun(&mut self, request: RequestId, error: CallError) {
        assert_eq!(error.effect, Effect::NotSent);
        self.ends.full += u64::from(error.why == CallFailure::Full);
        self.denied.push((request, "not begun"));
    }

    /// A server does what is asked.
    pub fn do_request(&mut self, request: RequestId, payload: &[u8]) {
        assert!(request <= self.requests, "request {request} was invented");
        assert_eq!(payload, payload_of(request, payload.len()), "request {request} was changed");
        *self.done.entry(request).or_default() += 1;
    }

    pub fn answer(&mut self, now_ns: u64, caller: Caller, call: CallId, payload: &[u8]) {
        let begun = self.end(now_ns, caller, call);
        assert!(!begun.is_post);
        assert_eq!(
            payload,
            answer_to(begun.request, payload.len()),
            "the answer to {} was invented",
            begun.request
        );
        assert_eq!(
            self.done.get(&begun.request),
            Some(&1),
            "{} was answered and not done",
            begun.request
        );
        self.ends.answered += 1;
    }

    pub fn posted(&mut self, now_ns: u64, caller: Caller, call: CallId) {
        let begun = self.end(now_ns, caller, call);
        assert!(begun.is_post);
        self.ends.posted += 1;
    }

    pub fn fail(&mut self, now_ns: u64, caller: Caller, call: CallId, error: CallError) {
        let begun = self.end(now_ns, caller, call);
        match error.why {
            CallFailure::Deadline => {
                assert_eq!(now_ns, begun.deadline_ns, "{} ended at another time", begun.request);
                self.ends.too_late += 1;
            }
            CallFailure::Withdrawn => self.ends.withdrawn += 1,
            CallFailure::Lost(_) => self.ends.lost += 1,
            CallFailure::Refused => assert_eq!(error.effect, Effect::Refused),
            other => panic!("a call that was made failed by {other:?}"),
        }
        match error.effect {
            Effect::NotSent => {
                self.ends.not_sent += 1;
                self.denied.push((begun.request, "not sent"));
            }
            Effect::Refused => {
                self.ends.refused += 1;
                self.denied.push((begun.request, "refused"));
            }
            Effect::Unknown => self.unknown.push(begun.request),
        }
    }

    fn end(&mut self, now_ns: u64, caller: Caller, call: CallId) -> Begun {
        let begun = self.begun.remove(&(caller, call));
        let begun =
            begun.unwrap_or_else(|| panic!("{call:?} of {caller:?} ended twice, or never began"));
        assert!(now_ns <= begun.deadline_ns, "request {} ended too late", begun.request);
        begun
    }

    /// How many calls had no answer in time.
    pub fn too_late(&self) -> u64 {
        self.ends.too_late
    }

    /// A caller died: nobody waits for its calls.
    pub fn caller_died(&mut self, caller: Caller) {
        let before = self.begun.len();
        self.begun.retain(|(of, _), _| *of != caller);
        self.ends.caller_died += (before - self.begun.len()) as u64;
    }

    /// When everything rests: nothing waits, and nothing happened that was denied, or twice.
    pub fn finish(&mut self) -> Ends {
        assert!(self.begun.is_empty(), "calls without an end: {:?}", self.begun);
        for (request, word) in &self.denied {
            assert!(!self.done.contains_key(request), "request {request}, {word}, was done");
        }
        for (request, times) in &self.done {
            assert_eq!(*times, 1, "request {request} was done {times} times");
        }
        let done = self.unknown.iter().filter(|request| self.done.contains_key(*request)).count();
        self.ends.unknown_done = done as u64;
        self.ends.unknown_not_done = (self.unknown.len() - done) as u64;
        self.ends.clone()
    }
}
