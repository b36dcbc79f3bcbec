//! Bytes that Python reads where they lie: a version, an item, a part of a memory region. All but the
//! last are read-only.
//!
//! Whoever holds an exported buffer (a memoryview, and through it an array) holds the Python object
//! of an `ExportedBytes`, and that holds the content: a pin or a hold, and the mapping. So what an array
//! sees cannot change while the array lives, whatever was released, closed or killed meanwhile.
//!
//! ```text
//!               release()                 last export goes
//!  open  -------------------> leaving  -------------------> gone: the content is dropped
//!    |  (no exports)                                          ^
//!    +--------------------------------------------------------+
//! ```

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffer;
use crate::error;
use crate::process::Own;

/// What an `ExportedBytes` holds; dropping it lets it go.
pub trait Content: Sized {
    /// What it is, for when it is closed.
    const NAME: &'static str;

    /// Makes the bytes readable if they are not yet. Answers the first, and how many; both stay
    /// while this lives. After an error it is dropped.
    fn show(&mut self) -> PyResult<(*const u8, usize)>;

    /// Whether nobody may write them.
    fn is_read_only(&self) -> bool {
        true
    }
}

struct State<C> {
    content: Option<C>,
    exports: usize,
    holds: usize,
    is_released: bool,
}

impl<C> State<C> {
    fn is_held(&self) -> bool {
        self.exports + self.holds > 0
    }

    /// Lets the content go once nobody reads any more.
    fn settle(&mut self) {
        if self.is_released && !self.is_held() {
            self.content = None;
        }
    }
}

/// Bytes that are given out until they are released, and stay until no buffer of them is left.
pub struct ExportedBytes<C>(Own<Mutex<State<C>>>);

impl<C: Content> ExportedBytes<C> {
    /// Of content that this process has got.
    pub fn new(content: C) -> Self {
        let content = Some(content);
        let state = State { content, exports: 0, holds: 0, is_released: false };
        Self(Own::new(Mutex::new(state)))
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, State<C>>> {
        Ok(self.0.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// No more buffers are given out; true when the content is let go, false when buffers that
    /// were given out still hold it.
    pub fn release(&self) -> PyResult<bool> {
        let mut state = self.lock()?;
        state.is_released = true;
        state.settle();
        Ok(state.content.is_none())
    }

    /// Whether it was released.
    pub fn is_released(&self) -> PyResult<bool> {
        Ok(self.lock()?.is_released)
    }

    /// Whether the content is still there.
    pub fn is_there(&self) -> PyResult<bool> {
        Ok(self.lock()?.content.is_some())
    }

    /// Holds the content as one more buffer would, if a buffer holds it: false if none does.
    pub fn hold(&self) -> PyResult<bool> {
        let mut state = self.lock()?;
        let is_held = state.is_held();
        state.holds += usize::from(is_held);
        Ok(is_held)
    }

    /// Takes a `hold` that answered true back.
    pub fn unhold(&self) -> PyResult<()> {
        let mut state = self.lock()?;
        // A hold too few must not cost a buffer its memory.
        state.holds = state.holds.saturating_sub(1);
        state.settle();
        Ok(())
    }

    /// `__getbuffer__` of `exporter`, whose this is.
    ///
    /// # Safety
    /// `view` is null or the caller's to be filled; `exporter` owns this, and calls `give_back`
    /// when the view is released.
    pub unsafe fn give(
        &self,
        exporter: &Bound<'_, PyAny>,
        view: *mut ffi::Py_buffer,
        flags: std::ffi::c_int,
    ) -> PyResult<()> {
        let mut state = self.lock()?;
        let is_open = !state.is_released;
        let content = state.content.as_mut().filter(|_| is_open);
        let content = content.ok_or_else(|| error::closed(C::NAME))?;
        let (start, bytes) = match content.show() {
            Ok(shown) => shown,
            Err(error) => {
                state.content = None;
                return Err(error);
            }
        };
        let is_read_only = content.is_read_only();
        // SAFETY: `view` by the caller's promise; the bytes stay while the content lives, and it
        // lives while `exports` counts this view; they may be written where the content says so.
        unsafe { buffer::fill(exporter, view, start.cast_mut(), bytes, is_read_only, flags)? };
        state.exports += 1;
        Ok(())
    }

    /// `__releasebuffer__`. In a forked child the content is the parent's: nothing to give back.
    pub fn give_back(&self) {
        if let Ok(mut state) = self.lock() {
            state.exports -= 1;
            state.settle();
        }
    }
}
