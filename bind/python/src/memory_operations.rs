//! Operations on memory regions that are submitted now and complete later.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use heliostat_stub_memory::{
    Completed, MemoryError, Operations as StubOperations, Region as StubRegion, Submission, Work,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffer::HeldBuffer;
use crate::error;
use crate::memory::Memory;
use crate::memory_access::word;
use crate::memory_region::MemoryRegion;
use crate::process::Own;

/// Operations on their way. Threads may share it.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct MemoryOperations {
    inner: Own<StubOperations>,
}

/// Number, bytes moved or what the word was, what was read, and the exception.
type Told = (u64, u64, Py<PyBytes>, Option<PyErr>);

impl MemoryOperations {
    fn submit(
        &self,
        py: Python<'_>,
        region: &Bound<'_, MemoryRegion>,
        is_urgent: bool,
        work: Work,
    ) -> PyResult<u64> {
        let region: Arc<StubRegion> = region.get().region()?;
        let inner = self.inner.get()?;
        let submission = Submission::new(&region, work);
        let submission = if is_urgent { submission.urgent() } else { submission };
        // The last reference of what is refused gives the handle back: without the lock, too.
        let submitted = py.detach(move || {
            let submitted = inner.submit(submission).map_err(|refused| refused.error);
            drop(region);
            submitted
        });
        submitted.map_err(|error| error::memory(&error))
    }
}

#[pymethods]
impl MemoryOperations {
    #[new]
    fn new(py: Python<'_>, memory: &Bound<'_, Memory>, limit: usize) -> PyResult<Self> {
        let operations = memory.get().operations(py, limit)?;
        Ok(Self { inner: Own::new(operations) })
    }

    #[pyo3(signature = (region, offset, bytes, urgent=false))]
    fn read(
        &self,
        py: Python<'_>,
        region: &Bound<'_, MemoryRegion>,
        offset: u64,
        bytes: usize,
        urgent: bool,
    ) -> PyResult<u64> {
        region.get().check_length(py, offset, bytes as u64)?;
        self.submit(py, region, urgent, Work::Read { offset, into: vec![0; bytes] })
    }

    #[pyo3(signature = (region, offset, buffer, urgent=false))]
    fn write(
        &self,
        py: Python<'_>,
        region: &Bound<'_, MemoryRegion>,
        offset: u64,
        buffer: &Bound<'_, PyAny>,
        urgent: bool,
    ) -> PyResult<u64> {
        let held = HeldBuffer::to_read(buffer)?;
        // SAFETY: exported, so it stays where it is until `held` goes; who writes it meanwhile races with
        // a copy, by which nothing is decided.
        let from = unsafe { held.as_slice() }.to_vec();
        self.submit(py, region, urgent, Work::Write { offset, from })
    }

    #[pyo3(signature = (region, offset, bytes, value=0, urgent=false))]
    fn set(
        &self,
        py: Python<'_>,
        region: &Bound<'_, MemoryRegion>,
        offset: u64,
        bytes: u64,
        value: u8,
        urgent: bool,
    ) -> PyResult<u64> {
        self.submit(py, region, urgent, Work::Set { offset, bytes, value })
    }

    #[pyo3(signature = (region, offset, into, at, bytes, urgent=false))]
    #[allow(clippy::too_many_arguments)] // they are Python's
    fn copy(
        &self,
        py: Python<'_>,
        region: &Bound<'_, MemoryRegion>,
        offset: u64,
        into: &Bound<'_, MemoryRegion>,
        at: u64,
        bytes: u64,
        urgent: bool,
    ) -> PyResult<u64> {
        let into = into.get().region()?;
        self.submit(py, region, urgent, Work::Copy { offset, into, at, bytes })
    }

    #[pyo3(signature = (region, offset, more, urgent=false))]
    fn fetch_add(
        &self,
        py: Python<'_>,
        region: &Bound<'_, MemoryRegion>,
        offset: u64,
        more: &Bound<'_, PyAny>,
        urgent: bool,
    ) -> PyResult<u64> {
        self.submit(py, region, urgent, Work::FetchAdd { offset, more: word(more)? })
    }

    #[pyo3(signature = (region, offset, expected, new, urgent=false))]
    fn compare_swap(
        &self,
        py: Python<'_>,
        region: &Bound<'_, MemoryRegion>,
        offset: u64,
        expected: &Bound<'_, PyAny>,
        new: &Bound<'_, PyAny>,
        urgent: bool,
    ) -> PyResult<u64> {
        let (expected, new) = (word(expected)?, word(new)?);
        self.submit(py, region, urgent, Work::CompareSwap { offset, expected, new })
    }

    #[pyo3(signature = (region, offset, new, urgent=false))]
    fn swap(
        &self,
        py: Python<'_>,
        region: &Bound<'_, MemoryRegion>,
        offset: u64,
        new: &Bound<'_, PyAny>,
        urgent: bool,
    ) -> PyResult<u64> {
        self.submit(py, region, urgent, Work::Swap { offset, new: word(new)? })
    }

    /// A completion that is there.
    fn _take(&self, py: Python<'_>) -> PyResult<Option<Told>> {
        let inner = self.inner.get()?;
        Ok(py.detach(|| inner.take()).map(|completed| told(py, completed)))
    }

    /// Waits for one, for so many seconds at most; `None` when there was none.
    fn _wait(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<Told>> {
        let inner = self.inner.get()?;
        let limit = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        match py.detach(|| inner.wait(Some(limit))) {
            Ok(completed) => Ok(Some(told(py, completed))),
            Err(MemoryError::TimedOut) => Ok(None),
            Err(other) => Err(error::memory(&other)),
        }
    }

    fn cancel(&self, py: Python<'_>, number: u64) -> PyResult<bool> {
        let inner = self.inner.get()?;
        Ok(py.detach(|| inner.cancel(number)))
    }

    fn fileno(&self) -> PyResult<i32> {
        let found = self.inner.get()?.descriptor();
        found.map(|fd| fd.as_raw_fd()).map_err(|error| error::memory(&error))
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.inner.get()?.under_way())
    }
}

fn told(py: Python<'_>, completed: Completed) -> Told {
    let Completed { number, result, bytes } = completed;
    let bytes = PyBytes::new(py, &bytes).unbind();
    match result {
        Ok(result) => (number, result, bytes, None),
        Err(why) => (number, 0, bytes, Some(error::memory(&why))),
    }
}
