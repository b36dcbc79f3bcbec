//! Memory that a Python object owns, held while a region is made of it.

use std::ffi::c_int;

use pyo3::ffi;
use pyo3::prelude::*;

/// An exported buffer: its memory stays where it is, readable and writable, until this is dropped.
pub struct Held {
    // Boxed, since an exporter may keep the address of its view.
    view: Box<ffi::Py_buffer>,
}

// SAFETY: the view is only read here (address, length); releasing it takes the interpreter's lock,
// which `drop` takes itself.
unsafe impl Send for Held {}
// SAFETY: as for Send; shared access reads two words.
unsafe impl Sync for Held {}

impl Held {
    /// Asks `object` for a writable, contiguous buffer; the object's own exception if it has none.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        let flags: c_int = ffi::PyBUF_WRITABLE;
        // SAFETY: a live object and a view that is zeroed and outlives the call.
        let answer = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut *view, flags) };
        match answer {
            0 => Ok(Self { view }),
            _ => Err(PyErr::fetch(object.py())),
        }
    }

    /// Address of the first byte.
    pub fn start(&self) -> usize {
        self.view.buf as usize
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        usize::try_from(self.view.len).unwrap_or(0)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: filled by PyObject_GetBuffer, released once, under the interpreter's lock.
            unsafe { ffi::PyBuffer_Release(&mut *self.view) }
        });
    }
}
