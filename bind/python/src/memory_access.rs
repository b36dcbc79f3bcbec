//! What a region and a region that is spread over nodes have alike: bytes by their offset, of buffers and
//! in pieces, and handles that end once nobody has them.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heliostat_stub_memory::{MemoryError, Region, SpreadError, SpreadRegion};
use pyo3::exceptions::{PyBufferError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffer::HeldBuffer;
use crate::error;
use crate::process::Own;

/// Memory that is taken for a read before anybody has said that the region has so much; more of it
/// would be filled with zeros for nothing.
const UNASKED_BYTES_MAX: u64 = 1 << 20;

/// Bytes by their offset.
pub(crate) trait Access: Send + Sync {
    /// Why something was not done.
    type Why: Send;
    /// What it is called when it is closed.
    const NAME: &'static str;

    /// The exception for that.
    fn raise(why: &Self::Why) -> PyErr;
    /// Refuses what does not all lie in it.
    fn check_range(&self, offset: u64, bytes: u64) -> Result<(), Self::Why>;
    /// Whether memory is its own.
    fn meets(&self, memory: &Range<usize>) -> bool;
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Self::Why>;
    fn write(&self, offset: u64, from: &[u8]) -> Result<(), Self::Why>;
    fn read_vectored(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<(), Self::Why>;
    fn write_vectored(&self, pieces: &[(u64, &[u8])]) -> Result<(), Self::Why>;
}

/// Handles that threads, arrays and calls share, until this object gives its own back.
pub(crate) struct Held<T> {
    // The fork check comes before the lock, which another thread of the parent may have held.
    held: Own<Mutex<Option<Arc<T>>>>,
}

impl<T: Access> Held<T> {
    pub(crate) fn new(whole: Arc<T>) -> Self {
        Self { held: Own::new(Mutex::new(Some(whole))) }
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, Option<Arc<T>>>> {
        Ok(self.held.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// It, while it is not closed.
    pub(crate) fn get(&self) -> PyResult<Arc<T>> {
        self.lock()?.clone().ok_or_else(|| error::closed(T::NAME))
    }

    pub(crate) fn is_closed(&self) -> PyResult<bool> {
        Ok(self.lock()?.is_none())
    }

    /// Takes it out, if nobody else has it or, as `is_shared` says, something of it.
    pub(crate) fn take_alone(&self, is_shared: impl FnOnce(&T) -> bool) -> PyResult<T> {
        let mut held = self.lock()?;
        let whole = held.take().ok_or_else(|| error::closed(T::NAME))?;
        let alive =
            || PyBufferError::new_err("arrays of the region, or calls of other threads, are alive");
        if is_shared(&whole) {
            *held = Some(whole);
            return Err(alive());
        }
        Arc::try_unwrap(whole).map_err(|shared| {
            *held = Some(shared);
            alive()
        })
    }

    /// Gives this object's share back; whether nobody has it any more. Again: nothing.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<bool> {
        let last = self.lock()?.take().map(Arc::try_unwrap);
        let is_held = matches!(last, Some(Err(_)));
        py.detach(|| drop(last));
        Ok(!is_held)
    }

    /// Does something with it, without the interpreter's lock.
    pub(crate) fn with<R: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&T) -> Result<R, T::Why> + Send,
    ) -> PyResult<R> {
        let whole = self.get()?;
        // The last reference gives handles back, which control planes are told: in here as well.
        let done = py.detach(move || {
            let done = act(&whole);
            drop(whole);
            done
        });
        done.map_err(|why| T::raise(&why))
    }

    /// Refuses more memory than there is in it, where that would be much.
    pub(crate) fn check_length(&self, py: Python<'_>, offset: u64, bytes: u64) -> PyResult<()> {
        match bytes > UNASKED_BYTES_MAX {
            true => self.with(py, |whole| whole.check_range(offset, bytes)),
            false => Ok(()),
        }
    }

    /// Its own bytes under another name, which no copy takes, are for `copy_to`.
    fn check_outside(&self, py: Python<'_>, buffer: &HeldBuffer) -> PyResult<()> {
        let memory = buffer.start()..buffer.start() + buffer.len();
        if self.with(py, |whole| Ok(whole.meets(&memory)))? {
            let text = "the buffer is memory of this region itself; copy_to copies inside";
            return Err(PyValueError::new_err(text));
        }
        Ok(())
    }

    /// Reads `bytes` bytes from `offset` on.
    pub(crate) fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        bytes: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.check_length(py, offset, bytes)?;
        PyBytes::new_with(py, bytes as usize, |into| {
            self.with(py, |whole| whole.read(offset, into))
        })
    }

    /// Fills `buffer` from `offset` on; bytes read.
    pub(crate) fn read_into(
        &self,
        py: Python<'_>,
        offset: u64,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let mut held = HeldBuffer::new(buffer)?;
        self.check_outside(py, &held)?;
        // SAFETY: exported to us writable, so it stays where it is until `held` goes, and it is none
        // of the region's own memory (checked). Whoever uses it meanwhile, a thread or, where it is
        // shared, another program, races with a copy, as with any `readinto`: the bytes go to copies
        // only, and nothing is decided by them.
        let into = unsafe { held.as_mut_slice() };
        let bytes = into.len();
        self.with(py, |whole| whole.read(offset, into))?;
        Ok(bytes)
    }

    /// Writes `buffer` from `offset` on; bytes written.
    pub(crate) fn write(
        &self,
        py: Python<'_>,
        offset: u64,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let held = HeldBuffer::to_read(buffer)?;
        self.check_outside(py, &held)?;
        // SAFETY: as in `read_into`; it is only read.
        let from = unsafe { held.as_slice() };
        self.with(py, |whole| whole.write(offset, from))?;
        Ok(from.len())
    }

    /// Reads pieces, each (offset, bytes).
    pub(crate) fn read_pieces(
        &self,
        py: Python<'_>,
        pieces: &[(u64, usize)],
    ) -> PyResult<Vec<Py<PyBytes>>> {
        let all = pieces.iter().map(|(_, bytes)| *bytes as u64);
        self.check_length(py, 0, all.max().unwrap_or(0))?;
        let mut found: Vec<_> = pieces.iter().map(|(_, bytes)| vec![0; *bytes]).collect();
        let mut into: Vec<_> =
            pieces.iter().zip(&mut found).map(|((at, _), it)| (*at, &mut it[..])).collect();
        self.with(py, |whole| whole.read_vectored(&mut into))?;
        Ok(found.iter().map(|it| PyBytes::new(py, it).unbind()).collect())
    }

    /// Writes pieces, each (offset, buffer); bytes written.
    pub(crate) fn write_pieces(
        &self,
        py: Python<'_>,
        pieces: &[(u64, Bound<'_, PyAny>)],
    ) -> PyResult<usize> {
        let held = pieces.iter().map(|(_, buffer)| HeldBuffer::to_read(buffer));
        let held = held.collect::<PyResult<Vec<_>>>()?;
        held.iter().try_for_each(|buffer| self.check_outside(py, buffer))?;
        // SAFETY: as in `read_into`; they are only read.
        let slices = held.iter().map(|buffer| unsafe { buffer.as_slice() });
        let from: Vec<_> = pieces.iter().map(|(at, _)| *at).zip(slices).collect();
        self.with(py, |whole| whole.write_vectored(&from))?;
        Ok(from.iter().map(|(_, it)| it.len()).sum())
    }
}

impl Access for Region {
    type Why = Refused;
    const NAME: &'static str = "memory region";

    fn raise(why: &Refused) -> PyErr {
        match why {
            Refused::Memory(why) => error::memory(why),
            Refused::Range(text) => error::raise("InvalidRegion", text),
        }
    }

    fn check_range(&self, offset: u64, bytes: u64) -> Result<(), Refused> {
        let limit = self.size()?;
        if offset.checked_add(bytes).is_some_and(|end| end <= limit) {
            return Ok(());
        }
        let id = self.id();
        Err(Refused::Range(format!("region {id}: {bytes} bytes at {offset}, it has {limit}")))
    }

    fn meets(&self, memory: &Range<usize>) -> bool {
        Region::meets(self, memory)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Refused> {
        Ok(Region::read(self, offset, into)?)
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), Refused> {
        Ok(Region::write(self, offset, from)?)
    }

    fn read_vectored(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<(), Refused> {
        Ok(Region::read_vectored(self, pieces)?)
    }

    fn write_vectored(&self, pieces: &[(u64, &[u8])]) -> Result<(), Refused> {
        Ok(Region::write_vectored(self, pieces)?)
    }
}

/// Why something was not done with a region.
pub(crate) enum Refused {
    /// The stub says so.
    Memory(MemoryError),
    /// It does not all lie in it, which was seen before the stub was asked.
    Range(String),
}

impl From<MemoryError> for Refused {
    fn from(why: MemoryError) -> Self {
        Self::Memory(why)
    }
}

impl Access for SpreadRegion {
    type Why = SpreadError;
    const NAME: &'static str = "spread region";

    fn raise(why: &SpreadError) -> PyErr {
        error::spread(why)
    }

    fn check_range(&self, offset: u64, bytes: u64) -> Result<(), SpreadError> {
        self.places(offset, bytes).map(drop)
    }

    fn meets(&self, memory: &Range<usize>) -> bool {
        let parts = 0..self.parts().len();
        parts.filter_map(|at| self.part(at).ok()).any(|part| part.meets(memory))
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), SpreadError> {
        SpreadRegion::read(self, offset, into)
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), SpreadError> {
        SpreadRegion::write(self, offset, from)
    }

    fn read_vectored(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<(), SpreadError> {
        SpreadRegion::read_vectored(self, pieces)
    }

    fn write_vectored(&self, pieces: &[(u64, &[u8])]) -> Result<(), SpreadError> {
        SpreadRegion::write_vectored(self, pieces)
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
