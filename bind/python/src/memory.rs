//! This process's access to memory regions: makes, finds and lists them.

use heliostat_stub_memory::{
    Memory as StubMemory, MemoryError, Operations, Region, Rights, OWN_USER,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error;
use crate::process::{claim_session, Own};

/// One session's access.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct Memory {
    inner: Own<StubMemory>,
}

/// Identity, bytes, user, handles, whether it is lasting, age in seconds, name.
type ListedRegion = (String, u64, u32, u32, bool, u32, Option<String>);

const KNOWN: [(&str, Rights); 6] = [
    ("read", Rights::READ),
    ("write", Rights::WRITE),
    ("atomic", Rights::ATOMIC),
    ("share", Rights::SHARE),
    ("manage", Rights::MANAGE),
    ("all", Rights::ALL),
];

/// The rights that a text names, with commas between them; none, if it is empty.
pub fn rights(text: &str) -> PyResult<Rights> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.into_iter().try_fold(Rights::NONE, |all, word| {
        let known = KNOWN.iter().find(|(name, _)| *name == word);
        known.map(|(_, right)| all.and(*right)).ok_or_else(|| {
            let there_are = "read, write, atomic, share, manage and all";
            PyValueError::new_err(format!("no right {word:?}; there are {there_are}"))
        })
    })
}

impl Memory {
    /// Asks for a handle.
    pub(crate) fn obtain(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&StubMemory) -> Result<Region, MemoryError> + Send,
    ) -> PyResult<Region> {
        let stub = self.inner.get()?;
        py.detach(|| ask(stub)).map_err(|error| error::memory(&error))
    }
}

impl Memory {
    /// The access itself.
    pub(crate) fn stub(&self) -> PyResult<&StubMemory> {
        self.inner.get()
    }

    /// A place for operations that complete later.
    pub(crate) fn operations(&self, py: Python<'_>, limit: usize) -> PyResult<Operations> {
        let stub = self.inner.get()?;
        Ok(py.detach(|| stub.operations(limit)))
    }
}

#[pymethods]
impl Memory {
    /// In this process's session; the same for regions of `node`, if both are given.
    #[new]
    #[pyo3(signature = (base=None, node=None))]
    fn new(py: Python<'_>, base: Option<&Bound<'_, Self>>, node: Option<u64>) -> PyResult<Self> {
        if let (Some(base), Some(node)) = (base, node) {
            let placed = base.get().inner.get()?.on(node);
            return Ok(Self { inner: Own::new(placed) });
        }
        claim_session();
        let opened = py.detach(StubMemory::open).map_err(|error| error::memory(&error))?;
        Ok(Self { inner: Own::new(opened) })
    }

    /// Nodes whose regions can be asked for now, this one as 0.
    fn _nodes(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        let stub = self.inner.get()?;
        py.detach(|| stub.nodes_to_ask()).map_err(|error| error::memory(&error))
    }

    /// The regions of `user` (own, if `None`) whose names begin so.
    fn _list(
        &self,
        py: Python<'_>,
        beginning: &str,
        user: Option<u32>,
    ) -> PyResult<Vec<ListedRegion>> {
        let stub = self.inner.get()?;
        let found = py.detach(|| stub.list_of(user.unwrap_or(OWN_USER), beginning));
        let found = found.map_err(|error| error::memory(&error))?;
        let told = found.into_iter().map(|it| {
            let name = it.name.map(|name| name.as_str().to_owned());
            (it.region.to_string(), it.bytes, it.user, it.handles, it.lasting, it.age_s, name)
        });
        Ok(told.collect())
    }
}
