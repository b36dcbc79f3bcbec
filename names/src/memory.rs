//! `/memory`: regions, each as a file of its bytes.
//!
//! A region is like a disk: it has its length, what is written behind its end is refused, and opening
//! it so that it would be emptied changes nothing. It may grow (`truncate`) and does not shrink.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use heliostat_stub_memory::{
    Completed, Listed, Memory, MemoryError, Region, RegionId, Rights, Submission, Work,
};

use crate::file::within;
use crate::listed::Lister;
use crate::renewed::Renewed;
use crate::{Access, Bytes, Facts, File, Found, NameFault};

/// What a server loop, or another node, may take for one transfer.
const TRANSFER: Duration = Duration::from_secs(10);
/// Regions of other users whose rights are remembered.
const RIGHTS_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct RegionNames {
    memory: Arc<Renewed<Memory>>,
    /// What this user may do with regions of others, as tried once.
    rights: Mutex<HashMap<RegionId, (bool, bool)>>,
}

impl Lister for RegionNames {
    type Thing = Listed;

    fn ask(&self, user: u32, beginning: &str) -> Result<Vec<((u32, String), Listed)>, NameFault> {
        let memory = self.memory.current(Memory::open)?;
        // Names have no @: with it a region is meant by its identity, and all are listed.
        let beginning = if beginning.contains('@') { "" } else { beginning };
        let regions = memory.list_of(user, beginning)?;
        Ok(regions.into_iter().map(|it| ((it.user, shown_name(&it)), it)).collect())
    }

    fn found(&self, own: u32, region: &Listed) -> Result<Found, NameFault> {
        let is_own = region.user == own;
        let (is_readable, is_writable) =
            if is_own { (true, true) } else { self.rights_on(region)? };
        let (memory, region) = (self.memory.clone(), region.clone());
        Ok(Found::File(Arc::new(RegionFile { memory, region, is_own, is_readable, is_writable })))
    }
}

impl RegionNames {
    /// Tries what this user may do with another's region.
    fn rights_on(&self, region: &Listed) -> Result<(bool, bool), NameFault> {
        let rights = || self.rights.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = rights().get(&region.region) {
            return Ok(*known);
        }
        let memory = self.memory.current(Memory::open)?;
        let may = |wanted| match mapped(&memory, region, false, wanted).map_err(NameFault::from) {
            Ok(_) => Ok(true),
            Err(NameFault::Denied) => Ok(false),
            Err(error) => Err(error),
        };
        let found = (may(Rights::READ)?, may(Rights::WRITE)?);
        let mut rights = rights();
        if rights.len() >= RIGHTS_MAX {
            rights.clear();
        }
        rights.insert(region.region, found);
        Ok(found)
    }
}

/// The name, or the identity of a region that has none, as `heliostat memory list` shows it.
fn shown_name(region: &Listed) -> String {
    let name = region.name.as_ref().map(|name| name.as_str().to_owned());
    name.unwrap_or_else(|| format!("@{}", region.region))
}

/// A handle: on the very region that was looked at where it is this user's.
fn mapped(
    memory: &Memory,
    region: &Listed,
    is_own: bool,
    rights: Rights,
) -> Result<Region, MemoryError> {
    match &region.name {
        Some(name) if !is_own => memory.map_of(region.user, name.as_str(), rights),
        _ => memory.map_region(region.region, rights),
    }
}

struct RegionFile {
    memory: Arc<Renewed<Memory>>,
    region: Listed,
    is_own: bool,
    is_readable: bool,
    is_writable: bool,
}

impl RegionFile {
    fn map(&self, rights: Rights) -> Result<(Memory, Region), NameFault> {
        let memory = self.memory.current(Memory::open)?;
        let region = mapped(&memory, &self.region, self.is_own, rights)?;
        Ok((memory, region))
    }
}

impl File for RegionFile {
    fn facts(&self) -> Facts {
        Facts {
            key: format!("region {} {}", self.region.user, self.region.region),
            bytes: self.region.bytes,
            user: Some(self.region.user),
            is_readable: self.is_readable,
            is_writable: self.is_writable,
            changed: None,
            is_constant: false,
        }
    }

    fn open(&self, access: Access) -> Result<Box<dyn Bytes>, NameFault> {
        let rights = match access {
            Access::Read => Rights::READ,
            Access::Write => Rights::WRITE,
            Access::Both => Rights::READ.and(Rights::WRITE),
        };
        let (memory, region) = self.map(rights)?;
        Ok(Box::new(OpenRegion { memory, region: Arc::new(region) }))
    }

    fn resize(&self, bytes: u64) -> Result<(), NameFault> {
        let (_, region) = self.map(Rights::MANAGE)?;
        let found = region.size()?;
        if bytes == found {
            return Ok(());
        }
        Ok(region.grow(bytes)?)
    }
}

struct OpenRegion {
    memory: Memory,
    region: Arc<Region>,
}

impl OpenRegion {
    /// Does work that a server loop or another node does, and gives it up when it takes too long.
    fn delegate(&self, work: Work) -> Result<Vec<u8>, MemoryError> {
        let operations = self.memory.operations(1);
        let submission = Submission::new(&self.region, work);
        operations.submit(submission).map_err(|unsubmitted| unsubmitted.error)?;
        let Completed { result, bytes, .. } = operations.wait(Some(TRANSFER))?;
        result.map(|_| bytes)
    }

    fn read_all(&self, offset: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        if self.region.is_direct() {
            return self.region.read(offset, into);
        }
        let bytes = self.delegate(Work::Read { offset, into: vec![0; into.len()] })?;
        into.copy_from_slice(&bytes);
        Ok(())
    }

    fn write_all(&self, offset: u64, from: &[u8]) -> Result<(), MemoryError> {
        if self.region.is_direct() {
            return self.region.write(offset, from);
        }
        self.delegate(Work::Write { offset, from: from.to_vec() }).map(drop)
    }
}

impl Bytes for OpenRegion {
    fn size(&self) -> Result<u64, NameFault> {
        Ok(self.region.size()?)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, NameFault> {
        match self.read_all(offset, into) {
            Ok(()) => Ok(into.len()),
            Err(MemoryError::Range { limit, .. }) => {
                let count = within(offset, into.len(), limit);
                if count > 0 {
                    self.read_all(offset, &mut into[..count])?;
                }
                Ok(count)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> Result<usize, NameFault> {
        match self.write_all(offset, from) {
            Ok(()) => Ok(from.len()),
            Err(MemoryError::Range { limit, .. }) => match within(offset, from.len(), limit) {
                0 => Err(NameFault::End),
                count => self.write_all(offset, &from[..count]).map(|()| count).map_err(Into::into),
            },
            Err(error) => Err(error.into()),
        }
    }
}
