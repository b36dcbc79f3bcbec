//! One log: what is shared of it, its driver, and how threads wait and drive.

use std::ops::Deref;
use std::sync::PoisonError;
use std::time::Instant;

use heliostat_base::sync::Mutex;

use crate::driver::Driver;
use crate::error::LogError;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::recovery::Opened;
use crate::shared::Shared;
use crate::space::{NoRoom, Room};
use crate::waiting::Slot;

/// One log.
pub(crate) struct Core {
    shared: Shared,
    driver: Mutex<Driver>,
}

impl Deref for Core {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Core {
    pub(crate) fn new(opened: Opened, options: Options, mutant: Mutant) -> Result<Core, LogError> {
        let layout = opened.channel.layout();
        let shared = Shared::new(&opened.header, opened.memory, layout, mutant);
        let driver = Driver::new(opened.channel, opened.header, options)?;
        Ok(Core { shared, driver: Mutex::new(driver) })
    }

    /// Gives out room for an entry; waits while there is none, and driving would make some.
    pub(crate) fn reserve(&self, payload: u64) -> Result<Room, LogError> {
        if payload > self.longest {
            return Err(LogError::TooLong { found: payload, limit: self.longest });
        }
        let reuses = self.mutant == Mutant::ReusesBeforeHeader;
        let try_once = || match self.space().reserve(payload, reuses) {
            Ok(room) => Some(Ok(room)),
            Err(NoRoom::Never(error)) => Some(Err(error)),
            Err(NoRoom::AfterHeader) => {
                self.want_header_once();
                None
            }
            Err(NoRoom::Later) => None,
        };
        self.check()?;
        match try_once() {
            Some(answer) => answer,
            None => self.wait_until(Slot::Any, None, try_once)?.unwrap_or(Err(LogError::Closed)),
        }
    }

    /// Waits until everything before a position is acknowledged, and drives if nobody does.
    ///
    /// # Errors
    /// The log has failed before.
    pub(crate) fn wait_for(&self, end: u64, batch: u64) -> Result<(), LogError> {
        let done = || (self.durable() >= end).then_some(());
        if done().is_some() {
            return Ok(());
        }
        self.wait_until(Slot::Batch(batch), None, done).map(|_| ())
    }

    /// Waits until `done` has an answer, and drives if nobody does; None when the time is over.
    ///
    /// # Errors
    /// The log has failed before.
    pub(crate) fn wait_until<R>(
        &self,
        first: Slot,
        until: Option<Instant>,
        mut done: impl FnMut() -> Option<R>,
    ) -> Result<Option<R>, LogError> {
        let mut look = || self.look(&mut done);
        let answer = self.waiting.wait(
            first,
            until,
            &mut look,
            &|| self.has_work(),
            &|batch| self.has_ended(batch),
            &mut |look| self.drive(look),
        );
        answer.transpose()
    }

    /// The answer, if there is one; a log that has failed has none.
    fn look<R>(&self, done: &mut impl FnMut() -> Option<R>) -> Option<Result<R, LogError>> {
        match done() {
            Some(answer) => Some(Ok(answer)),
            None => self.check().err().map(Err),
        }
    }

    /// Drives until there is an answer, nothing is left to do, or others want the role or are to be
    /// told something. The caller has the role, and it is given back.
    fn drive<R>(&self, look: &mut dyn FnMut() -> Option<R>) -> Option<R> {
        let mut found = None;
        self.with_role(|driver| {
            while found.is_none() && self.has_work() {
                driver.step(&self.shared, true);
                found = look();
                if self.waiting.is_wanted() || self.notices.has_ready() {
                    break;
                }
            }
        });
        // They may use the log, so the role is free by now.
        self.notices.deliver();
        found
    }

    /// Tells those who want to know of a position that is acknowledged already, or never will be.
    pub(crate) fn tell_late(&self, at: u64) {
        heliostat_base::sync::full_fence();
        if let Err(error) = self.check() {
            self.notices.fail(error);
        } else if self.durable() >= at {
            self.notices.tell(self.durable());
        }
        self.notices.deliver();
    }

    /// Does what can be done without waiting.
    pub(crate) fn poll(&self) {
        if self.waiting.try_take_role() {
            self.with_role(|driver| driver.step(&self.shared, false));
            self.notices.deliver();
        }
    }

    /// Waits for the role, and does something with the device. Tells nobody anything: the caller may
    /// hold a lock that a callback takes.
    pub(crate) fn with_driver<R>(&self, what: impl FnOnce(&mut Driver) -> R) -> R {
        self.waiting.take_role();
        self.with_role(what)
    }

    /// Does something as the one who has the role, and gives it back.
    fn with_role<R>(&self, what: impl FnOnce(&mut Driver) -> R) -> R {
        let answer = what(&mut self.driver.lock().unwrap_or_else(PoisonError::into_inner));
        self.waiting.release_role();
        self.waiting.pass_on(|| self.has_work());
        answer
    }

    /// The driver, of a log that nobody else has a handle of.
    pub(crate) fn into_driver(self) -> Driver {
        self.driver.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
