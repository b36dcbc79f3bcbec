//! An area of a store that is open: its bytes read into buffers and written from them.
//!
//! Whoever waits for the device does so without the interpreter's lock.

use std::sync::{Mutex, PoisonError};

use heliostat_stub_store::{AreaRights, NewArea, Store, StoreError, Way, WayWanted, OWN_USER};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffer::HeldBuffer;
use crate::error;
use crate::process::{claim_session, Own};

/// An open area. Threads may share it; they wait for each other.
#[pyclass(frozen, subclass, module = "heliostat._native")]
pub struct AreaHandle {
    // `None` once it is closed.
    opened: Own<Mutex<Option<heliostat_stub_store::Area>>>,
}

impl AreaHandle {
    /// Does something with it, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut heliostat_stub_store::Area) -> Result<T, StoreError> + Send,
    ) -> PyResult<T> {
        let place = self.opened.get()?;
        let done = py.detach(|| {
            let mut opened = place.lock().unwrap_or_else(PoisonError::into_inner);
            opened.as_mut().map(work)
        });
        done.ok_or_else(|| error::closed("area"))?.map_err(|error| error::store(&error))
    }
}

#[pymethods]
impl AreaHandle {
    /// Opens the area of a name, or makes it of so many bytes.
    #[new]
    #[pyo3(signature = (name, bytes, rights, way, exclusive, user))]
    fn new(
        py: Python<'_>,
        name: &str,
        bytes: Option<u64>,
        rights: &str,
        way: &str,
        exclusive: bool,
        user: Option<u32>,
    ) -> PyResult<Self> {
        let (rights, way) = (rights_of(rights)?, way_of(way)?);
        claim_session();
        let opened = py.detach(|| {
            let store = Store::connect()?;
            match bytes {
                Some(bytes) => made(store.create(name, bytes).rights(rights).way(way), exclusive),
                None if exclusive => {
                    store.open_exclusive(user.unwrap_or(OWN_USER), name, rights, way)
                }
                None => store.open_of(user.unwrap_or(OWN_USER), name, rights, way),
            }
        });
        let opened = opened.map_err(|error| error::store(&error))?;
        Ok(Self { opened: Own::new(Mutex::new(Some(opened))) })
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        bytes: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let read = self.with(py, |area| {
            // Before the memory is asked for, which a number without sense could not have.
            let bytes = bytes.min(usize::try_from(area.bytes()).unwrap_or(usize::MAX) + 1);
            let mut read = vec![0; bytes];
            area.read_at(offset, &mut read).map(|()| read)
        })?;
        Ok(PyBytes::new(py, &read))
    }

    fn read_into(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut held = HeldBuffer::new(buffer)?;
        self.with(py, |area| {
            // SAFETY: exported, so it stays where it is until `held` goes. Who uses it meanwhile sees
            // some of the bytes, by which nothing here is decided.
            area.read_at(offset, unsafe { held.as_mut_slice() })
        })
    }

    #[pyo3(signature = (offset, buffer, durable=false))]
    fn write(
        &self,
        py: Python<'_>,
        offset: u64,
        buffer: &Bound<'_, PyAny>,
        durable: bool,
    ) -> PyResult<()> {
        let held = HeldBuffer::to_read(buffer)?;
        self.with(py, |area| {
            // SAFETY: as in `read_into`; who writes it meanwhile decides what is stored, and nothing else.
            let from = unsafe { held.as_slice() };
            let sector = u64::from(area.sector_bytes());
            let is_whole = offset % sector == 0 && from.len() as u64 % sector == 0;
            match (durable, is_whole) {
                (true, true) => area.write_durable(offset, from),
                (true, false) => area.write_at(offset, from).and_then(|()| area.flush()),
                (false, _) => area.write_at(offset, from),
            }
        })
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |area| area.flush())
    }

    fn zero(&self, py: Python<'_>, offset: u64, bytes: u64) -> PyResult<()> {
        self.with(py, |area| area.zero(offset, bytes))
    }

    fn discard(&self, py: Python<'_>, offset: u64, bytes: u64) -> PyResult<()> {
        self.with(py, |area| area.discard(offset, bytes))
    }

    fn resize(&self, py: Python<'_>, bytes: u64) -> PyResult<()> {
        self.with(py, |area| area.resize(bytes))
    }

    /// Ends the area; the handle is closed, whatever comes of it.
    fn delete(&self, py: Python<'_>) -> PyResult<()> {
        let place = self.opened.get()?;
        let deleted = py.detach(|| {
            let opened = place.lock().unwrap_or_else(PoisonError::into_inner).take();
            opened.map(heliostat_stub_store::Area::delete)
        });
        deleted.ok_or_else(|| error::closed("area"))?.map_err(|error| error::store(&error))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |area| Ok(usize::try_from(area.bytes()).unwrap_or(usize::MAX)))
    }

    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |area| Ok(area.name().to_owned()))
    }

    #[getter]
    fn generation(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |area| Ok(area.generation()))
    }

    #[getter]
    fn sector_bytes(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |area| Ok(area.sector_bytes()))
    }

    #[getter]
    fn grain_bytes(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |area| Ok(area.grain_bytes()))
    }

    /// `None` where it is direct, else why not.
    #[getter]
    fn emulated_because(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        self.with(py, |area| {
            Ok(match area.way() {
                Way::Direct => None,
                Way::Emulated(why) => Some(why.text()),
            })
        })
    }

    #[getter]
    fn is_closed(&self) -> PyResult<bool> {
        Ok(self.opened.get()?.lock().unwrap_or_else(PoisonError::into_inner).is_none())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let place = self.opened.get()?;
        py.detach(|| drop(place.lock().unwrap_or_else(PoisonError::into_inner).take()));
        Ok(())
    }
}

impl Drop for AreaHandle {
    fn drop(&mut self) {
        // In a forked child the area is its parent's.
        let Ok(place) = self.opened.get() else { return };
        let opened = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        if opened.is_some() {
            Python::attach(|py| py.detach(|| drop(opened)));
        }
    }
}

fn made(wanted: NewArea<'_>, exclusive: bool) -> Result<heliostat_stub_store::Area, StoreError> {
    if exclusive { wanted.exclusive() } else { wanted }.make()
}

fn rights_of(words: &str) -> PyResult<AreaRights> {
    let one = |letter| match letter {
        'r' => Ok(AreaRights::READ),
        'w' => Ok(AreaRights::WRITE),
        'm' => Ok(AreaRights::MANAGE),
        _ => Err(PyValueError::new_err(format!("{words:?} are no rights: some of r, w and m"))),
    };
    words.chars().try_fold(AreaRights::NONE, |all, letter| Ok(all.and(one(letter)?)))
}

fn way_of(word: &str) -> PyResult<WayWanted> {
    match word {
        "any" => Ok(WayWanted::Any),
        "emulated" => Ok(WayWanted::Emulated),
        "direct" => Ok(WayWanted::Direct),
        _ => Err(PyValueError::new_err(format!("{word:?} is no way: any, emulated or direct"))),
    }
}
