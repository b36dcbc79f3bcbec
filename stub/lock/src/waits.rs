//! Threads that wait for tickets: one of them sleeps at the bell, and wakes the others.
//!
//! ```text
//! a ticket waits ----> listed here before anybody can be told of it
//! the leader:  bell --> Next, until there is no more --> each outcome to its ticket, all are woken
//! others:      sleep until their outcome is there, or there is no leader
//! ```
//! The bell is emptied before it is asked what has happened: what happens after that rings again.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use heliostat_abi::code::Code;
use heliostat_abi::lock::{Event, LockReply, LockRequest, Outcome};
use heliostat_abi::name::ObjectId;
use heliostat_base::bell::Bell;
use heliostat_client::OwnSession;

use crate::ask::AskLock;
use crate::LockError;

/// How long another thread may take to hand over what it was told: it only has to run.
const HAND_OVER: Duration = Duration::from_secs(60);

pub(crate) struct Waits {
    bell: Bell,
    line: Mutex<Line>,
    changed: Condvar,
}

#[derive(Default)]
struct Line {
    /// Tickets that wait, and what became of them.
    tickets: HashMap<ObjectId, Option<Outcome>>,
    /// A thread sleeps at the bell.
    is_led: bool,
    /// Nothing will be heard any more.
    over: Option<LockError>,
}

impl Waits {
    pub(crate) fn new(bell: Bell) -> Self {
        Self { bell, line: Mutex::default(), changed: Condvar::new() }
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.bell.fd().as_raw_fd()
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a ticket, which is listed if it waits: nobody is told of it before that.
    pub(crate) fn begin(
        &self,
        control: &OwnSession,
        request: &LockRequest,
    ) -> Result<Event, LockError> {
        let mut line = self.line();
        let event = control.event(request)?.ok_or(LockError::Corrupt)?;
        if event.outcome == Outcome::Queued {
            line.tickets.insert(event.ticket, None);
        }
        Ok(event)
    }

    /// Waits until a listed ticket has an outcome, at most until a deadline; then it stays listed.
    pub(crate) fn wait(
        &self,
        control: &OwnSession,
        ticket: ObjectId,
        deadline: Option<Instant>,
    ) -> Result<Option<Outcome>, LockError> {
        let mut line = self.line();
        loop {
            if let Some(Some(outcome)) = line.tickets.get(&ticket).copied() {
                line.tickets.remove(&ticket);
                return Ok(Some(outcome));
            }
            if let Some(error) = line.over {
                line.tickets.remove(&ticket);
                return Err(error);
            }
            let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                // It may have led until now.
                self.changed.notify_all();
                return Ok(None);
            }
            line =
                if line.is_led { self.follow(line, left) } else { self.lead(line, control, left) };
        }
    }

    fn follow<'a>(
        &self,
        line: MutexGuard<'a, Line>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Line> {
        match left {
            Some(left) => {
                self.changed.wait_timeout(line, left).unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.changed.wait(line).unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn lead<'a>(
        &'a self,
        mut line: MutexGuard<'a, Line>,
        control: &OwnSession,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Line> {
        line.is_led = true;
        drop(line);
        let heard = self.listen(control, left);
        let mut line = self.line();
        line.is_led = false;
        match heard {
            Ok(events) if events.is_empty() => return line,
            Ok(events) => {
                for event in events {
                    // A ticket that is not listed was cancelled meanwhile.
                    if let Some(place) = line.tickets.get_mut(&event.ticket) {
                        *place = Some(event.outcome);
                    }
                }
            }
            Err(error) => line.over = Some(error),
        }
        self.changed.notify_all();
        line
    }

    /// Sleeps at the bell and asks what has happened.
    fn listen(
        &self,
        control: &OwnSession,
        left: Option<Duration>,
    ) -> Result<Vec<Event>, LockError> {
        let left_ms = left.map(|it| it.as_millis().clamp(1, u128::from(u32::MAX)) as u32);
        if !self.bell.wait(left_ms).map_err(LockError::Bell)? {
            return Ok(Vec::new());
        }
        let is_alive = self.bell.drain();
        let mut all = Vec::new();
        loop {
            let Some(LockReply::Events { events, more }) =
                control.ask_own(&LockRequest::Next, &[])?
            else {
                return Err(LockError::Corrupt);
            };
            all.extend(events);
            if !more {
                break;
            }
        }
        if is_alive {
            Ok(all)
        } else {
            Err(LockError::Gone)
        }
    }

    /// Ends a listed ticket's waiting; what it has got, if anything.
    pub(crate) fn give_up(
        &self,
        control: &OwnSession,
        ticket: ObjectId,
    ) -> Result<Option<Outcome>, LockError> {
        let mut line = self.line();
        if let Some(Some(outcome)) = line.tickets.get(&ticket).copied() {
            line.tickets.remove(&ticket);
            return Ok(Some(outcome));
        }
        match control.event(&LockRequest::Cancel { ticket }) {
            Err(error) if error.refusal() == Some(Code::NotFound) && line.is_led => {
                // Whoever leads has been told how it ended.
                drop(line);
                let outcome = self.wait(control, ticket, Some(Instant::now() + HAND_OVER))?;
                outcome.ok_or(LockError::Corrupt).map(Some)
            }
            answer => {
                line.tickets.remove(&ticket);
                Ok(answer?.map(|event| event.outcome))
            }
        }
    }
}
