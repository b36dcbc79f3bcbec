//! A handle on a memory region: its bytes, its words and its life.
//!
//! The handle is given back once nobody has it: not this object, no array of its bytes, and no call
//! that another thread has under way.

use std::sync::Arc;

use heliostat_stub_memory::{MappedBytes, MemoryError, Region as StubRegion, Rights, OWN_USER};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;
use crate::memory::{rights, Memory};
use crate::memory_access::{word, Held};

/// A region that this process has a handle on. Threads may share it.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct MemoryRegion {
    held: Held<StubRegion>,
    identity: String,
    rights: Rights,
    is_direct: bool,
    node: Option<u64>,
}

impl MemoryRegion {
    /// A region whose handle others may have too.
    pub(crate) fn of(region: Arc<StubRegion>) -> Self {
        let (identity, rights) = (region.id().to_string(), region.rights());
        let (is_direct, node) = (region.is_direct(), region.node());
        let held = Held::new(region);
        Self { held, identity, rights, is_direct, node }
    }

    pub(crate) fn region(&self) -> PyResult<Arc<StubRegion>> {
        self.held.get()
    }

    /// Does something with the region, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&StubRegion) -> Result<T, MemoryError> + Send,
    ) -> PyResult<T> {
        self.held.with(py, |region| Ok(act(region)?))
    }

    /// `bytes` bytes from `offset` on, where they lie.
    pub(crate) fn mapped(&self, py: Python<'_>, offset: u64, bytes: u64) -> PyResult<MappedBytes> {
        let region = self.region()?;
        let mapped = py.detach(|| region.mapped(offset, bytes));
        mapped.map_err(|error| error::memory(&error))?.ok_or_else(|| {
            let why = match self.is_direct {
                true => "these bytes lie in several pieces",
                false => "its path is delegated",
            };
            let id = &self.identity;
            let text = format_args!("region {id}: no array, since {why}; read and write copy");
            error::raise("Unsupported", text)
        })
    }

    /// Refuses more memory than the region has, where that would be much.
    pub(crate) fn check_length(&self, py: Python<'_>, offset: u64, bytes: u64) -> PyResult<()> {
        self.held.check_length(py, offset, bytes)
    }
}

#[pymethods]
impl MemoryRegion {
    /// Maps the region `name` of `user` (own, if `None`) with the rights; or, given `bytes`, makes one
    /// of so many with which other users may do that.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "what Python's constructor passes by position")]
    fn new(
        py: Python<'_>,
        memory: &Bound<'_, Memory>,
        name: Option<&str>,
        allowed: &str,
        user: Option<u32>,
        bytes: Option<u64>,
        is_lasting: bool,
        replicas: u32,
    ) -> PyResult<Self> {
        let (memory, allowed) = (memory.get(), rights(allowed)?);
        let region = match (name, bytes) {
            (name, Some(bytes)) => memory.obtain(py, |memory| {
                let asked = memory.allocate(bytes).others(allowed);
                let asked = name.into_iter().fold(asked, |asked, name| asked.name(name));
                let asked = if replicas > 0 { asked.replicas(replicas) } else { asked };
                if is_lasting { asked.lasting() } else { asked }.make()
            })?,
            (Some(name), None) => {
                let user = user.unwrap_or(OWN_USER);
                memory.obtain(py, |memory| memory.map_of(user, name, allowed))?
            }
            (None, None) => return Err(PyValueError::new_err("a name or a number of bytes")),
        };
        Ok(Self::of(Arc::new(region)))
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
        self.with(py, |region| region.set(offset, bytes, value))
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
        let from = self.region()?;
        into.with(py, move |into| from.copy_to(offset, into, at, bytes))
    }

    /// Adds to the word at `offset`; what it was.
    fn fetch_add(&self, py: Python<'_>, offset: u64, more: &Bound<'_, PyAny>) -> PyResult<u64> {
        let more = word(more)?;
        self.with(py, |region| region.fetch_add(offset, more))
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
        self.with(py, |region| region.compare_swap(offset, expected, new))
    }

    /// Stores `new` at `offset`; what was there.
    fn swap(&self, py: Python<'_>, offset: u64, new: &Bound<'_, PyAny>) -> PyResult<u64> {
        let new = word(new)?;
        self.with(py, |region| region.swap(offset, new))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.with(py, StubRegion::size)? as usize)
    }

    /// Makes it longer.
    fn grow(&self, py: Python<'_>, bytes: u64) -> PyResult<()> {
        self.with(py, |region| region.grow(bytes))
    }

    /// Has its bytes lie elsewhere, in one piece.
    fn relocate(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, StubRegion::relocate)
    }

    /// Moves it to another node.
    fn move_to(&self, py: Python<'_>, node: u64) -> PyResult<()> {
        self.with(py, |region| region.move_to(node))
    }

    /// Gives it a name or none, and says what other users may.
    fn _rename(&self, py: Python<'_>, name: Option<&str>, others: &str) -> PyResult<()> {
        let others = rights(others)?;
        self.with(py, |region| region.rename(name, others))
    }

    /// `user` may map it with these rights.
    #[pyo3(signature = (user, rights="read,write,atomic"))]
    fn appoint(&self, py: Python<'_>, user: u32, rights: &str) -> PyResult<()> {
        let allowed = crate::memory::rights(rights)?;
        self.with(py, |region| region.appoint(user, allowed))
    }

    /// Says whether it outlives those who manage it.
    fn set_lasting(&self, py: Python<'_>, is_lasting: bool) -> PyResult<()> {
        self.with(py, |region| region.set_lasting(is_lasting))
    }

    /// Ends the region for everybody.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        let region = self.held.take_alone(|_| false)?;
        py.detach(|| region.free()).map_err(|error| error::memory(&error))
    }

    /// Gives the handle back; true when nothing holds it any more. Again: nothing.
    fn unmap(&self, py: Python<'_>) -> PyResult<bool> {
        self.held.close(py)
    }

    #[getter]
    fn is_unmapped(&self) -> PyResult<bool> {
        self.held.is_closed()
    }

    #[getter]
    fn identity(&self) -> &str {
        &self.identity
    }

    #[getter]
    fn rights(&self) -> String {
        self.rights.to_string().replace('+', ",")
    }

    #[getter]
    fn node(&self) -> Option<u64> {
        self.node
    }

    #[getter]
    fn path(&self) -> &'static str {
        if self.is_direct {
            "direct"
        } else {
            "delegated"
        }
    }
}
