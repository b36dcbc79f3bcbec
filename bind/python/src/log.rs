//! A log, or a queue, that is open to be written.
//!
//! Waits go without the interpreter's lock, and so does the end of a handle: a callback of the log's
//! thread may want that lock.

use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use heliostat_stub_log::{
    Event, Log, LogError, OpenError, Options, Place, Position, Queue, Reader,
};
use pyo3::prelude::*;

use crate::error;
use crate::log_entry::{LogEntry, LogPosition};
use crate::log_payload::Payload;
use crate::log_place::place_of;
use crate::log_reader::{LogEntries, SharedReader};
use crate::process::Own;
use crate::waiting::{deadline, is_over, slice};

/// An open log, and the queue that uses it, if one does. Threads may share it.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct LogHandle {
    // `None` once it is closed.
    opened: Own<Mutex<Option<Opened>>>,
}

/// A reader that its user may have dropped.
type WeakReader = Weak<Mutex<Option<Reader>>>;

/// What is open. Clones are handles of the same.
#[derive(Clone)]
struct Opened {
    log: Log,
    queue: Option<Queue>,
    event: Arc<Mutex<Option<Event>>>,
    readers: Arc<Mutex<Vec<WeakReader>>>,
}

impl LogHandle {
    /// Does something with it, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Opened) -> Result<T, LogError> + Send,
    ) -> PyResult<T> {
        let place = self.opened.get()?;
        let done = py.detach(|| {
            let opened = place.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // The last handle is dropped here, not under the lock.
            opened.map(|opened| work(&opened))
        });
        done.ok_or_else(|| error::closed("log"))?.map_err(|error| error::log(py, &error))
    }
}

#[pymethods]
impl LogHandle {
    /// Opens it; `bytes` to make it, where `is_new` says so or there is none.
    #[new]
    #[pyo3(signature = (place, bytes, is_new, is_queue, window_bytes))]
    fn new(
        py: Python<'_>,
        place: PathBuf,
        bytes: Option<u64>,
        is_new: bool,
        is_queue: bool,
        window_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let place = place_of(place);
        let opened = py.detach(|| open(&place, bytes, is_new, window_bytes));
        let log = opened.map_err(|error| error::log_open(py, &error))?;
        let queue = is_queue.then(|| Queue::of(log.clone()));
        let opened = Opened { log, queue, event: Arc::default(), readers: Arc::default() };
        Ok(Self { opened: Own::new(Mutex::new(Some(opened))) })
    }

    /// Appends, and has `then` called with what became of it.
    fn _append(
        &self,
        py: Python<'_>,
        payload: &Bound<'_, PyAny>,
        then: Option<Py<PyAny>>,
    ) -> PyResult<LogPosition> {
        let payload = Payload::of(payload)?;
        let position = self.with(py, |opened| {
            let appended = payload.append(&opened.log)?;
            let position = appended.position();
            if let Some(then) = then {
                appended.then(move |outcome| tell(&then, position, outcome));
            }
            Ok(position)
        })?;
        Ok(position.into())
    }

    fn _append_sync(&self, py: Python<'_>, payload: &Bound<'_, PyAny>) -> PyResult<LogPosition> {
        let payload = Payload::of(payload)?;
        Ok(self.with(py, |opened| payload.append_sync(&opened.log))?.into())
    }

    fn is_durable(&self, py: Python<'_>, position: LogPosition) -> PyResult<bool> {
        self.with(py, |opened| Ok(opened.log.is_durable(position.into())))
    }

    /// Whether it is durable in time.
    #[pyo3(signature = (position, timeout=None))]
    fn wait_durable(
        &self,
        py: Python<'_>,
        position: LogPosition,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        let deadline = deadline(timeout)?;
        loop {
            let left = Some(slice(deadline));
            if self.with(py, |opened| opened.log.wait_durable(position.into(), left))? {
                return Ok(true);
            }
            if is_over(deadline) {
                return Ok(false);
            }
            py.check_signals()?;
        }
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |opened| opened.log.sync())
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |opened| opened.log.checkpoint())
    }

    fn _check(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |opened| opened.log.check())
    }

    fn trim(&self, py: Python<'_>, position: LogPosition) -> PyResult<()> {
        self.with(py, |opened| opened.log.trim(position.into()))
    }

    #[getter]
    fn begin(&self, py: Python<'_>) -> PyResult<LogPosition> {
        Ok(self.with(py, |opened| Ok(opened.log.begin()))?.into())
    }

    #[getter]
    fn end(&self, py: Python<'_>) -> PyResult<LogPosition> {
        Ok(self.with(py, |opened| Ok(opened.log.end()))?.into())
    }

    #[getter]
    fn capacity(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |opened| Ok(opened.log.capacity()))
    }

    #[getter]
    fn payload_bytes_max(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |opened| Ok(opened.log.longest()))
    }

    fn _read(&self, py: Python<'_>, start: Option<LogPosition>) -> PyResult<LogEntries> {
        let reader = self.with(py, |opened| {
            let reader = match start {
                None => opened.log.read(),
                Some(start) => opened.log.read_from(start.into())?,
            };
            let shared: SharedReader = Arc::new(Mutex::new(Some(reader)));
            let mut readers = opened.readers.lock().unwrap_or_else(PoisonError::into_inner);
            readers.retain(|reader| reader.strong_count() > 0);
            readers.push(Arc::downgrade(&shared));
            Ok(shared)
        })?;
        Ok(LogEntries::new(reader))
    }

    /// Of a queue: the next entry, waited for so many seconds.
    fn _pop(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<LogEntry>> {
        let deadline = deadline(timeout)?;
        loop {
            let left = slice(deadline);
            let item = self.with(py, |opened| match (&opened.queue, left) {
                (None, _) => Ok(None),
                (Some(queue), Duration::ZERO) => queue.pop(),
                (Some(queue), left) => queue.pop_wait(left),
            })?;
            if item.is_some() || is_over(deadline) {
                return Ok(item.map(LogEntry::from));
            }
            py.check_signals()?;
        }
    }

    fn _acknowledge(&self, py: Python<'_>, position: LogPosition, waits: bool) -> PyResult<()> {
        self.with(py, |opened| match (&opened.queue, waits) {
            (None, _) => Ok(()),
            (Some(queue), false) => queue.acknowledge(position.into()),
            (Some(queue), true) => queue.acknowledge_sync(position.into()),
        })
    }

    fn _give_back(&self, py: Python<'_>, position: LogPosition) -> PyResult<()> {
        self.with(py, |opened| match &opened.queue {
            None => Ok(()),
            Some(queue) => queue.give_back(position.into()),
        })
    }

    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.with(py, |opened| opened.event(|event| event.as_raw_fd()))
    }

    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        // Nothing else than being empty can go wrong with a descriptor of ours.
        self.with(py, |opened| opened.event(|event| event.drain().map_or((), drop)))
    }

    #[getter]
    fn is_closed(&self) -> PyResult<bool> {
        Ok(self.opened.get()?.lock().unwrap_or_else(PoisonError::into_inner).is_none())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let place = self.opened.get()?;
        let closed = py.detach(|| {
            let opened = place.lock().unwrap_or_else(PoisonError::into_inner).take();
            opened.map_or(Ok(()), Opened::close)
        });
        closed.map_err(|error| error::log(py, &error))
    }
}

impl Opened {
    fn event<T>(&self, look: impl FnOnce(&Event) -> T) -> Result<T, LogError> {
        let mut event = self.event.lock().unwrap_or_else(PoisonError::into_inner);
        if event.is_none() {
            *event = Some(self.log.event()?);
        }
        event.as_ref().map(look).ok_or(LogError::Closed)
    }

    /// Ends it, and the readers that came by it: they would keep the place from others.
    fn close(self) -> Result<(), LogError> {
        let closed = self.log.close();
        for reader in self.readers.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if let Some(reader) = reader.upgrade() {
                reader.lock().unwrap_or_else(PoisonError::into_inner).take();
            }
        }
        closed
    }
}

impl Drop for LogHandle {
    fn drop(&mut self) {
        // In a forked child the log is its parent's.
        let Ok(place) = self.opened.get() else { return };
        let opened = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        if opened.is_some() {
            Python::attach(|py| py.detach(|| drop(opened)));
        }
    }
}

fn open(
    place: &Place,
    bytes: Option<u64>,
    is_new: bool,
    window_bytes: Option<u64>,
) -> Result<Log, OpenError> {
    let usual = Options::default();
    let window_bytes = window_bytes.unwrap_or(usual.window_bytes);
    let options = Options { window_bytes, ..usual };
    match (bytes, is_new) {
        (Some(bytes), true) => Log::create_with(place, bytes, options),
        (Some(bytes), false) => Log::open_or_create_with(place, bytes, options),
        (None, _) => Log::open_with(place, options),
    }
}

/// Calls Python, from whichever thread drives the log.
fn tell(then: &Py<PyAny>, position: Position, outcome: Result<Position, LogError>) {
    // An interpreter that is going away hears nothing more.
    let _ = Python::try_attach(|py| {
        let raised = outcome.err().map(|error| error::log(py, &error).into_value(py));
        if let Err(error) = then.call1(py, (LogPosition::from(position), raised)) {
            error.write_unraisable(py, None);
        }
    });
}
