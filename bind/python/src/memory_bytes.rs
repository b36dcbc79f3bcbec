//! Bytes of a memory region where they lie, as a buffer that others write too.
//!
//! Unlike a version or an item they change under whoever looks; what stays is that they are the region's:
//! the handle is held until the last buffer goes (`exported.rs`).

use std::ffi::c_int;

use heliostat_stub_memory::MappedBytes;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::exported::{Content, ExportedBytes};
use crate::memory_region::MemoryRegion;

impl Content for MappedBytes {
    const NAME: &'static str = "memory region";

    fn show(&mut self) -> PyResult<(*const u8, usize)> {
        Ok((self.as_ptr(), self.len()))
    }

    fn is_read_only(&self) -> bool {
        !self.is_writable()
    }
}

/// The bytes of one array.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct MemoryBytes {
    shown: ExportedBytes<MappedBytes>,
}

#[pymethods]
impl MemoryBytes {
    /// `bytes` bytes of a region from `offset` on.
    #[new]
    fn new(
        py: Python<'_>,
        region: &Bound<'_, MemoryRegion>,
        offset: u64,
        bytes: u64,
    ) -> PyResult<Self> {
        Ok(Self { shown: ExportedBytes::new(region.get().mapped(py, offset, bytes)?) })
    }

    /// Held for a child that has an array of them; false if nobody has one.
    fn _hold(&self) -> PyResult<bool> {
        self.shown.hold()
    }

    /// Ends what `_hold` began.
    fn _unhold(&self) -> PyResult<()> {
        self.shown.unhold()
    }

    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: the interpreter's call; `shown` is this object's, and `__releasebuffer__` gives back.
        unsafe { slf.get().shown.give(slf.as_any(), view, flags) }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.shown.give_back();
    }
}
