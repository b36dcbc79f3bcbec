//! The consumer's class: a region as this process has it mapped.

use std::os::fd::AsRawFd;
use std::time::Duration;

use heliostat_abi::region::OWN_USER;
use heliostat_stub::snapshot::{attach_of, Attachment as StubAttachment};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;
use crate::process::{claim_session, Own};
use crate::region::Region;

/// A region, mapped read-only.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct Attachment {
    inner: Own<StubAttachment>,
}

impl Attachment {
    pub(crate) fn stub(&self) -> PyResult<&StubAttachment> {
        self.inner.get()
    }
}

/// Attaches inside this process; the region learns of the page of pins at once.
fn attach_to(py: Python<'_>, region: &Region) -> PyResult<StubAttachment> {
    let attached = region.with(py, |region| {
        let (table, pool) = region.descriptors();
        let copies = (table.duplicate(), pool.duplicate());
        let (Ok(table), Ok(pool)) = copies else { return None };
        // A full table of consumers admits nobody, and says so by `None`.
        let admit = |pins: &_, bell: &_| match region.admit_with_bell(pins, bell) {
            Ok(Some(_)) => Ok(()),
            _ => Err(()),
        };
        StubAttachment::with_bell(&table, pool, admit).map(Result::ok).transpose()
    })?;
    match attached {
        Some(Ok(attachment)) => Ok(attachment),
        Some(Err(error)) => Err(error::pool(&error)),
        None => Err(error::raise("Full", "the region has no place for another consumer")),
    }
}

#[pymethods]
impl Attachment {
    /// Attaches to the region `name` of user `owner` (own, if `None`), or to `region` of this
    /// process.
    #[new]
    #[pyo3(signature = (name=None, owner=None, region=None))]
    fn new(
        py: Python<'_>,
        name: Option<&str>,
        owner: Option<u32>,
        region: Option<&Bound<'_, Region>>,
    ) -> PyResult<Self> {
        let attached = match (name, region) {
            (Some(name), None) => {
                claim_session();
                let attached = py.detach(|| attach_of(name, owner.unwrap_or(OWN_USER)));
                attached.map_err(|error| error::named(&error))?
            }
            (None, Some(region)) => attach_to(py, region.get())?,
            _ => return Err(PyValueError::new_err("a name or a region, one of both")),
        };
        Ok(Self { inner: Own::new(attached) })
    }

    /// What the producer says that the bytes mean.
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.stub()?.description()))
    }

    #[getter]
    fn nbytes(&self) -> PyResult<u64> {
        Ok(self.stub()?.shape().length)
    }

    #[getter]
    fn latest_number(&self) -> PyResult<u64> {
        Ok(self.stub()?.latest_number())
    }

    #[getter]
    fn is_closed(&self) -> PyResult<bool> {
        Ok(self.stub()?.is_closed())
    }

    /// Sleeps in the kernel for at most `seconds`, or until a signal; true when there is a version
    /// newer than `number`.
    fn sleep(&self, py: Python<'_>, number: u64, seconds: f64) -> PyResult<bool> {
        let limit = Duration::try_from_secs_f64(seconds)
            .map_err(|_| PyValueError::new_err("a timeout is a number of seconds, 0 or more"))?;
        let stub = self.stub()?;
        let is_newer = py.detach(|| stub.wait(number, Some(limit)));
        // A signal may have ended the sleep: its handler runs here, and may raise.
        py.check_signals()?;
        Ok(is_newer)
    }

    /// Readable once after `arm` when a version was published, and for ever once the producer has
    /// ended or died.
    #[getter]
    fn bell(&self) -> PyResult<Option<i32>> {
        Ok(self.stub()?.bell_fd().map(|bell| bell.as_raw_fd()))
    }

    /// Asks for one ring; true when there is something newer than `number`, or the region ended.
    fn arm(&self, number: u64) -> PyResult<bool> {
        Ok(self.stub()?.arm(number))
    }

    /// Takes what was rung; false when the producer is gone.
    fn drain(&self) -> PyResult<bool> {
        Ok(self.stub()?.drain())
    }
}
