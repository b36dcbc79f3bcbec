//! What a process does with a member's number that another one had before it died.
//!
//! ```text
//! predecessor   submissions ... x                      its ring:  ... completions ...
//! successor                       Cancel(all of it) ->            ... ended, ended, 3 are left
//!                                 Cancel(all of it) ->            ended, ended, ended, 0 are left
//! ```
//! The ring's order says that the server knows all that the predecessor has submitted. What it answers
//! for that comes before its answer that nothing is left, so whatever comes afterwards is the successor's.

use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::joint::{all_of, tag_of};
use heliostat_abi::file::delegated::{
    Completion, OpKind, Operation, Pieces, COMPLETION_RECORD_BYTES, OPERATION_BYTES_MAX,
};
use heliostat_abi::name::ObjectId;
use heliostat_ring::doorbell::Patience;
use heliostat_ring::members::MembersPage;
use heliostat_ring::probe::Probe;
use heliostat_ring::turn::MemberId;
use heliostat_ring::{JointProducer, PushError, ReserveError, SpscConsumer, WaitError};

use super::super::error::DelegatedError;
use super::arrivals::SUBMITTERS_MAX;

/// How long a number is waited for: a device takes less; a file system that hangs keeps the number.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between two questions how much is left.
const PAUSE: Duration = Duration::from_millis(1);

/// A number's ends of the rings, before anything was asked by it.
pub struct Succession<'a> {
    pub id: MemberId,
    pub submissions: &'a JointProducer<MembersPage>,
    pub completions: &'a mut SpscConsumer,
    /// Whether the session goes on.
    pub lives: &'a dyn Probe,
}

impl Succession<'_> {
    /// Has the server end what the number has under way; false when some of that does not end in time.
    pub fn complete(mut self) -> Result<bool, DelegatedError> {
        if self.id.generation == 1 {
            return Ok(true);
        }
        let until = Instant::now() + PATIENCE;
        for asked in 0..u16::MAX {
            let tag = self.tag(asked);
            if !self.ask(tag, until)? {
                return Ok(false);
            }
            match self.answer(tag, until)? {
                Some(0) => return Ok(true),
                Some(left) if left < 0 => return Err(DelegatedError::Corrupt),
                Some(_) => std::thread::sleep(PAUSE),
                None => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Of no submitter, and of no other generation that may have asked the same before it died.
    fn tag(&self, asked: u16) -> u64 {
        let nobody = (SUBMITTERS_MAX as u64) << 40;
        let own = nobody | u64::from(self.id.generation) << 16 | u64::from(asked);
        tag_of(self.id.number, own)
    }

    fn ask(&self, tag: u64, until: Instant) -> Result<bool, DelegatedError> {
        let (kind, argument) = (OpKind::Cancel, all_of(self.id.number));
        let (object, pieces) = (ObjectId::default(), Pieces::default());
        let asked = Operation { kind, object, offset: 0, tag, timeout_us: 0, argument, pieces };
        let mut record = [0; OPERATION_BYTES_MAX];
        let length = asked.encode(&mut record);
        loop {
            match self.submissions.push(record.get(..length).unwrap_or(&[])) {
                Ok(()) => break,
                Err(PushError::Busy | PushError::Ring(ReserveError::Full)) => {}
                Err(PushError::Ring(_)) => return Err(DelegatedError::Corrupt),
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            std::thread::sleep(PAUSE);
        }
        self.submissions.ring();
        Ok(true)
    }

    /// The result of what has this tag. Everything before it is the predecessor's.
    fn answer(&mut self, tag: u64, until: Instant) -> Result<Option<i64>, DelegatedError> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.completions.wait(&Patience::up_to(left), self.lives) {
                Ok(()) => {}
                Err(WaitError::PeerGone) => return Err(DelegatedError::Gone { lost: 0 }),
                Err(_) => return Ok(None),
            }
            let mut record = [0; COMPLETION_RECORD_BYTES];
            let found = match self.completions.poll(&mut record) {
                Ok(COMPLETION_RECORD_BYTES) => Completion::decode(&record),
                _ => None,
            };
            let found = found.ok_or(DelegatedError::Corrupt)?;
            if found.tag == tag {
                return Ok(Some(found.result));
            }
        }
    }
}
