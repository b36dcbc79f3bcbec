//! What is held of a lock or semaphore, until it is released.

use std::sync::{Mutex, PoisonError};

use heliostat_stub_lock::Held;
use pyo3::prelude::*;

use crate::error;
use crate::process::Own;

/// A lock that is held, or permits. Released by `release`, at the end of its `with` block, or with the
/// last reference to it.
#[pyclass(frozen, module = "heliostat._native")]
pub struct LockHeld {
    held: Own<Mutex<Option<Held>>>,
    #[pyo3(get)]
    token: u64,
    #[pyo3(get)]
    has_owner_died: bool,
}

impl LockHeld {
    pub(crate) fn new(held: Held) -> Self {
        let (token, has_owner_died) = (held.token(), held.has_owner_died());
        Self { held: Own::new(Mutex::new(Some(held))), token, has_owner_died }
    }
}

#[pymethods]
impl LockHeld {
    /// Releases it; again: nothing.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let mut place = self.held.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        let held = place.take();
        drop(place);
        match held {
            Some(held) => py.detach(|| held.release()).map_err(|error| error::lock(&error)),
            None => Ok(()),
        }
    }

    /// Whether it is held still, as far as can be told now.
    #[getter]
    fn is_held(&self, py: Python<'_>) -> PyResult<bool> {
        let place = self.held.get()?;
        // Of what is on another node the control plane is asked.
        Ok(py.detach(|| {
            let place = place.lock().unwrap_or_else(PoisonError::into_inner);
            place.as_ref().is_some_and(Held::is_held)
        }))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.release(py)
    }
}
