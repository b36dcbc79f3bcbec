//! A region that is spread over nodes: bytes and words by their offset in the whole, and its parts.

use std::sync::Arc;

use heliostat_stub_memory::{
    Memory as StubMemory, SpreadError, SpreadRegion as StubSpread, OWN_USER,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;
use crate::memory::{rights, Memory};
use crate::memory_access::{word, Held};
use crate::memory_region::MemoryRegion;

/// Handles on all parts of a region. Threads may share it.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct SpreadRegion {
    held: Held<StubSpread>,
    bytes: u64,
    identity: String,
}

/// Node, first byte, the byte behind the last, and why it was lost when it was mapped.
type ToldPart = (u64, u64, u64, Option<String>);

impl SpreadRegion {
    /// Does something with the region, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&StubSpread) -> Result<T, SpreadError> + Send,
    ) -> PyResult<T> {
        self.held.with(py, act)
    }
}

/// What makes a region, or finds it.
fn obtain(
    memory: &StubMemory,
    (name, allowed): (Option<&str>, &str),
    (user, made): (Option<u32>, Option<Made<'_>>),
) -> PyResult<Result<StubSpread, SpreadError>> {
    let allowed = rights(allowed)?;
    let Some(Made { bytes, nodes, is_lasting, first }) = made else {
        let name = name.ok_or_else(|| PyValueError::new_err("a name or a number of bytes"))?;
        return Ok(memory.map_spread_of(user.unwrap_or(OWN_USER), name, allowed));
    };
    let asked = memory.spread(bytes, &nodes).others(allowed).first(first);
    let asked = name.into_iter().fold(asked, |asked, name| asked.name(name));
    Ok(if is_lasting { asked.lasting() } else { asked }.make())
}

/// What is made.
struct Made<'a> {
    bytes: u64,
    nodes: Vec<u64>,
    is_lasting: bool,
    first: &'a [u8],
}

#[pymethods]
impl SpreadRegion {
    /// Maps the region `name` of `user` (own, if `None`) with the rights; or, given `bytes`, spreads so
    /// many over nodes, with which other users may do that, and which begin with `first`.
    #[new]
    #[allow(clippy::too_many_arguments)] // Python names them
    #[pyo3(signature = (memory, name, allowed, user, bytes, nodes, is_lasting, first))]
    fn new(
        py: Python<'_>,
        memory: &Bound<'_, Memory>,
        name: Option<&str>,
        allowed: &str,
        user: Option<u32>,
        bytes: Option<u64>,
        nodes: Vec<u64>,
        is_lasting: bool,
        first: &[u8],
    ) -> PyResult<Self> {
        let memory = memory.get().stub()?;
        let made = bytes.map(|bytes| Made { bytes, nodes, is_lasting, first });
        let spread = py.detach(|| obtain(memory, (name, allowed), (user, made)))?;
        let spread = spread.map_err(|error| error::spread(&error))?;
        let (bytes, identity) = (spread.size(), format!("{:016x}", spread.generation()));
        Ok(Self { held: Held::new(Arc::new(spread)), bytes, identity })
    }

    /// Reads `bytes` bytes from `offset` on.
    fn read<'py>(&self, py: Python<'py>, offset: u64, bytes: u64) -> PyResult<Bound<'py, PyBytes>> {
        self.held.read(py, offset, bytes)
    }

    /// Fills `buffer` from `offset` on; bytes read.
    fn read_into(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.held.read_into(py, offset, buffer)
    }

    /// Writes `buffer` from `offset` on; bytes written.
    fn write(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.held.write(py, offset, buffer)
    }

    /// Reads pieces, each (offset, bytes).
    fn read_pieces(&self, py: Python<'_>, pieces: Vec<(u64, usize)>) -> PyResult<Vec<Py<PyBytes>>> {
        self.held.read_pieces(py, &pieces)
    }

    /// Writes pieces, each (offset, buffer); bytes written.
    fn write_pieces(
        &self,
        py: Python<'_>,
        pieces: Vec<(u64, Bound<'_, PyAny>)>,
    ) -> PyResult<usize> {
        self.held.write_pieces(py, &pieces)
    }

    /// Sets `bytes` bytes from `offset` on.
    #[pyo3(signature = (offset, bytes, value=0))]
    fn set(&self, py: Python<'_>, offset: u64, bytes: u64, value: u8) -> PyResult<()> {
        self.with(py, |spread| spread.set(offset, bytes, value))
    }

    /// Copies `bytes` bytes from `offset` on to `at` of `into`.
    fn copy_to(
        &self,
        py: Python<'_>,
        offset: u64,
        into: &Bound<'_, Self>,
        at: u64,
        bytes: u64,
    ) -> PyResult<()> {
        let into = into.get();
        let from = self.held.get()?;
        into.with(py, move |into| from.copy_to(offset, into, at, bytes))
    }

    /// Adds to the word at `offset`; what it was.
    fn fetch_add(&self, py: Python<'_>, offset: u64, more: &Bound<'_, PyAny>) -> PyResult<u64> {
        let more = word(more)?;
        self.with(py, |spread| spread.fetch_add(offset, more))
    }

    /// Stores `new` at `offset` if `expected` is there; what was there.
    fn compare_swap(
        &self,
        py: Python<'_>,
        offset: u64,
        expected: &Bound<'_, PyAny>,
        new: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let (expected, new) = (word(expected)?, word(new)?);
        self.with(py, |spread| spread.compare_swap(offset, expected, new))
    }

    /// Stores `new` at `offset`; what was there.
    fn swap(&self, py: Python<'_>, offset: u64, new: &Bound<'_, PyAny>) -> PyResult<u64> {
        let new = word(new)?;
        self.with(py, |spread| spread.swap(offset, new))
    }

    fn __len__(&self) -> usize {
        self.bytes as usize
    }

    /// Where its bytes lie: for each part its node, its bytes, and why it was lost.
    fn _parts(&self) -> PyResult<Vec<ToldPart>> {
        let told = |part: heliostat_stub_memory::PartPlace| {
            let lost = part.lost.map(|why| why.to_string());
            (part.node, part.bytes.start, part.bytes.end, lost)
        };
        Ok(self.held.get()?.parts().into_iter().map(told).collect())
    }

    /// Where bytes lie: for each part that they meet its number, where in the part's region, and how many.
    fn _places(&self, offset: u64, bytes: u64) -> PyResult<Vec<(usize, u64, u64)>> {
        self.held.get()?.places(offset, bytes).map_err(|error| error::spread(&error))
    }

    /// The region that a part is.
    fn _part(&self, number: usize) -> PyResult<MemoryRegion> {
        let spread = self.held.get()?;
        let part = spread.part(number).map_err(|error| error::spread(&error))?;
        Ok(MemoryRegion::of(part.clone()))
    }

    /// Ends the region for everybody.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        let is_held =
            |whole: &StubSpread, at| whole.part(at).is_ok_and(|part| Arc::strong_count(part) > 1);
        let spread = self.held.take_alone(|it| (0..it.parts().len()).any(|at| is_held(it, at)))?;
        py.detach(|| spread.free()).map_err(|error| error::spread(&error))
    }

    /// Gives the handles back. Again: nothing.
    fn unmap(&self, py: Python<'_>) -> PyResult<()> {
        self.held.close(py).map(drop)
    }

    #[getter]
    fn is_unmapped(&self) -> PyResult<bool> {
        self.held.is_closed()
    }

    #[getter]
    fn identity(&self) -> &str {
        &self.identity
    }
}
