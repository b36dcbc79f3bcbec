//! Python's buffer protocol, both ways: memory that a Python object owns, held while a region is
//! made of it, and memory of ours that Python gets a view of.

use std::ffi::c_int;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// An exported buffer: its memory stays where it is, and readable, until this is dropped.
pub struct HeldBuffer {
    // Boxed, since an exporter may keep the address of its view.
    view: Box<ffi::Py_buffer>,
}

// SAFETY: the view is only read here (address, length); releasing it takes the interpreter's lock,
// which `drop` takes itself.
unsafe impl Send for HeldBuffer {}
// SAFETY: as for Send; shared access reads two words.
unsafe impl Sync for HeldBuffer {}

impl HeldBuffer {
    /// Asks `object` for a writable, contiguous buffer; the object's own exception if it has none.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::ask(object, ffi::PyBUF_WRITABLE)
    }

    /// Asks for one that is only read.
    pub fn to_read(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::ask(object, ffi::PyBUF_SIMPLE)
    }

    fn ask(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
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

    /// The bytes, to be read.
    ///
    /// # Safety
    /// The caller says what others who write them meanwhile do to it.
    pub unsafe fn as_slice(&self) -> &[u8] {
        if self.view.buf.is_null() {
            return &[];
        }
        // SAFETY: exported, so so many bytes are there until the view is released; the rest is the
        // caller's promise.
        unsafe { std::slice::from_raw_parts(self.view.buf.cast(), self.len()) }
    }

    /// The bytes, to be written. The buffer was asked for with `new`.
    ///
    /// # Safety
    /// As `as_slice`, and of others who read them.
    pub unsafe fn as_mut_slice(&mut self) -> &mut [u8] {
        if self.view.buf.is_null() || self.view.readonly != 0 {
            return &mut [];
        }
        // SAFETY: as in `as_slice`; the exporter says that they may be written (checked).
        unsafe { std::slice::from_raw_parts_mut(self.view.buf.cast(), self.len()) }
    }
}

impl Drop for HeldBuffer {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: filled by PyObject_GetBuffer, released once, under the interpreter's lock.
            unsafe { ffi::PyBuffer_Release(&mut *self.view) }
        });
    }
}

/// Fills a view of `bytes` bytes at `start`, which holds `exporter`; BufferError if a buffer that
/// may be written is asked for and the bytes are `is_read_only`.
///
/// # Safety
/// `view` is null or the caller's to be filled; the bytes stay mapped, and writable unless
/// `is_read_only`, until the view is released.
pub unsafe fn fill(
    exporter: &Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    start: *mut u8,
    bytes: usize,
    is_read_only: bool,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("no view to fill"));
    }
    let (owner, length) = (exporter.as_ptr(), bytes as ffi::Py_ssize_t);
    let read_only = c_int::from(is_read_only);
    // SAFETY: not null; the rest is the caller's promise. It takes a reference to the exporter.
    match unsafe { ffi::PyBuffer_FillInfo(view, owner, start.cast(), length, read_only, flags) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(exporter.py())),
    }
}
