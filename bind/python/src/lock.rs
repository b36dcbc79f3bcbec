//! Locks, semaphores and barriers: opened by name, acquired, waited at.
//!
//! A thread that waits does so without the interpreter's lock, and looks up twice a second for signals.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use heliostat_stub_lock::{
    Barrier, Lock, LockError, Locks as StubLocks, Named, Pending, ReaderWriterLock, Semaphore,
    OWN_USER,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error;
use crate::lock_held::LockHeld;
use crate::process::{claim_session, Own};
use crate::waiting::{deadline, SLICE};

/// One session's access.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct Locks {
    inner: Own<StubLocks>,
}

/// Name, user, kind, count, handles, held, waiting, owner died, broken, age in seconds.
type ListedLock = (String, u32, &'static str, u32, u32, u32, u32, bool, bool, u32);

#[pymethods]
impl Locks {
    /// In this process's session; the same for names on `node`, if both are given.
    #[new]
    #[pyo3(signature = (base=None, node=None))]
    fn new(py: Python<'_>, base: Option<&Bound<'_, Self>>, node: Option<u64>) -> PyResult<Self> {
        if let (Some(base), Some(node)) = (base, node) {
            let placed = base.get().inner.get()?.on(node);
            return Ok(Self { inner: Own::new(placed) });
        }
        claim_session();
        let opened = py.detach(StubLocks::open).map_err(|error| error::lock(&error))?;
        Ok(Self { inner: Own::new(opened) })
    }

    /// Those of `user` (all that may be seen, if `None`) whose names begin so.
    fn _list(
        &self,
        py: Python<'_>,
        beginning: &str,
        user: Option<u32>,
    ) -> PyResult<Vec<ListedLock>> {
        let stub = self.inner.get()?;
        let found = py.detach(|| stub.list_of(user.unwrap_or(OWN_USER), beginning));
        let told = found.map_err(|error| error::lock(&error))?.into_iter().map(|it| {
            let (name, kind) = (it.name.as_str().to_owned(), it.shape.kind.word());
            let counts = (it.shape.count, it.opened, it.held, it.waiting);
            let (count, opened, held, waiting) = counts;
            let (died, broken) = (it.has_owner_died, it.is_broken);
            (name, it.user, kind, count, opened, held, waiting, died, broken, it.age_s)
        });
        Ok(told.collect())
    }
}

enum Opened {
    Lock(Lock),
    ReaderWriter(ReaderWriterLock),
    Semaphore(Semaphore),
    Barrier(Barrier),
}

/// A lock, semaphore or barrier that is open. Threads may share it.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct LockHandle {
    // `None` once it is closed. The fork check comes before the lock, which another thread of the
    // parent may have held.
    opened: Own<Mutex<Option<Arc<Opened>>>>,
}

impl LockHandle {
    fn opened(&self) -> PyResult<Arc<Opened>> {
        let opened = self.opened.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        opened.clone().ok_or_else(|| error::closed("lock"))
    }
}

#[pymethods]
impl LockHandle {
    /// Opens what has the name as a `kind` of `count`.
    #[new]
    fn new(
        py: Python<'_>,
        locks: &Bound<'_, Locks>,
        kind: &str,
        name: &str,
        count: u32,
        user: Option<u32>,
        is_silent: bool,
    ) -> PyResult<Self> {
        let stub = locks.get().inner.get()?;
        let named = stub.named(name).of_user(user.unwrap_or(OWN_USER));
        let named = if is_silent { named.silent() } else { named };
        let opened = py.detach(|| open(named, kind, count)).map_err(|error| error::lock(&error))?;
        Ok(Self { opened: Own::new(Mutex::new(Some(Arc::new(opened)))) })
    }

    /// Acquires: `shared`, or so many permits. `None` is for ever, 0 does not wait.
    fn _acquire(
        &self,
        py: Python<'_>,
        shared: bool,
        permits: u32,
        timeout: Option<f64>,
    ) -> PyResult<LockHeld> {
        let (opened, deadline) = (self.opened()?, deadline(timeout)?);
        let held = if timeout == Some(0.0) {
            py.detach(|| try_acquire(&opened, shared, permits))
        } else {
            let asked = py.detach(|| request(&opened, shared, permits));
            let mut pending = asked.map_err(|error| error::lock(&error))?;
            settle(py, deadline, |limit| pending.look_within(limit))?;
            py.detach(|| pending.wait_within(Duration::ZERO))
        };
        let held = held.map_err(|error| error::lock(&error))?;
        let late = || error::raise("TimedOut", "its turn did not come in time");
        held.map(LockHeld::new).ok_or_else(late)
    }

    /// Arrives and waits until all have.
    fn _wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<(u64, u32)> {
        let (opened, deadline) = (self.opened()?, deadline(timeout)?);
        let Opened::Barrier(barrier) = &*opened else { return Err(not_that()) };
        let mut arrival = py.detach(|| barrier.arrive()).map_err(|error| error::lock(&error))?;
        settle(py, deadline, |limit| arrival.look_within(limit))?;
        let passed = py.detach(|| arrival.wait_within(Duration::ZERO));
        let passed = passed.map_err(|error| error::lock(&error))?;
        let late = || error::raise("TimedOut", "not all have arrived in time");
        passed.map(|it| (it.generation, it.index)).ok_or_else(late)
    }

    /// Makes a barrier whole.
    fn _reset(&self, py: Python<'_>) -> PyResult<()> {
        let opened = self.opened()?;
        let Opened::Barrier(barrier) = &*opened else { return Err(not_that()) };
        py.detach(|| barrier.reset()).map_err(|error| error::lock(&error))
    }

    /// Closes it. What is held of it stays held.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut held = self.opened.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = held.take();
        drop(held);
        // The control plane is told.
        py.detach(|| drop(opened));
        Ok(())
    }
}

fn open(named: Named<'_>, kind: &str, count: u32) -> Result<Opened, LockError> {
    Ok(match kind {
        "reader_writer" => Opened::ReaderWriter(named.reader_writer()?),
        "semaphore" => Opened::Semaphore(named.semaphore(count)?),
        "barrier" => Opened::Barrier(named.barrier(count)?),
        _ => Opened::Lock(named.lock()?),
    })
}

fn request(opened: &Opened, shared: bool, permits: u32) -> Result<Pending, LockError> {
    match opened {
        Opened::Lock(lock) => lock.request(),
        Opened::ReaderWriter(lock) if shared => lock.request_read(),
        Opened::ReaderWriter(lock) => lock.request_write(),
        Opened::Semaphore(semaphore) => semaphore.request(permits),
        Opened::Barrier(_) => Err(LockError::Shape),
    }
}

fn try_acquire(
    opened: &Opened,
    shared: bool,
    permits: u32,
) -> Result<Option<heliostat_stub_lock::Held>, LockError> {
    match opened {
        Opened::Lock(lock) => lock.try_acquire(),
        Opened::ReaderWriter(lock) if shared => lock.try_read(),
        Opened::ReaderWriter(lock) => lock.try_write(),
        Opened::Semaphore(semaphore) => semaphore.try_acquire(permits),
        Opened::Barrier(_) => Err(LockError::Shape),
    }
}

/// Waits in slices until it is settled, a deadline, or a signal whose handler raises. The place is kept.
fn settle(
    py: Python<'_>,
    deadline: Option<Instant>,
    mut look: impl FnMut(Duration) -> Result<bool, LockError> + Send,
) -> PyResult<()> {
    loop {
        let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        if py.detach(|| look(slice)).map_err(|error| error::lock(&error))? {
            return Ok(());
        }
        if left.is_some_and(|left| left <= slice) {
            return Ok(());
        }
        py.check_signals()?;
    }
}

fn not_that() -> PyErr {
    PyValueError::new_err("only a barrier is waited at")
}
