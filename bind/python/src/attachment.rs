//! The consumer's class: a region as this process has it mapped.

use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use heliostat_abi::snapshot::region::OWN_USER;
use heliostat_base::fd::OwnedFd;
use heliostat_stub_snapshot::{attach_of, Attachment as StubAttachment};
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
    region.with(py, |region| {
        let (table, pool) = region.descriptors();
        let copied = table.duplicate().and_then(|table| Ok((table, pool.duplicate()?)));
        let none =
            |errno| error::raise("MappingFailed", format_args!("no descriptor left: {errno}"));
        let (table, pool) = copied.map_err(none)?;
        let admit = |pins: &_, bell: &_| {
            let admitted = region.admit_with_bell(pins, bell);
            let place = admitted.map_err(|error| error::pool(&error))?;
            place.map(drop).ok_or_else(error::no_place)
        };
        StubAttachment::with_bell(&table, pool, admit).map_err(|error| error::pool(&error))?
    })?
}

/// Attaches by [table, pool], after `announce` has shown the producer [page of pins, end of a bell].
fn attach_by(
    (table, pool): (RawFd, RawFd),
    announce: &Bound<'_, PyAny>,
) -> PyResult<StubAttachment> {
    let (table, pool) = (error::copied(table)?, error::copied(pool)?);
    let tell = |pins: &OwnedFd, bell: &OwnedFd| {
        announce.call1((pins.as_raw_fd(), bell.as_raw_fd())).map(drop)
    };
    StubAttachment::with_bell(&table, pool, tell).map_err(|error| error::pool(&error))?
}

#[pymethods]
impl Attachment {
    /// Attaches to the region `name` of user `owner` (own, if `None`), to `region` of this process,
    /// or by `descriptors` (table, pool), once `announce` has shown its own to the producer.
    #[new]
    #[pyo3(signature = (name=None, owner=None, region=None, descriptors=None, announce=None))]
    fn new(
        py: Python<'_>,
        name: Option<&str>,
        owner: Option<u32>,
        region: Option<&Bound<'_, Region>>,
        descriptors: Option<(RawFd, RawFd)>,
        announce: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let attached = match (name, region, descriptors, announce) {
            (Some(name), None, None, None) => {
                claim_session();
                let attached = py.detach(|| attach_of(name, owner.unwrap_or(OWN_USER)));
                attached.map_err(|error| error::named(&error))?
            }
            (None, Some(region), None, None) => attach_to(py, region.get())?,
            (None, None, Some(descriptors), Some(announce)) => attach_by(descriptors, announce)?,
            _ => return Err(PyValueError::new_err("a name, a region or descriptors, one of them")),
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
