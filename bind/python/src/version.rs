//! One version, pinned, as a read-only buffer; `exported.rs` says how long it lives.

use std::ffi::c_int;

use heliostat_stub_snapshot::{Version as StubVersion, View};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::attachment::Attachment;
use crate::error;
use crate::exported::{Content, ExportedBytes};

/// A version: the pin alone until somebody asks for bytes, then mapped.
enum Pinned {
    Alone(StubVersion),
    Mapped(View),
    /// It could not be mapped.
    Lost,
}

impl Content for Pinned {
    const NAME: &'static str = "snapshot";

    fn show(&mut self) -> PyResult<(*const u8, usize)> {
        if let Self::Alone(_) = self {
            if let Self::Alone(version) = std::mem::replace(self, Self::Lost) {
                *self = Self::Mapped(View::new(version).map_err(|error| error::attach(&error))?);
            }
        }
        let shown = match self {
            Self::Mapped(view) => view.version().map(|version| (view.as_ptr(), version.len())),
            _ => None,
        };
        shown.ok_or_else(|| error::closed(Self::NAME))
    }
}

/// A version of a region, pinned until it is released and no buffer of it is left.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct Version {
    shown: ExportedBytes<Pinned>,
    number: u64,
    published_ns: u64,
    cost: (u64, u64),
    bytes: usize,
}

#[pymethods]
impl Version {
    /// Pins version `number` of a region, or the newest.
    #[new]
    #[pyo3(signature = (attachment, number=None))]
    fn new(attachment: &Bound<'_, Attachment>, number: Option<u64>) -> PyResult<Self> {
        let stub = attachment.get().stub()?;
        let pinned = match number {
            Some(number) => stub.numbered(number),
            None => stub.latest(),
        };
        let version = pinned.map_err(|error| error::attach(&error))?;
        let (number, published_ns, cost) =
            (version.number(), version.published_ns(), version.cost());
        let bytes = version.len();
        let shown = ExportedBytes::new(Pinned::Alone(version));
        Ok(Self { shown, number, published_ns, cost, bytes })
    }

    /// No more buffers are given out; true when the version is let go, false when buffers that
    /// were given out still hold it.
    fn release(&self) -> PyResult<bool> {
        self.shown.release()
    }

    /// Holds the version as one more buffer would, if a buffer holds it: false if none does.
    fn _hold(&self) -> PyResult<bool> {
        self.shown.hold()
    }

    /// Takes a `_hold` that answered true back.
    fn _unhold(&self) -> PyResult<()> {
        self.shown.unhold()
    }

    /// Whether the version is still pinned, by this object or by a buffer of it.
    #[getter]
    fn is_pinned(&self) -> PyResult<bool> {
        self.shown.is_there()
    }

    #[getter]
    fn is_released(&self) -> PyResult<bool> {
        self.shown.is_released()
    }

    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    #[getter]
    fn published_ns(&self) -> u64 {
        self.published_ns
    }

    /// Bytes written since the version before, and bytes copied for it.
    fn costs(&self) -> (u64, u64) {
        self.cost
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes
    }

    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: the interpreter's call; this object owns `shown`, and gives back below.
        unsafe { slf.get().shown.give(slf.as_any(), view, flags) }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.shown.give_back();
    }
}
