//! The producer's class: versions of memory that a Python object owns.

use std::ops::DerefMut;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heliostat_backend_pages::live::LiveMemory;
use heliostat_stub_snapshot::{
    publish_as, EngineKind, NamedRegion, Placement, Policy, Region as StubRegion, Settings,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::buffer::HeldBuffer;
use crate::error;
use crate::process::{claim_session, Own};

enum Produced {
    Named(NamedRegion),
    Nameless(StubRegion),
}

impl Produced {
    fn region(&mut self) -> &mut StubRegion {
        match self {
            Self::Named(named) => named.deref_mut(),
            Self::Nameless(region) => region,
        }
    }
}

/// A region, and the buffer whose memory it is. The region goes first.
struct Parts {
    produced: Produced,
    _held: HeldBuffer,
}

/// What `publish` answers: number, bytes written, bytes copied, whether somebody wrote meanwhile.
type Published = (u64, usize, usize, Option<bool>);

/// A range of memory that is published in versions.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct Region {
    // `None` once it is closed. The fork check comes before the lock, which another thread of the
    // parent may have held.
    parts: Own<Mutex<Option<Parts>>>,
    name: Option<String>,
    engine: &'static str,
    generation: u64,
    start: usize,
    bytes: usize,
}

fn engine_kind(name: &str) -> PyResult<EngineKind> {
    Ok(match name {
        "probed" => EngineKind::Probed,
        "tracked" => EngineKind::Tracked,
        "declared" => EngineKind::Declared,
        "whole" => EngineKind::Whole,
        _ => {
            let known = "probed, tracked, declared and whole";
            return Err(PyValueError::new_err(format!("no engine {name:?}; there are {known}")));
        }
    })
}

fn placement_kind(name: &str) -> PyResult<Placement> {
    Ok(match name {
        "probed" => Placement::Probed,
        "chunks" => Placement::Chunks,
        "slab" => Placement::Slab,
        _ => {
            let known = "probed, chunks and slab";
            return Err(PyValueError::new_err(format!("no placement {name:?}; there are {known}")));
        }
    })
}

fn seconds(patience: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(patience)
        .map_err(|_| PyValueError::new_err("patience is a number of seconds, 0 or more"))
}

impl Region {
    fn lock(&self) -> PyResult<MutexGuard<'_, Option<Parts>>> {
        // A panic under the lock leaves a region that is as it was before the call.
        Ok(self.parts.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `work` on the open region, without the interpreter's lock.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut StubRegion) -> T + Send,
    ) -> PyResult<T> {
        py.detach(|| match self.lock()?.as_mut() {
            Some(parts) => Ok(work(parts.produced.region())),
            None => Err(error::closed("region")),
        })
    }
}

#[pymethods]
impl Region {
    /// Sets a region up over the memory of `object`, whose bytes `description` explains.
    #[new]
    #[pyo3(signature = (object, name, description, keep, patience, colours, engine, placement, looks_for_races, generation))]
    #[allow(clippy::too_many_arguments)] // the one caller is `Region` in Python, which names them
    fn new(
        py: Python<'_>,
        object: &Bound<'_, PyAny>,
        name: Option<String>,
        description: &[u8],
        keep: usize,
        patience: f64,
        colours: u32,
        engine: &str,
        placement: &str,
        looks_for_races: bool,
        generation: u64,
    ) -> PyResult<Self> {
        let policy = Policy { keep, patience: seconds(patience)? };
        let (engine, placement) = (engine_kind(engine)?, placement_kind(placement)?);
        let settings = Settings { colours, policy, engine, placement, generation, looks_for_races };
        let held = HeldBuffer::new(object)?;
        let (start, bytes) = (held.start(), held.len());
        // SAFETY: `held` keeps the range where it is, and is dropped after the region (`Parts`).
        let memory = unsafe { LiveMemory::new(start, bytes) };
        let mut region =
            StubRegion::new(memory, settings).map_err(|error| error::region(&error))?;
        if !region.describe(description) {
            return Err(error::raise(
                "InvalidRegion",
                format_args!("a description has 2,044 bytes at most, not {}", description.len()),
            ));
        }
        let (produced, generation) = match &name {
            None => (Produced::Nameless(region), generation),
            Some(name) => {
                claim_session();
                let named = py.detach(|| publish_as(name, region));
                let named = named.map_err(|error| error::named(&error))?;
                let generation = named.generation();
                (Produced::Named(named), generation)
            }
        };
        let mut parts = Parts { produced, _held: held };
        let engine = parts.produced.region().engine();
        let parts = Own::new(Mutex::new(Some(parts)));
        Ok(Self { parts, name, engine, generation, start, bytes })
    }

    /// Makes a version.
    fn publish(&self, py: Python<'_>) -> PyResult<Published> {
        let published = self.with(py, StubRegion::publish)?;
        let it = published.map_err(|error| error::publish(&error))?;
        Ok((it.number, it.dirty_bytes, it.copied_bytes, it.has_raced))
    }

    /// Copies ahead of the next version; bytes copied, and whether the round is through.
    #[pyo3(signature = (budget=None))]
    fn copy_ahead(&self, py: Python<'_>, budget: Option<usize>) -> PyResult<(usize, bool)> {
        let budget = budget.unwrap_or(usize::MAX);
        let done = self.with(py, |region| region.copy_ahead(budget))?;
        let it = done.map_err(|error| error::publish(&error))?;
        Ok((it.bytes, it.is_done))
    }

    /// Says that these bytes were written.
    fn declare(&self, py: Python<'_>, start: usize, stop: usize) -> PyResult<()> {
        self.with(py, |region| region.declare(start..stop))?.map_err(|error| error::publish(&error))
    }

    /// Versions published, publishings skipped and delayed, bytes copied.
    fn metrics(&self, py: Python<'_>) -> PyResult<(u64, u64, u64, u64)> {
        let it = self.with(py, |region| region.metrics())?;
        Ok((it.published, it.skipped, it.stalled, it.copied_bytes))
    }

    /// Table and pool, which belong to the region.
    fn descriptors(&self, py: Python<'_>) -> PyResult<(RawFd, RawFd)> {
        self.with(py, |region| {
            let (table, pool) = region.descriptors();
            (table.as_raw_fd(), pool.as_raw_fd())
        })
    }

    /// Lets a consumer in that has shown its page of pins and an end of its bell.
    fn admit(&self, py: Python<'_>, pins: RawFd, bell: RawFd) -> PyResult<()> {
        let (pins, bell) = (error::copied(pins)?, error::copied(bell)?);
        let admitted = self.with(py, |region| region.admit_with_bell(&pins, &bell))?;
        let place = admitted.map_err(|error| error::pool(&error))?;
        place.map(drop).ok_or_else(error::no_place)
    }

    /// Ends the region; the last version stays with whoever has it. Again: nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        // The control plane is told, which may take it a moment.
        py.detach(|| self.lock().map(|mut parts| drop(parts.take())))
    }

    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| Ok(self.lock()?.is_none()))
    }

    #[getter]
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    #[getter]
    fn engine(&self) -> &'static str {
        self.engine
    }

    #[getter]
    fn generation(&self) -> u64 {
        self.generation
    }

    /// Address of the first byte.
    #[getter]
    fn address(&self) -> usize {
        self.start
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes
    }
}
