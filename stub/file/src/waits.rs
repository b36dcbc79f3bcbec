//! Completions: the server's from its ring, and those of the program's own reads.

use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::{Completion, OneRead, OpKind, Operation, Pieces, Way};

use heliostat_stub_link::{LinkError, ServerConnection};

use super::kept::is_callers;
use super::{Delegated, DelegatedError};

/// By which way the server's completions are looked for.
type Take = fn(&mut ServerConnection) -> Result<Option<Completion>, LinkError>;

/// How long a sleep in the own ring lasts while the server, whose bell is not heard there, has
/// operations as well. The device ends most such sleeps before.
const LOOK_AGAIN: Duration = Duration::from_micros(500);

impl Delegated {
    /// Takes a completion that is there.
    ///
    /// # Errors
    /// `Corrupt` when the server broke the protocol.
    pub fn reap(&mut self) -> Result<Option<Completion>, DelegatedError> {
        if let Some(kept) = self.kept.take() {
            return Ok(Some(kept));
        }
        while let Some(found) = self.take(ServerConnection::pop)? {
            if is_callers(&found) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Waits for a completion, `limit` at most.
    ///
    /// # Errors
    /// `TimedOut`; `Idle` when nothing is under way. `Gone` when the control plane has ended or has
    /// revoked the session: what the server had under way is lost, it may have been done or not, and
    /// files have to be opened again. What is submitted afterwards goes to the next control plane.
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<Completion, DelegatedError> {
        if let Some(kept) = self.kept.take() {
            return Ok(kept);
        }
        loop {
            let found = self.wait_new(limit)?;
            if is_callers(&found) {
                return Ok(found);
            }
        }
    }

    pub(super) fn wait_new(
        &mut self,
        limit: Option<Duration>,
    ) -> Result<Completion, DelegatedError> {
        if self.under_way == 0 {
            return Err(DelegatedError::Idle);
        }
        if self.own.under_way() > 0 {
            return self.wait_for_own(limit);
        }
        if let Some(found) = self.take(ServerConnection::look)? {
            return Ok(found);
        }
        let Some(server) = self.server.as_mut() else { return Err(DelegatedError::Idle) };
        match server.wait(limit, self.under_way) {
            Ok(()) => self.take(ServerConnection::pop)?.ok_or(DelegatedError::Corrupt),
            Err(heliostat_ring::WaitError::TimedOut) => Err(DelegatedError::TimedOut),
            Err(heliostat_ring::WaitError::PeerGone) => Err(self.lose()),
        }
    }

    /// While reads of its own are under way, and perhaps others.
    fn wait_for_own(&mut self, limit: Option<Duration>) -> Result<Completion, DelegatedError> {
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            if let Some(found) = self.take(ServerConnection::pop)? {
                return Ok(found);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(DelegatedError::TimedOut);
            }
            let own = self.own.under_way();
            if own == 0 {
                // The last was given to the server after all.
                return self.wait_new(left);
            }
            let has_others = self.under_way > own;
            if has_others && !self.server.as_ref().is_some_and(ServerConnection::is_kept) {
                return Err(self.lose());
            }
            let turn = has_others.then_some(LOOK_AGAIN);
            self.own.sleep([left, turn].into_iter().flatten().min())?;
        }
    }

    /// Waits for the completion with this tag; others are kept for `wait`.
    pub(super) fn await_tag(&mut self, tag: u64) -> Result<Completion, DelegatedError> {
        loop {
            let found = self.wait_new(None)?;
            if found.tag == tag {
                return Ok(found);
            }
            self.kept.keep(found);
        }
    }

    /// A completion that is there. Where both have some they alternate, so that neither waits for the
    /// other for ever.
    fn take(&mut self, by: Take) -> Result<Option<Completion>, DelegatedError> {
        self.push_again()?;
        let order = [self.own_was_last, !self.own_was_last];
        for is_servers in order {
            let found = if is_servers { self.take_servers(by)? } else { self.take_own() };
            if let Some(found) = found {
                self.own_was_last = !is_servers;
                self.under_way -= 1;
                return Ok(Some(found));
            }
        }
        self.push_again()?;
        Ok(None)
    }

    fn take_servers(&mut self, by: Take) -> Result<Option<Completion>, DelegatedError> {
        let has_some = self.under_way > self.own.under_way();
        match self.server.as_mut().filter(|_| has_some) {
            Some(server) => Ok(by(server)?),
            None => Ok(None),
        }
    }

    /// A read of the own ring that has ended. One that was not read whole is done over by the server,
    /// which says what there is to say; unless its file is not open there any more.
    fn take_own(&mut self) -> Option<Completion> {
        while let Some(ended) = self.own.reap() {
            let OneRead { object, offset, tag, piece } = ended.read;
            if self.own.is_answer(&ended) || !ended.is_current {
                let result = i64::from(ended.result);
                return Some(Completion { tag, result, generation: 0, way: Way::Own });
            }
            if ended.result == -libc::EINVAL {
                // Its sectors are larger than what counts as aligned.
                self.own.close(object);
            }
            let pieces = Pieces::new(&[piece]).unwrap_or_default();
            let (kind, timeout_us, argument) = (OpKind::Read, 0, 0);
            self.again.push_back(Operation {
                kind,
                object,
                offset,
                tag,
                timeout_us,
                argument,
                pieces,
            });
        }
        None
    }

    /// Gives the server what it has to do over, as far as there is room.
    fn push_again(&mut self) -> Result<(), DelegatedError> {
        while let Some(operation) = self.again.front() {
            let Some(server) = self.server.as_mut() else { break };
            if !server.push(operation)? {
                break;
            }
            server.ring();
            self.again.pop_front();
        }
        Ok(())
    }

    /// The control plane is gone, with everything that the server had under way. Reads of the own
    /// ring end as if nothing had happened.
    pub(super) fn lose(&mut self) -> DelegatedError {
        self.server = None;
        self.again.clear();
        self.own.forget_all();
        let own = self.own.under_way();
        let lost = self.under_way.saturating_sub(own);
        self.under_way = own;
        DelegatedError::Gone { lost }
    }
}
