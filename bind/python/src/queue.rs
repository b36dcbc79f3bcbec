//! The producer of a queue, and the slot that it writes.

use std::ffi::c_int;
use std::ops::DerefMut;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::Arc;
use std::time::Duration;

use heliostat_base::mapping::SharedMapping;
use heliostat_stub_snapshot::queue::{
    publish_as, Delivery, Flow, NamedQueue, Queue as StubQueue, Settings, Slot as StubSlot,
};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffer;
use crate::error;
use crate::lent::{Lent, Words};
use crate::process::{claim_session, Own};

type LentQueue = Lent<NamedQueue, StubSlot<'static>>;

const WORDS: Words =
    Words { busy: "a slot is reserved already; leave its block first", whole: "queue" };

/// A queue with a name, into which this process writes.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct Queue {
    shared: Own<LentQueue>,
    item_bytes: usize,
}

impl Queue {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut StubQueue) -> T + Send,
    ) -> PyResult<T> {
        self.shared.get()?.with(py, |queue| work(queue.deref_mut()))
    }
}

#[pymethods]
impl Queue {
    /// Makes a queue whose items `description` explains, and gives it its name.
    #[new]
    fn new(
        py: Python<'_>,
        name: &str,
        description: &[u8],
        item_bytes: u64,
        slots: u32,
        is_dealt: bool,
        overwrites: bool,
    ) -> PyResult<Self> {
        let delivery = if is_dealt { Delivery::One } else { Delivery::All };
        let flow = if overwrites { Flow::Overwrite } else { Flow::Full };
        let settings = Settings { slots, item_bytes, delivery, flow, ..Settings::default() };
        let mut queue = StubQueue::new(settings).map_err(|error| error::queue(&error))?;
        if !queue.describe(description) {
            return Err(error::raise("InvalidRegion", "a description has 2,044 bytes at most"));
        }
        claim_session();
        let named = py.detach(|| publish_as(name, queue));
        let named = named.map_err(|error| error::named(&error))?;
        let shared = Own::new(Lent::new(named, WORDS));
        Ok(Self { shared, item_bytes: item_bytes as usize })
    }

    /// A slot to write the next item in.
    fn _reserve(&self, py: Python<'_>) -> PyResult<Slot> {
        let shared = self.shared.get()?;
        let window = Own::new(shared.with(py, |queue| queue.window())?);
        let make = |queue: &'static mut NamedQueue| {
            queue.deref_mut().reserve().map(Some).map_err(|error| error::queue(&error))
        };
        // SAFETY: the slot is the answer and nothing else.
        let start = unsafe { shared.lend(py, make, |slot| slot.as_ptr() as usize)? };
        let start = start.ok_or_else(|| error::closed("slot"))?;
        let shared = Own::new(shared.clone());
        Ok(Slot { shared, _window: window, start, bytes: self.item_bytes, is_over: false.into() })
    }

    /// Idle until a consumer has gone on, for `seconds` at most.
    fn wait_room(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let limit = Duration::try_from_secs_f64(seconds)
            .map_err(|_| PyValueError::new_err("a timeout is a number of seconds, 0 or more"))?;
        self.with(py, |queue| queue.wait_room(Some(limit)))?;
        py.check_signals()
    }

    /// Consumers that hold the producer up count no more; how many.
    fn expel_laggards(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, StubQueue::expel_laggards)
    }

    /// Items committed, times full, slots passed over, consumers expelled.
    fn metrics(&self, py: Python<'_>) -> PyResult<(u64, u64, u64, u64)> {
        let it = self.with(py, |queue| queue.metrics())?;
        Ok((it.committed, it.full, it.passed_over, it.expelled))
    }

    /// Ends the queue; what is in it stays with whoever has it. Again: nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.get()?.close(py);
        Ok(())
    }
}

/// A slot that is being written, as a writable buffer. The buffer's memory outlives the queue.
#[pyclass(frozen, module = "heliostat._native")]
pub struct Slot {
    shared: Own<LentQueue>,
    _window: Own<Arc<SharedMapping>>,
    start: usize,
    bytes: usize,
    is_over: AtomicBool,
}

impl Slot {
    fn end<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(StubSlot<'static>) -> T + Send,
    ) -> PyResult<T> {
        let shared = self.shared.get()?;
        if self.is_over.swap(true, Release) {
            return Err(error::closed("slot"));
        }
        py.detach(|| shared.end(work).ok_or_else(|| error::closed("queue")))
    }
}

#[pymethods]
impl Slot {
    /// Makes the first `bytes` bytes an item; its number.
    fn commit(&self, py: Python<'_>, bytes: usize) -> PyResult<u64> {
        let committed = self.end(py, |slot| slot.commit(bytes))?;
        committed.map_err(|error| error::queue(&error))
    }

    /// Gives the slot back; nobody sees what was written.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, drop)
    }

    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        this.shared.get()?;
        if this.is_over.load(Acquire) {
            return Err(PyBufferError::new_err("the slot is committed or cancelled"));
        }
        // SAFETY: the interpreter's call; `bytes` bytes at `start` lie in the window that this
        // object keeps mapped, writable, and the view holds this object.
        unsafe { buffer::fill(slf.as_any(), view, this.start as *mut u8, this.bytes, false, flags) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let (false, Ok(shared)) = (*self.is_over.get_mut(), self.shared.get()) {
            shared.end(drop);
        }
    }
}
