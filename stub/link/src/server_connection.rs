//! One session's two rings, and whether their other end still lives.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::file::delegated::{
    call_words, Completion, OneRead, Operation, Way, CALL_DECLINED, COMPLETION_AT,
    COMPLETION_RECORD_BYTES,
};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::node::State;
use heliostat_client::session::Standing;
use heliostat_client::NodePage;
use heliostat_ring::doorbell::Patience;
use heliostat_ring::spsc::Sleep;
use heliostat_ring::{
    Refresh, ReserveError, RingMemory, SpscConsumer, SpscProducer, TakeError, WaitError,
};

use super::call::CallLine;
use super::record::push_encoded;
use super::LinkError;

/// What a session has of the server.
pub struct ServerConnection {
    submissions: SpscProducer,
    completions: SpscConsumer,
    call: CallLine,
    epoch: u64,
    session: ObjectId,
    node: Arc<NodePage>,
    /// How many waits there were, and whether the last that looked for long found something.
    waits: u32,
    is_near: bool,
    has_pushed: bool,
    /// The last completion needed the device or the kernel.
    is_slow: bool,
}

/// Looks of a wait before it pauses, yields and sleeps: some 2 us, more than a cached read takes. A
/// pause between them would add half its length to every answer.
const LOOKS: u32 = 512;
/// Operations under way from which on a wait sleeps soon, and how soon.
const MANY: usize = 4;
const SPIN_MANY_NS: u64 = 2_000;
/// One wait in so many looks for long although the last that did so was in vain: the server may be
/// on another core by now, or the file in the cache.
const WAITS_PER_TRIAL: u32 = 16;

impl ServerConnection {
    /// Attaches the rings that the control plane has made for a session, which nobody has used yet.
    ///
    /// # Errors
    /// They are none, or cannot be mapped.
    pub fn attach(standing: Standing, rings: &impl AsRawFd) -> Result<ServerConnection, LinkError> {
        let rings = rings.as_raw_fd();
        let memory = |at| RingMemory::attach(rings, at).map_err(LinkError::Ring);
        let submissions = memory(0)?.spsc_producer(Refresh::Lazy);
        let completions = memory(COMPLETION_AT)?.spsc_consumer(Refresh::Lazy);
        Ok(ServerConnection {
            submissions: submissions.map_err(LinkError::Ring)?,
            completions: completions.map_err(LinkError::Ring)?,
            call: CallLine::attach(rings).map_err(LinkError::Memory)?,
            epoch: standing.epoch,
            session: standing.id,
            node: standing.node,
            waits: 0,
            is_near: true,
            has_pushed: false,
            is_slow: false,
        })
    }

    /// Counts sessions of this process, as in `session::Standing`.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether something is in the ring that the server was not rung for.
    pub fn has_pushed(&self) -> bool {
        self.has_pushed
    }

    /// Puts an operation into the ring, without ringing; false when it is full.
    ///
    /// # Errors
    /// `Corrupt` when the server broke the protocol; so for all below.
    pub fn push(&mut self, operation: &Operation) -> Result<bool, LinkError> {
        push_encoded(operation, |record| self.push_record(record))
    }

    fn push_record(&mut self, record: &[u8]) -> Result<bool, LinkError> {
        match self.submissions.reserve(record.len()) {
            Ok(mut slot) => {
                slot.copy_in(0, record);
                slot.commit_quiet();
                self.has_pushed = true;
                Ok(true)
            }
            Err(ReserveError::Full) => Ok(false),
            Err(_) => Err(LinkError::Corrupt),
        }
    }

    /// Rings the server if it sleeps.
    #[inline]
    pub fn ring(&mut self) {
        self.has_pushed = false;
        self.submissions.ring();
    }

    /// Takes a completion that is there.
    pub fn pop(&mut self) -> Result<Option<Completion>, LinkError> {
        let mut record = [0; COMPLETION_RECORD_BYTES];
        match self.completions.poll(&mut record) {
            Ok(COMPLETION_RECORD_BYTES) => {
                let found = Completion::decode(&record).ok_or(LinkError::Corrupt)?;
                self.is_slow = matches!(found.way, Way::Filled | Way::Direct | Way::Kernel);
                Ok(Some(found))
            }
            Err(TakeError::Empty) => Ok(None),
            _ => Err(LinkError::Corrupt),
        }
    }

    /// Whether a call is likely to be answered at once: the server is on another core, and what was
    /// read last was in its cache.
    pub fn may_call(&self) -> bool {
        self.is_near && !self.is_slow
    }

    /// Asks for a read in one line and waits for the answer; `None` when it was declined. Nothing may be
    /// under way in the ring.
    ///
    /// # Errors
    /// `PeerGone` when the control plane has ended, or the session.
    pub fn call(&mut self, read: &OneRead) -> Result<Option<i64>, WaitError> {
        self.call.ask(read);
        self.submissions.ring();
        let answer = match self.call.look() {
            Some(answer) => answer,
            None => self.await_answer()?,
        };
        self.is_slow = answer == CALL_DECLINED;
        Ok(Some(answer).filter(|_| !self.is_slow))
    }

    /// Asks for an operation in one line and waits for its end; `None` when it was declined, or no call
    /// can ask it. Nothing may be under way in the ring.
    ///
    /// # Errors
    /// As `call`.
    pub fn call_operation(&mut self, operation: &Operation) -> Result<Option<i64>, WaitError> {
        let Some((words, more)) = call_words(operation) else { return Ok(None) };
        self.call.ask_more(words, more);
        self.submissions.ring();
        let answer = match self.call.look() {
            Some(answer) => answer,
            None => self.await_answer()?,
        };
        Ok(Some(answer).filter(|answer| *answer != CALL_DECLINED))
    }

    fn await_answer(&mut self) -> Result<i64, WaitError> {
        self.is_near = false;
        let (node, id) = (&self.node, self.session);
        let lives = || is_kept(node, id);
        loop {
            let call = &self.call;
            self.completions.wait_or(&Patience::ENDLESS, &lives, || call.is_answered())?;
            if let Some(answer) = self.call.take() {
                return Ok(answer);
            }
            // Nothing is under way in the ring, so what is there is not the server's.
            if !matches!(self.completions.take().map(drop), Err(TakeError::Empty)) {
                return Err(WaitError::PeerGone);
            }
        }
    }

    /// Announces a sleep until there is a completion, for a thread that does not have this value
    /// meanwhile; `None` if there is one.
    pub fn announce(&mut self) -> Option<Sleep> {
        self.completions.announce()
    }

    /// Ends announced sleeps, whose completions were taken here.
    pub fn end_sleeps(&self) {
        self.completions.end_sleeps();
    }

    /// Whether the control plane lives and has not revoked the session.
    pub fn is_kept(&self) -> bool {
        is_kept(&self.node, self.session)
    }

    /// Looks for a completion for a moment, where that has been of use lately: the server is on
    /// another core, and the answer does not need the device.
    pub fn look(&mut self) -> Result<Option<Completion>, LinkError> {
        self.waits = self.waits.wrapping_add(1);
        if !self.is_near && self.waits % WAITS_PER_TRIAL != 0 {
            return self.pop();
        }
        for _ in 0..LOOKS {
            if let Some(found) = self.pop()? {
                self.is_near = true;
                return Ok(Some(found));
            }
        }
        self.is_near = false;
        Ok(None)
    }

    /// Waits for a completion, `limit` at most, with so many operations under way.
    ///
    /// Who waits for one of many that the device has sleeps soon: what a wake-up takes is shared by
    /// all that have completed meanwhile, and in a virtual machine a core that looks takes time from
    /// whoever plays the device.
    ///
    /// # Errors
    /// `TimedOut`, and `PeerGone` as `call`.
    pub fn wait(&mut self, limit: Option<Duration>, under_way: usize) -> Result<(), WaitError> {
        let usual = limit.map_or(Patience::ENDLESS, Patience::up_to);
        let is_many = self.is_slow && under_way >= MANY;
        let spin_ns = if is_many { SPIN_MANY_NS } else { usual.spin_ns };
        let patience = &Patience { spin_ns, ..usual };
        let (node, id) = (&self.node, self.session);
        let lives = || is_kept(node, id);
        self.completions.wait(patience, &lives)
    }
}

/// Whether the control plane lives and has not revoked the session.
pub fn is_kept(node: &NodePage, session: ObjectId) -> bool {
    node.is_kept() && node.session(session) == State::Active
}
