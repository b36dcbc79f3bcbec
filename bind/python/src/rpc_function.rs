//! A function of another program, and a call of it that goes on while its caller does something else.
//!
//! A thread that waits does so without the interpreter's lock, and looks up twice a second for signals.

use std::sync::{Arc, Mutex, PoisonError};

use heliostat_stub_rpc::{Function, NotDelivered, PendingCall, RpcError, OWN_USER};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;
use crate::process::Own;
use crate::rpc::{payload_of, Rpc};
use crate::waiting::{deadline, is_over, left, slice, SLICE};

/// A function that was found. Threads may share it.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct RpcFunction {
    // `None` once it is closed. The fork check comes before the lock, which another thread of the
    // parent may have held.
    found: Own<Mutex<Option<Arc<Function>>>>,
}

impl RpcFunction {
    fn function(&self) -> PyResult<Arc<Function>> {
        let found = self.found.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        found.clone().ok_or_else(|| error::closed("function"))
    }
}

#[pymethods]
impl RpcFunction {
    /// Finds it among the functions of `user` (own, if `None`), on a node (this one, if 0).
    #[new]
    fn new(
        py: Python<'_>,
        rpc: &Bound<'_, Rpc>,
        name: &str,
        user: Option<u32>,
        node: u32,
    ) -> PyResult<Self> {
        let stub = rpc.get().stub()?.on(node);
        let found = py.detach(|| stub.find_of(user.unwrap_or(OWN_USER), name));
        let found = found.map_err(|error| error::rpc(&error))?;
        Ok(Self { found: Own::new(Mutex::new(Some(Arc::new(found)))) })
    }

    #[pyo3(signature = (payload, timeout=None))]
    fn call(
        &self,
        py: Python<'_>,
        payload: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyBytes>> {
        let (function, sent) = (self.function()?, payload_of(payload)?);
        let limit = left(deadline(timeout)?);
        let mut raised = None;
        let answered = py.detach(|| {
            let stop = || {
                raised = Python::attach(|py| py.check_signals()).err();
                raised.is_some()
            };
            let answered = function.call_unless(&sent, limit, SLICE, stop);
            // The last reference gives the function back, which the control plane is told.
            drop(function);
            answered
        });
        match raised {
            Some(raised) => Err(noted(py, raised, &answered)),
            None => reply_of(py, answered),
        }
    }

    #[pyo3(signature = (payload, timeout=None))]
    fn send(
        &self,
        py: Python<'_>,
        payload: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let (function, sent) = (self.function()?, payload_of(payload)?);
        let deadline = deadline(timeout)?;
        let late = RpcError::NotDelivered(NotDelivered::TimedOut);
        loop {
            let sent = py.detach(|| match timeout == Some(0.0) {
                true => function.try_send(&sent),
                false => function.send(&sent, Some(slice(deadline))),
            });
            match sent {
                // It is not in line: it is sent again.
                Err(error) if *error.kind() == late && !is_over(deadline) => py.check_signals()?,
                sent => return sent.map_err(|error| error::rpc(&error)),
            }
        }
    }

    fn _begin(
        &self,
        py: Python<'_>,
        payload: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<RpcPending> {
        let (function, sent) = (self.function()?, payload_of(payload)?);
        let limit = left(deadline(timeout)?);
        let begun = py.detach(move || function.begin(&sent, limit));
        let begun = begun.map_err(|error| error::rpc(&error))?;
        Ok(RpcPending { pending: Own::new(Mutex::new(Some(begun))) })
    }

    /// The node that serves it; 0 where that is this one.
    #[getter]
    fn node(&self) -> PyResult<u32> {
        Ok(self.function()?.node())
    }

    /// Bytes of a payload and of a reply.
    fn _limits(&self) -> PyResult<(usize, usize)> {
        Ok(self.function()?.limits())
    }

    /// Gives it back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let found = self.found.get()?.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(found));
        Ok(())
    }
}

/// A call that was begun. It is waited for once.
#[pyclass(frozen, module = "heliostat._native")]
pub struct RpcPending {
    // `None` while it is waited for, and afterwards.
    pending: Own<Mutex<Option<PendingCall>>>,
}

impl RpcPending {
    fn take(&self) -> PyResult<PendingCall> {
        let mut place = self.pending.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        place.take().ok_or_else(|| PyValueError::new_err("the call was waited for already"))
    }

    fn put_back(&self, pending: PendingCall) -> PyResult<()> {
        let mut place = self.pending.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(pending);
        Ok(())
    }
}

#[pymethods]
impl RpcPending {
    /// Waits for the reply, until the time is over that was said when the call was begun.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        let mut pending = self.take()?;
        loop {
            if py.detach(|| pending.look_within(SLICE)) {
                return reply_of(py, py.detach(|| pending.wait()));
            }
            if let Err(raised) = py.check_signals() {
                self.put_back(pending)?;
                return Err(raised);
            }
        }
    }

    /// Ends it: the reply, where it was there.
    fn cancel(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        let pending = self.take()?;
        reply_of(py, py.detach(|| pending.cancel()))
    }
}

impl Drop for RpcPending {
    fn drop(&mut self) {
        // In a forked child the call is its parent's.
        if !self.pending.is_own() {
            return;
        }
        let Ok(pending) = self.take() else { return };
        // It is cancelled and its end waited for.
        Python::attach(|py| py.detach(|| drop(pending)));
    }
}

fn reply_of(py: Python<'_>, answered: Result<Vec<u8>, RpcError>) -> PyResult<Py<PyBytes>> {
    let reply = answered.map_err(|error| error::rpc(&error))?;
    Ok(PyBytes::new(py, &reply).unbind())
}

/// What a signal's handler has raised, and what became of the call.
fn noted(py: Python<'_>, raised: PyErr, answered: &Result<Vec<u8>, RpcError>) -> PyErr {
    let text = answered.as_ref().err().map(ToString::to_string);
    let text = text.unwrap_or_else(|| "the function has answered".to_owned());
    // Without its note it is raised all the same.
    let _ = raised.value(py).call_method1("add_note", (text,));
    raised
}
