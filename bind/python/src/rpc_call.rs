//! A call that this process has received, and its answer.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use heliostat_stub_rpc::{Call, Caller, RpcError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;
use crate::process::Own;
use crate::rpc::payload_of;
use crate::waiting;

/// A call, or a message. It fails at its caller with the last reference to it, unless it was answered.
#[pyclass(frozen, module = "heliostat._native")]
pub struct RpcCall {
    // `None` once it is answered.
    call: Own<Mutex<Option<Call>>>,
    #[pyo3(get)]
    payload: Py<PyBytes>,
    #[pyo3(get)]
    is_one_way: bool,
    caller: Caller,
    until: Option<Instant>,
    reply_bytes: usize,
}

impl RpcCall {
    pub(crate) fn new(py: Python<'_>, call: Call, reply_bytes: usize) -> Self {
        let payload = PyBytes::new(py, call.payload()).unbind();
        let (caller, is_one_way) = (call.caller(), call.is_one_way());
        let until = call.left().and_then(|left| Instant::now().checked_add(left));
        let call = Own::new(Mutex::new(Some(call)));
        Self { call, payload, is_one_way, caller, until, reply_bytes }
    }

    /// The call, once.
    pub(crate) fn take(&self) -> PyResult<Option<Call>> {
        Ok(self.call.get()?.lock().unwrap_or_else(PoisonError::into_inner).take())
    }

    /// Answers it, without the interpreter's lock: whether somebody waited.
    pub(crate) fn answer(
        &self,
        py: Python<'_>,
        answer: impl FnOnce(Call) -> Result<(), RpcError> + Send,
    ) -> PyResult<bool> {
        let answered = || PyValueError::new_err("the call was answered already");
        let call = self.take()?.ok_or_else(answered)?;
        match py.detach(|| answer(call)) {
            Ok(()) => Ok(true),
            Err(RpcError::NobodyWaits) => Ok(false),
            Err(error) => Err(error::rpc(&error)),
        }
    }
}

#[pymethods]
impl RpcCall {
    #[pyo3(signature = (reply=None))]
    fn reply(&self, py: Python<'_>, reply: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let reply = reply.map_or_else(|| Ok(Vec::new()), payload_of)?;
        let (bytes, limit) = (reply.len(), self.reply_bytes);
        if bytes > limit {
            return Err(error::rpc(&RpcError::TooLong { bytes, limit }));
        }
        self.answer(py, |call| call.reply(&reply))
    }

    fn fail(&self, py: Python<'_>, text: &str) -> PyResult<bool> {
        let text = cut(text, self.reply_bytes);
        self.answer(py, |call| call.fail(text))
    }

    #[getter]
    fn is_answered(&self) -> PyResult<bool> {
        Ok(self.call.get()?.lock().unwrap_or_else(PoisonError::into_inner).is_none())
    }

    #[getter]
    fn left(&self) -> Option<f64> {
        waiting::left(self.until).map(|left| left.as_secs_f64())
    }

    #[getter]
    fn user(&self) -> u32 {
        self.caller.user
    }

    #[getter]
    fn process(&self) -> u32 {
        self.caller.process
    }

    #[getter]
    fn node(&self) -> u32 {
        self.caller.node
    }

    #[getter]
    fn session(&self) -> String {
        self.caller.session.to_string()
    }
}

impl Drop for RpcCall {
    fn drop(&mut self) {
        // In a forked child the call is its parent's.
        if !self.call.is_own() {
            return;
        }
        let Ok(Some(call)) = self.take() else { return };
        Python::attach(|py| py.detach(|| drop(call)));
    }
}

/// As much of a text as so many bytes have room for.
fn cut(text: &str, bytes: usize) -> &str {
    let most = text.len().min(bytes);
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}
