//! One version, pinned, as a read-only buffer.
//!
//! Whoever holds an exported buffer (a memoryview, and through it an array) holds this object, and
//! this object holds the pin and the mapping. So what an array sees cannot change while the array
//! lives, whatever was released, closed or killed meanwhile.
//!
//! ```text
//!               release()                 last export goes
//!  open  -------------------> leaving  -------------------> gone: unmapped, pin taken back
//!    |  (no exports)                                          ^
//!    +--------------------------------------------------------+
//! ```

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use heliostat_stub::snapshot::{Version as StubVersion, View};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::attachment::Attachment;
use crate::error;
use crate::process::Own;

/// What is left of a version: the pin alone until somebody asks for bytes, then mapped.
enum Content {
    Pinned(StubVersion),
    Shown(View),
    Gone,
}

struct State {
    content: Content,
    exports: usize,
    is_released: bool,
}

/// A version of a region, pinned until it is released and no buffer of it is left.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct Version {
    state: Own<Mutex<State>>,
    number: u64,
    published_ns: u64,
    cost: (u64, u64),
    bytes: usize,
}

impl State {
    /// Maps the version if it is not yet; its first byte.
    fn shown(&mut self) -> PyResult<*const u8> {
        if self.is_released {
            return Err(error::closed("snapshot"));
        }
        self.content = match std::mem::replace(&mut self.content, Content::Gone) {
            Content::Pinned(version) => {
                Content::Shown(View::new(version).map_err(|error| error::attach(&error))?)
            }
            other => other,
        };
        match &self.content {
            Content::Shown(view) => Ok(view.as_ptr()),
            _ => Err(error::closed("snapshot")),
        }
    }

    /// Unmaps and takes the pin back once nobody reads any more.
    fn settle(&mut self) {
        if self.is_released && self.exports == 0 {
            self.content = Content::Gone;
        }
    }
}

impl Version {
    fn lock(&self) -> PyResult<MutexGuard<'_, State>> {
        Ok(self.state.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
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
        let content = Content::Pinned(version);
        let state = Own::new(Mutex::new(State { content, exports: 0, is_released: false }));
        Ok(Self { state, number, published_ns, cost, bytes })
    }

    /// No more buffers are given out; true when the version is let go, false when buffers that
    /// were given out still hold it.
    fn release(&self) -> PyResult<bool> {
        let mut state = self.lock()?;
        state.is_released = true;
        state.settle();
        Ok(state.exports == 0)
    }

    /// Holds the version as one more buffer would, if a buffer holds it: false if none does.
    fn hold(&self) -> PyResult<bool> {
        let mut state = self.lock()?;
        let is_held = state.exports > 0;
        state.exports += usize::from(is_held);
        Ok(is_held)
    }

    /// Takes a `hold` that answered true back.
    fn unhold(&self) -> PyResult<()> {
        let mut state = self.lock()?;
        state.exports = state.exports.saturating_sub(1);
        state.settle();
        Ok(())
    }

    /// Whether the version is still pinned, by this object or by a buffer of it.
    #[getter]
    fn is_pinned(&self) -> PyResult<bool> {
        Ok(!matches!(self.lock()?.content, Content::Gone))
    }

    #[getter]
    fn is_released(&self) -> PyResult<bool> {
        Ok(self.lock()?.is_released)
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
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let this = slf.get();
        let mut state = this.lock()?;
        let start = state.shown()? as *mut c_void;
        let length = this.bytes as ffi::Py_ssize_t;
        // SAFETY: `view` is the caller's to be filled (not null); `length` bytes at `start` are
        // mapped for as long as `exports` counts this view; read-only is said, so that a request
        // for a writable buffer is refused; the view holds a reference to this object.
        let answer = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, 1, flags) };
        match answer {
            0 => {
                state.exports += 1;
                Ok(())
            }
            _ => Err(PyErr::fetch(slf.py())),
        }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        // In a forked child the pin is the parent's: nothing to give back.
        if let Ok(mut state) = self.lock() {
            state.exports -= 1;
            state.settle();
        }
    }
}
