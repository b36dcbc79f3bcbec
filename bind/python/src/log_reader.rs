//! Reading logs: by who has one open, and by others beside its writer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heliostat_stub_log::{LogError, LogReader as StubReader, Reader};
use pyo3::prelude::*;

use crate::error;
use crate::log_entry::{LogEntry, LogPosition};
use crate::log_place::place_of;
use crate::process::Own;
use crate::waiting::{deadline, is_over, slice};

/// A reader of a log, which ends with the log.
pub(crate) type SharedReader = Arc<Mutex<Option<Reader>>>;

/// The acknowledged entries of an open log, one after the other.
#[pyclass(frozen, module = "heliostat._native")]
pub struct LogEntries {
    reader: Own<SharedReader>,
}

impl LogEntries {
    pub(crate) fn new(reader: SharedReader) -> Self {
        Self { reader: Own::new(reader) }
    }
}

#[pymethods]
impl LogEntries {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<LogEntry>> {
        let reader = self.reader.get()?;
        let found = py.detach(|| {
            let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
            reader.as_mut().map(|reader| reader.read())
        });
        let found = found.ok_or_else(|| error::closed("log"))?;
        Ok(found.map_err(|error| error::log(py, &error))?.map(LogEntry::from))
    }

    /// Where the next entry begins.
    #[getter]
    fn position(&self) -> PyResult<LogPosition> {
        let reader = self.reader.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        let position = reader.as_ref().map(|reader| reader.position().into());
        position.ok_or_else(|| error::closed("log"))
    }
}

impl Drop for LogEntries {
    fn drop(&mut self) {
        // In a forked child the reader is its parent's.
        let Ok(reader) = self.reader.get() else { return };
        // It may be the log's last handle, which ends the log's thread: without the lock that a
        // callback waits for.
        Python::attach(|py| {
            py.detach(|| drop(reader.lock().unwrap_or_else(PoisonError::into_inner).take()));
        });
    }
}

/// A log that another process may have open to write.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct LogReader {
    // `None` once it is closed.
    reader: Own<Mutex<Option<StubReader>>>,
}

impl LogReader {
    fn turn(&self) -> PyResult<MutexGuard<'_, Option<StubReader>>> {
        Ok(self.reader.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut StubReader) -> Result<T, LogError> + Send,
    ) -> PyResult<T> {
        let place = self.reader.get()?;
        let done =
            py.detach(|| place.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(work));
        done.ok_or_else(|| error::closed("reader"))?.map_err(|error| error::log(py, &error))
    }
}

#[pymethods]
impl LogReader {
    #[new]
    fn new(py: Python<'_>, place: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| StubReader::open(place_of(place)));
        let opened = opened.map_err(|error| error::log_open(py, &error))?;
        Ok(Self { reader: Own::new(Mutex::new(Some(opened))) })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<LogEntry>> {
        Ok(self.with(py, |reader| reader.read())?.map(LogEntry::from))
    }

    /// Whether the log was written in time, since the last wait.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let deadline = deadline(timeout)?;
        loop {
            let left = Some(slice(deadline));
            if self.with(py, |reader| reader.wait(left))? {
                return Ok(true);
            }
            if is_over(deadline) {
                return Ok(false);
            }
            py.check_signals()?;
        }
    }

    fn check_end(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |reader| reader.check_end())
    }

    fn go_to(&self, py: Python<'_>, position: LogPosition) -> PyResult<()> {
        self.with(py, |reader| {
            reader.go_to(position.into());
            Ok(())
        })
    }

    fn go_to_begin(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |reader| reader.go_to_begin())
    }

    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<LogPosition> {
        self.with(py, |reader| Ok(reader.position().into()))
    }

    #[getter]
    fn is_closed(&self) -> PyResult<bool> {
        Ok(self.turn()?.is_none())
    }

    fn close(&self) -> PyResult<()> {
        self.turn()?.take();
        Ok(())
    }
}
