//! A consumer of a queue, and the item that it holds as a read-only buffer.
//!
//! An item is held until it is released and no buffer of it is left, so what an array sees cannot
//! change while the array lives. A consumer holds one item at a time.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heliostat_abi::region::OWN_USER;
use heliostat_stub::snapshot::queue::{attach_of, Consumer, Item as StubItem};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;
use crate::lent::Lent;
use crate::process::{claim_session, Own};

type Held = Lent<Consumer, StubItem<'static>>;
type Shared = Arc<Mutex<Held>>;

fn lock(shared: &Shared) -> MutexGuard<'_, Held> {
    // A panic under the lock leaves a consumer that is as it was before the call.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_held() -> PyErr {
    PyBufferError::new_err(
        "the item before is still held: leave its block, and drop its arrays or copy them",
    )
}

/// A queue, mapped read-only.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct QueueConsumer {
    shared: Own<Shared>,
    bell: i32,
    description: Vec<u8>,
    item_bytes: u64,
}

impl QueueConsumer {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Consumer) -> T + Send,
    ) -> PyResult<T> {
        let shared = self.shared.get()?;
        py.detach(|| Ok(work(lock(shared).whole().ok_or_else(is_held)?)))
    }
}

#[pymethods]
impl QueueConsumer {
    /// Attaches to the queue `name` of user `owner` (own, if `None`).
    #[new]
    #[pyo3(signature = (name, owner=None))]
    fn new(py: Python<'_>, name: &str, owner: Option<u32>) -> PyResult<Self> {
        claim_session();
        let attached = py.detach(|| attach_of(name, owner.unwrap_or(OWN_USER)));
        let consumer = attached.map_err(|error| error::named(&error))?;
        let (bell, description) = (consumer.bell_fd().as_raw_fd(), consumer.description());
        let item_bytes = consumer.shape().slot_bytes;
        let shared = Own::new(Arc::new(Mutex::new(Lent::new(consumer))));
        Ok(Self { shared, bell, description, item_bytes })
    }

    /// Holds the oldest item that is there; `None` when there is none.
    fn next_item(&self, py: Python<'_>) -> PyResult<Option<Item>> {
        let shared = self.shared.get()?;
        let found = py.detach(|| {
            let mut held = lock(shared);
            // SAFETY: the item is the answer and nothing else; `Item` ends it under this lock and
            // drops it at once.
            let made = unsafe { held.lend(|consumer| consumer.take().ok_or(())) };
            let is_found = made.ok_or_else(is_held)?.is_ok();
            let facts = |item: &StubItem<'_>| (item.as_ptr() as usize, item.len(), item.number());
            Ok::<_, PyErr>(if is_found { held.part().map(facts) } else { None })
        })?;
        Ok(found.map(|(start, bytes, number)| {
            let state = Mutex::new(State { exports: 0, is_released: false, is_over: false });
            Item { shared: Own::new(Arc::clone(shared)), state, start, bytes, number }
        }))
    }

    /// Sleeps for at most `seconds`, or until a signal, an item, or the end.
    fn sleep(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let limit = Duration::try_from_secs_f64(seconds)
            .map_err(|_| PyValueError::new_err("a timeout is a number of seconds, 0 or more"))?;
        let has_item = self.with(py, |consumer| consumer.wait(Some(limit)))?;
        py.check_signals()?;
        Ok(has_item)
    }

    /// What the producer says that the bytes mean.
    fn description<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.description)
    }

    #[getter]
    fn item_bytes(&self) -> u64 {
        self.item_bytes
    }

    /// Items that were overwritten before this consumer came to them.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |consumer| consumer.lost())
    }

    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |consumer| consumer.is_closed())
    }

    /// Readable once after `arm` when an item came, for ever once the producer is gone.
    #[getter]
    fn bell(&self) -> i32 {
        self.bell
    }

    /// Asks for one ring; true when there is an item already, or the queue has ended.
    fn arm(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, Consumer::arm)
    }

    /// Takes what was rung; false when the producer is gone.
    fn drain(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |consumer| consumer.drain())
    }
}

struct State {
    exports: usize,
    is_released: bool,
    is_over: bool,
}

/// An item that is held, until it is released and no buffer of it is left.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct Item {
    shared: Own<Shared>,
    state: Mutex<State>,
    start: usize,
    bytes: usize,
    number: u64,
}

impl Item {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the item go once nobody reads it any more.
    fn settle(&self, state: &mut State) -> PyResult<()> {
        if state.is_released && state.exports == 0 && !state.is_over {
            state.is_over = true;
            drop(lock(self.shared.get()?).end());
        }
        Ok(())
    }
}

#[pymethods]
impl Item {
    /// No more buffers are given out; true when the item is let go.
    fn release(&self) -> PyResult<bool> {
        self.shared.get()?;
        let mut state = self.state();
        state.is_released = true;
        self.settle(&mut state)?;
        Ok(state.is_over)
    }

    #[getter]
    fn number(&self) -> u64 {
        self.number
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
        let this = slf.get();
        this.shared.get()?;
        let mut state = this.state();
        if view.is_null() || state.is_released {
            return Err(error::closed("item"));
        }
        let (start, length) = (this.start as *mut c_void, this.bytes as ffi::Py_ssize_t);
        // SAFETY: `view` is the caller's to be filled (not null); the item's bytes stay mapped and
        // held for as long as `exports` counts this view; read-only is said; the view holds this.
        match unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, 1, flags) } {
            0 => {
                state.exports += 1;
                Ok(())
            }
            _ => Err(PyErr::fetch(slf.py())),
        }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        let mut state = self.state();
        state.exports -= 1;
        // In a forked child the item is the parent's: nothing to give back.
        let _ = self.settle(&mut state);
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        let is_over = self.state().is_over;
        if let (false, Ok(shared)) = (is_over, self.shared.get()) {
            drop(lock(shared).end());
        }
    }
}
