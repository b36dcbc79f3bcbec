//! Who looks for completions that nobody waits for in a call: whoever comes by, and a thread where one
//! sleeps until they are there.

use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, MutexGuard, TryLockError, Weak};
use std::time::Duration;

use heliostat_abi::memory::MemoryRequest;
use heliostat_ring::spsc::Sleep;

use super::delegated::{After, Delegated, Failure};
use super::{MemoryError, Shared};
use crate::ask::AskMemory;

/// A sleep after which is looked whether the control plane still lives.
const SLEEP_LIMIT: Duration = Duration::from_millis(50);
/// While an operation is between two hands, which is no time.
const BETWEEN_HANDS: Duration = Duration::from_micros(50);

/// What a look has found.
enum Outlook {
    /// Nothing is on its way.
    Idle,
    /// There may be more at once.
    Busy,
    /// There will be more after this sleep.
    Quiet(Sleep),
}

/// The end by which the thread that waits is told that something is on its way.
pub(crate) type Driver = SyncSender<()>;

impl Shared {
    /// Does something in this process's session with a loop, which begins at its first use.
    pub(crate) fn with_loops<T>(
        &self,
        act: impl FnOnce(&mut Delegated) -> Result<T, Failure>,
    ) -> Result<Result<T, Failure>, MemoryError> {
        let mut session = self.delegated();
        let loops = match &mut *session {
            Some(loops) => loops,
            none => none.insert(Delegated::begin(&self.control)?),
        };
        let done = act(loops);
        let_go(session, &done);
        Ok(done)
    }

    /// Does something in that session, if there is one, and it is this process's.
    pub(crate) fn with_loops_if_any(
        &self,
        act: impl FnOnce(&mut Delegated) -> Result<(), Failure>,
    ) {
        if !self.control.is_own() {
            return;
        }
        let mut session = self.delegated();
        if let Some(loops) = &mut *session {
            let done = act(loops);
            let_go(session, &done);
        }
    }

    /// Takes completions that are there, unless somebody else is with the loop, who does so.
    pub(crate) fn attend_if_free(&self) {
        let mut session = match self.delegated.try_lock() {
            Ok(session) => session,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let Some(loops) = &mut *session {
            let done = loops.attend();
            let_go(session, &done);
        }
    }

    /// Waits until there may be completions, `limit` at most.
    pub(crate) fn pause(&self, limit: Option<Duration>) {
        let limit = limit.map_or(SLEEP_LIMIT, |limit| limit.min(SLEEP_LIMIT));
        match self.attend() {
            Outlook::Idle => std::thread::sleep(limit.min(BETWEEN_HANDS)),
            Outlook::Busy => {}
            Outlook::Quiet(sleep) => sleep.sleep(limit),
        }
    }

    /// Has a thread wait for what is on its way.
    ///
    /// # Errors
    /// `Thread`.
    pub(crate) fn drive(self: &Arc<Self>) -> Result<(), MemoryError> {
        let driver = match self.driver.get() {
            Some(driver) => driver,
            None => {
                let started = start_driver(Arc::downgrade(self))?;
                // Of two that begin at once one ends again, since nobody tells it anything.
                self.driver.get_or_init(|| started)
            }
        };
        // It is told already where it has not heard the last time.
        let _ = driver.try_send(());
        Ok(())
    }

    /// Gives this process's session with a loop up; what is on its way ends as `Gone`.
    pub(crate) fn end_delegation(&self) {
        if !self.control.is_own() {
            // What a child of a fork has of it is its parent's.
            return;
        }
        let ended = self.delegated().take();
        if let Some(mut loops) = ended {
            loops.fail_jobs(Failure::Gone);
            loops.take_after().act();
            // Where the session with the control plane has ended, that of the loop has.
            let _ = self.control.tell(&MemoryRequest::EndSession, &[]);
        }
    }

    fn attend(&self) -> Outlook {
        let mut session = self.delegated();
        let Some(loops) = &mut *session else { return Outlook::Idle };
        let found = loops.attend().and_then(|is_any| match is_any {
            true => Ok(loops.announce()?.map_or(Outlook::Busy, Outlook::Quiet)),
            false => Ok(Outlook::Idle),
        });
        let_go(session, &found);
        found.unwrap_or(Outlook::Busy)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.end_delegation();
    }
}

/// Lets the session go after something was done in it, and then does what ends have left. One that is
/// over is forgotten; what was on its way ends with it.
fn let_go<T>(mut session: MutexGuard<'_, Option<Delegated>>, done: &Result<T, Failure>) {
    let mut after = After::default();
    if let Err(failure @ (Failure::Gone | Failure::Link(_))) = done {
        if let Some(mut loops) = session.take() {
            loops.fail_jobs(*failure);
            after = loops.take_after();
        }
    } else if let Some(loops) = &mut *session {
        after = loops.take_after();
    }
    drop(session);
    after.act();
}

fn start_driver(shared: Weak<Shared>) -> Result<Driver, MemoryError> {
    let (sender, wanted) = sync_channel(1);
    let thread = std::thread::Builder::new().name("heliostat-memory".into());
    let started = thread.spawn(move || drive(&shared, &wanted));
    started.map(|_| sender).map_err(|_| MemoryError::Thread)
}

/// Waits for completions as long as something is on its way, and for something that is otherwise. Ends
/// with the session.
fn drive(shared: &Weak<Shared>, wanted: &Receiver<()>) {
    while wanted.recv().is_ok() {
        loop {
            let Some(shared) = shared.upgrade() else { return };
            let outlook = shared.attend();
            // Not held while it sleeps: who drops the last one waits for nobody.
            drop(shared);
            match outlook {
                Outlook::Idle => break,
                Outlook::Busy => {}
                Outlook::Quiet(sleep) => sleep.sleep(SLEEP_LIMIT),
            }
        }
    }
}
