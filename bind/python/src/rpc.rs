//! This process's access to remote procedure calls: which functions there are.

use heliostat_stub_rpc::{Rpc as StubRpc, RpcError, OWN_USER, PAYLOAD_BYTES_MAX};
use pyo3::prelude::*;

use crate::buffer::HeldBuffer;
use crate::error;
use crate::process::{claim_session, Own};

/// One session's access.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct Rpc {
    inner: Own<StubRpc>,
}

/// Name, user, servers, callers, bytes of a payload and of a reply, whether others may call it, age in
/// seconds.
type ListedFunction = (String, u32, u32, u32, u32, u32, bool, u32);

impl Rpc {
    pub(crate) fn stub(&self) -> PyResult<&StubRpc> {
        self.inner.get()
    }
}

#[pymethods]
impl Rpc {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        claim_session();
        let opened = py.detach(StubRpc::open).map_err(|error| error::rpc(&error))?;
        Ok(Self { inner: Own::new(opened) })
    }

    /// Those of `user` (own, if `None`) whose names begin so, on a node (this one, if 0).
    fn _list(
        &self,
        py: Python<'_>,
        beginning: &str,
        user: Option<u32>,
        node: u32,
    ) -> PyResult<Vec<ListedFunction>> {
        let stub = self.stub()?.on(node);
        let found = py.detach(|| stub.list_of(user.unwrap_or(OWN_USER), beginning));
        let told = found.map_err(|error| error::rpc(&error))?.into_iter().map(|it| {
            let (name, bytes) = (it.name.as_str().to_owned(), (it.request_bytes, it.reply_bytes));
            (name, it.user, it.servers, it.callers, bytes.0, bytes.1, it.others, it.age_s)
        });
        Ok(told.collect())
    }
}

/// A copy of a contiguous buffer, of as many bytes as a function may carry.
pub fn payload_of(buffer: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let (held, limit) = (HeldBuffer::to_read(buffer)?, PAYLOAD_BYTES_MAX as usize);
    if held.len() > limit {
        return Err(error::rpc(&RpcError::TooLong { bytes: held.len(), limit }));
    }
    // SAFETY: exported, so it stays where it is until `held` goes; who writes it meanwhile races with
    // a copy, by which nothing is decided.
    Ok(unsafe { held.as_slice() }.to_vec())
}
