//! A function that this process serves: its calls, one after the other, for each thread that asks.
//!
//! A thread that waits does so without the interpreter's lock, and looks up twice a second for signals.

use std::sync::{Arc, Mutex, PoisonError};

use heliostat_stub_rpc::{Call, Service};
use pyo3::prelude::*;

use crate::error;
use crate::process::Own;
use crate::rpc::{payload_of, Rpc};
use crate::rpc_call::RpcCall;
use crate::waiting::{deadline, is_over, slice, SLICE};

/// A function that is served until this is closed. Threads may share it.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct RpcService {
    // `None` once it is closed. The fork check comes before the lock, which another thread of the
    // parent may have held.
    serving: Own<Mutex<Option<Arc<Service>>>>,
    limits: (usize, usize),
}

impl RpcService {
    fn service(&self) -> PyResult<Option<Arc<Service>>> {
        Ok(self.serving.get()?.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn call(&self, py: Python<'_>, call: Option<Call>) -> Option<RpcCall> {
        call.map(|call| RpcCall::new(py, call, self.limits.1))
    }
}

#[pymethods]
impl RpcService {
    #[new]
    fn new(
        py: Python<'_>,
        rpc: &Bound<'_, Rpc>,
        name: &str,
        request_bytes: u32,
        reply_bytes: u32,
        queue: u32,
        others: bool,
    ) -> PyResult<Self> {
        let stub = rpc.get().stub()?;
        let built = stub.publish(name).request_bytes(request_bytes).reply_bytes(reply_bytes);
        let built = built.queue(queue);
        let built = if others { built.others() } else { built };
        let service = py.detach(|| built.serve()).map_err(|error| error::rpc(&error))?;
        let limits = service.limits();
        Ok(Self { serving: Own::new(Mutex::new(Some(Arc::new(service)))), limits })
    }

    /// Waits for the next call; `None` where none came in time, and once it is closed.
    fn _receive(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<RpcCall>> {
        let deadline = deadline(timeout)?;
        loop {
            let Some(service) = self.service()? else { return Ok(None) };
            // The last reference ends the service, which the control plane is told: in here as well.
            let received = py.detach(move || service.receive(Some(slice(deadline))));
            let received = received.map_err(|error| error::rpc(&error))?;
            if received.is_some() || is_over(deadline) {
                return Ok(self.call(py, received));
            }
            py.check_signals()?;
        }
    }

    /// Answers a call, if nobody has, and waits for the next one; `None` once it is closed.
    fn _reply_and_receive(
        &self,
        py: Python<'_>,
        call: &Bound<'_, RpcCall>,
        reply: &Bound<'_, PyAny>,
    ) -> PyResult<Option<RpcCall>> {
        let reply = payload_of(reply)?;
        let Some(service) = self.service()? else {
            call.get().answer(py, |call| call.reply(&reply))?;
            return Ok(None);
        };
        let Some(taken) = call.get().take()? else { return self._receive(py, None) };
        let next = py.detach(move || service.reply_and_receive(taken, &reply, Some(SLICE)));
        match next.map_err(|error| error::rpc(&error))?.call {
            None => {
                py.check_signals()?;
                self._receive(py, None)
            }
            call => Ok(self.call(py, call)),
        }
    }

    /// Bytes of a payload and of a reply.
    fn _limits(&self) -> (usize, usize) {
        self.limits
    }

    #[getter]
    fn is_closed(&self) -> PyResult<bool> {
        Ok(self.service()?.is_none())
    }

    /// Serves it no more.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let serving = self.serving.get()?.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(serving));
        Ok(())
    }
}
