//! A handle on a memory region: its bytes, its words and its life.
//!
//! The handle is given back once nobody has it: not this object, no array of its bytes, and no call
//! that another thread has under way.

use std::sync::{Arc, Mutex, PoisonError};

use heliostat_stub_memory::{
    Class, MappedBytes, MemoryError, Region as StubRegion, Rights, OWN_USER,
};
use pyo3::exceptions::{PyBufferError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffer::HeldBuffer;
use crate::error;
use crate::memory::{rights, Memory};
use crate::process::Own;

/// Memory that is taken for a read before anybody has said that the region has so much; more of it
/// would be filled with zeros for nothing.
const UNASKED_BYTES_MAX: u64 = 1 << 20;

/// A region that this process has a handle on. Threads may share it.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct MemoryRegion {
    // The fork check comes before the lock, which another thread of the parent may have held.
    held: Own<Mutex<Held>>,
    /// What a child of a fork is told.
    first: Known,
    rights: Rights,
}

/// The handle, until it is given back.
struct Held {
    region: Option<Arc<StubRegion>>,
    /// What was known then.
    last: Known,
}

impl Held {
    fn take(&mut self) -> Option<Arc<StubRegion>> {
        let region = self.region.take()?;
        self.last = Known::of(&region);
        Some(region)
    }
}

/// Where a region is, and what it is called there. It changes where the region moves to another node.
#[derive(Clone)]
struct Known {
    identity: String,
    is_direct: bool,
    node: Option<u64>,
}

impl Known {
    fn of(region: &StubRegion) -> Self {
        let (identity, is_direct) = (region.id().to_string(), region.is_direct());
        Self { identity, is_direct, node: region.node() }
    }
}

impl MemoryRegion {
    /// A region whose handle others may have too.
    pub(crate) fn of(region: Arc<StubRegion>) -> Self {
        let (rights, first) = (region.rights(), Known::of(&region));
        let held = Held { region: Some(region), last: first.clone() };
        Self { held: Own::new(Mutex::new(held)), first, rights }
    }

    /// Where it is, as far as this process has found it.
    fn known(&self) -> Known {
        let Ok(held) = self.held.get() else { return self.first.clone() };
        let held = held.lock().unwrap_or_else(PoisonError::into_inner);
        held.region.as_deref().map_or_else(|| held.last.clone(), Known::of)
    }

    pub(crate) fn region(&self) -> PyResult<Arc<StubRegion>> {
        let held = self.held.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        held.region.clone().ok_or_else(|| error::closed("memory region"))
    }

    /// Does something with the region, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&StubRegion) -> Result<T, MemoryError> + Send,
    ) -> PyResult<T> {
        let region = self.region()?;
        // The last reference gives the handle back, which the control plane is told: in here as well.
        let done = py.detach(move || {
            let done = act(&region);
            drop(region);
            done
        });
        done.map_err(|error| error::memory(&error))
    }

    /// `bytes` bytes from `offset` on, where they lie.
    pub(crate) fn mapped(&self, py: Python<'_>, offset: u64, bytes: u64) -> PyResult<MappedBytes> {
        let region = self.region()?;
        let mapped = py.detach(|| region.mapped(offset, bytes));
        mapped.map_err(|error| error::memory(&error))?.ok_or_else(|| {
            let known = self.known();
            let why = match known.is_direct {
                true => "these bytes lie in several pieces",
                false => "its path is delegated",
            };
            let id = &known.identity;
            let text = format_args!("region {id}: no array, since {why}; read and write copy");
            error::raise("Unsupported", text)
        })
    }

    /// Refuses more memory than the region has, where that would be much.
    pub(crate) fn check_length(&self, py: Python<'_>, offset: u64, bytes: u64) -> PyResult<()> {
        match bytes > UNASKED_BYTES_MAX {
            true => self.check_range(py, offset, bytes),
            false => Ok(()),
        }
    }

    fn check_range(&self, py: Python<'_>, offset: u64, bytes: u64) -> PyResult<()> {
        let limit = self.with(py, StubRegion::size)?;
        if offset.checked_add(bytes).is_some_and(|end| end <= limit) {
            return Ok(());
        }
        let id = &self.known().identity;
        let text = format_args!("region {id}: {bytes} bytes at {offset}, it has {limit}");
        Err(error::raise("InvalidRegion", text))
    }

    /// Its own bytes under another name, which no copy takes, are for `copy_to`.
    fn check_outside(&self, py: Python<'_>, buffer: &HeldBuffer) -> PyResult<()> {
        let memory = buffer.start()..buffer.start() + buffer.len();
        if self.with(py, |region| Ok(region.meets(&memory)))? {
            let text = "the buffer is memory of this region itself; copy_to copies inside";
            return Err(PyValueError::new_err(text));
        }
        Ok(())
    }
}

/// A word: a number of 64 bits, or a negative one of 63 in two's complement.
pub(crate) fn word(number: &Bound<'_, PyAny>) -> PyResult<u64> {
    let signed = |_| number.extract::<i64>().map(|signed| signed as u64);
    number.extract::<u64>().or_else(signed).map_err(|error| {
        match error.is_instance_of::<PyOverflowError>(number.py()) {
            true => PyOverflowError::new_err("a word has 64 bits: -2**63 to 2**64 - 1"),
            false => error,
        }
    })
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
        self.check_length(py, offset, bytes)?;
        PyBytes::new_with(py, bytes as usize, |into| {
            self.with(py, |region| region.read(offset, into))
        })
    }

    /// Fills `buffer` from `offset` on; bytes read.
    fn read_into(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut held = HeldBuffer::new(buffer)?;
        self.check_outside(py, &held)?;
        // SAFETY: exported to us writable, so it stays where it is until `held` goes, and it is none
        // of the region's own memory (checked). Whoever uses it meanwhile, a thread or, where it is
        // shared, another program, races with a copy, as with any `readinto`: the bytes go to copies
        // only, and nothing is decided by them.
        let into = unsafe { held.as_mut_slice() };
        let bytes = into.len();
        self.with(py, |region| region.read(offset, into))?;
        Ok(bytes)
    }

    /// Writes `buffer` from `offset` on; bytes written.
    fn write(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let held = HeldBuffer::to_read(buffer)?;
        self.check_outside(py, &held)?;
        // SAFETY: as in `read_into`; it is only read.
        let from = unsafe { held.as_slice() };
        self.with(py, |region| region.write(offset, from))?;
        Ok(from.len())
    }

    /// Reads pieces, each (offset, bytes).
    fn read_pieces(&self, py: Python<'_>, pieces: Vec<(u64, usize)>) -> PyResult<Vec<Py<PyBytes>>> {
        let all = pieces.iter().map(|(_, bytes)| *bytes as u64);
        self.check_length(py, 0, all.max().unwrap_or(0))?;
        let mut found: Vec<_> = pieces.iter().map(|(_, bytes)| vec![0; *bytes]).collect();
        let mut into: Vec<_> =
            pieces.iter().zip(&mut found).map(|((at, _), it)| (*at, &mut it[..])).collect();
        self.with(py, |region| region.read_vectored(&mut into))?;
        Ok(found.iter().map(|it| PyBytes::new(py, it).unbind()).collect())
    }

    /// Writes pieces, each (offset, buffer); bytes written.
    fn write_pieces(
        &self,
        py: Python<'_>,
        pieces: Vec<(u64, Bound<'_, PyAny>)>,
    ) -> PyResult<usize> {
        let held = pieces.iter().map(|(_, buffer)| HeldBuffer::to_read(buffer));
        let held = held.collect::<PyResult<Vec<_>>>()?;
        held.iter().try_for_each(|buffer| self.check_outside(py, buffer))?;
        // SAFETY: as in `read_into`; they are only read.
        let slices = held.iter().map(|buffer| unsafe { buffer.as_slice() });
        let from: Vec<_> = pieces.iter().map(|(at, _)| *at).zip(slices).collect();
        self.with(py, |region| region.write_vectored(&from))?;
        Ok(from.iter().map(|(_, it)| it.len()).sum())
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

    /// Says how urgent is what this process does with it on another node.
    fn set_class(&self, py: Python<'_>, class_: &str) -> PyResult<()> {
        let class =
            Class::ALL.into_iter().find(|class| class.word() == class_).ok_or_else(|| {
                PyValueError::new_err(format!(
                    "no class {class_:?}; there are high, normal and low"
                ))
            })?;
        let known = self.known();
        if known.node.is_none() {
            let text = format_args!("region {}: one of this node has no class", known.identity);
            return Err(error::raise("InvalidRegion", text));
        }
        self.with(py, |region| region.set_class(class))
    }

    /// Ends the region for everybody.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        let region = {
            let mut held = self.held.get()?.lock().unwrap_or_else(PoisonError::into_inner);
            let whole = held.take().ok_or_else(|| error::closed("memory region"))?;
            Arc::try_unwrap(whole).map_err(|shared| {
                held.region = Some(shared);
                PyBufferError::new_err("arrays of the region, or calls of other threads, are alive")
            })?
        };
        py.detach(|| region.free()).map_err(|error| error::memory(&error))
    }

    /// Gives the handle back; true when nothing holds it any more. Again: nothing.
    fn unmap(&self, py: Python<'_>) -> PyResult<bool> {
        let mut held = self.held.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        let last = held.take().map(Arc::try_unwrap);
        drop(held);
        let is_held = matches!(last, Some(Err(_)));
        py.detach(|| drop(last));
        Ok(!is_held)
    }

    #[getter]
    fn is_unmapped(&self) -> PyResult<bool> {
        let held = self.held.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(held.region.is_none())
    }

    #[getter]
    fn identity(&self) -> String {
        self.known().identity
    }

    #[getter]
    fn rights(&self) -> String {
        self.rights.to_string().replace('+', ",")
    }

    #[getter]
    fn node(&self) -> Option<u64> {
        self.known().node
    }

    #[getter]
    fn path(&self) -> &'static str {
        if self.known().is_direct {
            "direct"
        } else {
            "delegated"
        }
    }
}
