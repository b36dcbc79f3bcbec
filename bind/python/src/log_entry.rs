//! An entry of a log, and its place.

use std::ffi::c_int;

use heliostat_stub_log::{Entry, Item, Position};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffer;

/// Where an entry begins: bytes, and entries, before it.
#[pyclass(frozen, eq, ord, hash, from_py_object, module = "heliostat._native")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    #[pyo3(get)]
    at: u64,
    #[pyo3(get)]
    sequence: u64,
}

#[pymethods]
impl LogPosition {
    #[new]
    fn new(at: u64, sequence: u64) -> Self {
        Self { at, sequence }
    }

    fn __repr__(&self) -> String {
        format!("Position({}, {})", self.at, self.sequence)
    }

    fn __getnewargs__(&self) -> (u64, u64) {
        (self.at, self.sequence)
    }
}

impl From<Position> for LogPosition {
    fn from(position: Position) -> Self {
        Self { at: position.at, sequence: position.sequence }
    }
}

impl From<LogPosition> for Position {
    fn from(position: LogPosition) -> Self {
        Self { at: position.at, sequence: position.sequence }
    }
}

/// An entry that was read, or handed out: a buffer of its payload.
#[pyclass(frozen, module = "heliostat._native")]
pub struct LogEntry {
    #[pyo3(get)]
    position: LogPosition,
    /// Where the next one begins; of a queue's this is not told.
    #[pyo3(get)]
    next: Option<LogPosition>,
    payload: Vec<u8>,
}

#[pymethods]
impl LogEntry {
    /// A copy; the entry itself is a buffer without one.
    #[getter]
    fn payload(&self, py: Python<'_>) -> Py<PyBytes> {
        PyBytes::new(py, &self.payload).unbind()
    }

    fn __bytes__(&self, py: Python<'_>) -> Py<PyBytes> {
        self.payload(py)
    }

    fn __len__(&self) -> usize {
        self.payload.len()
    }

    fn __repr__(&self) -> String {
        let LogPosition { at, sequence } = self.position;
        let bytes = self.payload.len();
        format!("<heliostat.log.Entry at {at}, entry {sequence}, {bytes} bytes>")
    }

    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let payload = &slf.get().payload;
        let start = payload.as_ptr().cast_mut();
        // SAFETY: the interpreter's call; the bytes are never changed and live as long as this object,
        // which the view holds; it is read-only.
        unsafe { buffer::fill(slf.as_any(), view, start, payload.len(), true, flags) }
    }
}

impl From<Entry> for LogEntry {
    fn from(entry: Entry) -> Self {
        let Entry { position, next, payload } = entry;
        Self { position: position.into(), next: Some(next.into()), payload }
    }
}

impl From<Item> for LogEntry {
    fn from(item: Item) -> Self {
        Self { position: item.position.into(), next: None, payload: item.payload }
    }
}
