//! A consumer of a queue, and the item that it holds as a read-only buffer.
//!
//! An item is held until it is released and no buffer of it is left, so what an array sees cannot
//! change while the array lives. A consumer holds one item at a time.

use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::time::Duration;

use heliostat_abi::snapshot::region::OWN_USER;
use heliostat_stub_snapshot::queue::{attach_of, Consumer, Item as StubItem};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;
use crate::exported::{Content, ExportedBytes};
use crate::lent::{Lent, Words};
use crate::process::{claim_session, Own};

type LentItem = Lent<Consumer, StubItem<'static>>;

const WORDS: Words = Words {
    busy: "the item before is still held: leave its block, and drop its arrays or copy them",
    whole: "queue",
};

/// A queue, mapped read-only.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct QueueConsumer {
    held: Own<LentItem>,
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
        self.held.get()?.with(py, work)
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
        let held = Own::new(Lent::new(consumer, WORDS));
        Ok(Self { held, bell, description, item_bytes })
    }

    /// Holds the oldest item that is there; `None` when there is none.
    fn next_item(&self, py: Python<'_>) -> PyResult<Option<Item>> {
        let held = self.held.get()?;
        let facts = |item: &StubItem<'_>| (item.as_ptr() as usize, item.len(), item.number());
        // SAFETY: the item is the answer and nothing else.
        let found = unsafe { held.lend(py, |consumer| Ok(consumer.take()), facts)? };
        Ok(found.map(|(start, bytes, number)| {
            let shown = ExportedBytes::new(Taken { held: held.clone(), start, bytes });
            Item { shown, bytes, number }
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

/// An item, held.
struct Taken {
    held: LentItem,
    start: usize,
    bytes: usize,
}

impl Content for Taken {
    const NAME: &'static str = "item";

    fn show(&mut self) -> PyResult<(*const u8, usize)> {
        Ok((self.start as *const u8, self.bytes))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.held.end(drop);
    }
}

/// An item that is held, until it is released and no buffer of it is left.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct Item {
    shown: ExportedBytes<Taken>,
    bytes: usize,
    number: u64,
}

#[pymethods]
impl Item {
    /// No more buffers are given out; true when the item is let go.
    fn release(&self) -> PyResult<bool> {
        self.shown.release()
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
        // SAFETY: the interpreter's call; this object owns `shown`, and gives back below.
        unsafe { slf.get().shown.give(slf.as_any(), view, flags) }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.shown.give_back();
    }
}
