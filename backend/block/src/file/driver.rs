//! What drives an open device: requests to the kernel, or commands to a namespace.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use heliostat_backend_uring::{Allocation, By, Direction, Manner, NotPrepared, Range, Requests};
use heliostat_base::mapping::SharedMapping;

use super::{OpenError, Options};
use crate::namespace::{Namespace, NamespaceRing, Transfer};
use crate::Buffer;

/// Requests that come back with their place.
#[allow(clippy::large_enum_variant)] // one for each device
pub(super) enum Driver {
    /// To the kernel, of a file or a disk.
    Kernel(Requests<usize>),
    /// To the device itself.
    Namespace(NamespaceRing),
}

impl Driver {
    pub(super) fn create(
        file: &Arc<OwnedFd>,
        namespace: Option<Namespace>,
        options: &Options,
    ) -> Result<Driver, OpenError> {
        let most = u32::try_from(options.depth.max(1) + 1).unwrap_or(u32::MAX);
        let entries = most.next_power_of_two().min(128);
        let driver = match namespace {
            None => {
                let by = options.by.unwrap_or_else(By::available);
                Requests::create_for_transfers(by, entries, most).map(Driver::Kernel)
            }
            Some(is) => NamespaceRing::create(file.clone(), is, entries, most as usize)
                .map(Driver::Namespace),
        };
        driver.map_err(|error| OpenError::system("io_uring_setup", &error))
    }

    pub(super) fn by(&self) -> By {
        match self {
            Driver::Kernel(requests) => requests.by(),
            Driver::Namespace(_) => By::Uring,
        }
    }

    pub(super) fn event(&self) -> Option<OwnedFd> {
        match self {
            Driver::Kernel(requests) => requests.event(),
            Driver::Namespace(ring) => ring.event(),
        }
    }

    pub(super) fn descriptor(&self) -> Option<i32> {
        match self {
            Driver::Kernel(requests) => requests.descriptor(),
            Driver::Namespace(ring) => Some(ring.descriptor()),
        }
    }

    pub(super) fn under_way(&self) -> usize {
        match self {
            Driver::Kernel(requests) => requests.under_way(),
            Driver::Namespace(ring) => ring.under_way(),
        }
    }

    pub(super) fn forget(&mut self, memory: &Arc<SharedMapping>) {
        if let Driver::Kernel(requests) = self {
            requests.forget(memory);
        }
    }

    pub(super) fn transfer(
        &mut self,
        place: usize,
        file: &Arc<OwnedFd>,
        (direction, offset): (Direction, u64),
        buffer: &Buffer,
        manner: Manner,
    ) -> Result<(), NotPrepared> {
        let range = range_of(buffer);
        let memory = &buffer.memory;
        match (self, direction) {
            (Driver::Namespace(ring), direction) => {
                ring.transfer(place, offset, (memory, range), how(direction, manner))
            }
            (Driver::Kernel(requests), Direction::Read) => {
                requests.read(place, file, offset, (memory, &[range]), manner).map(drop)
            }
            (Driver::Kernel(requests), Direction::Write) => {
                requests.write(place, file, offset, (memory, &[range]), manner).map(drop)
            }
        }
    }

    pub(super) fn flush(&mut self, place: usize, file: &Arc<OwnedFd>) -> Result<(), NotPrepared> {
        match self {
            Driver::Kernel(requests) => requests.fdatasync(place, file).map(drop),
            Driver::Namespace(ring) => ring.flush(place),
        }
    }

    pub(super) fn allocate(
        &mut self,
        place: usize,
        file: &Arc<OwnedFd>,
        range: (u64, u64),
        what: Allocation,
    ) -> Result<(), NotPrepared> {
        match (self, what) {
            (Driver::Kernel(requests), what) => {
                requests.allocate(place, file, range, what).map(drop)
            }
            (Driver::Namespace(ring), Allocation::Discard) => ring.discard(place, range),
            (Driver::Namespace(ring), Allocation::Zero) => ring.zero(place, range),
        }
    }

    pub(super) fn submit(&mut self) -> io::Result<()> {
        match self {
            Driver::Kernel(requests) => requests.submit(),
            Driver::Namespace(ring) => ring.submit(),
        }
    }

    pub(super) fn reap(&mut self) -> Option<(usize, i32)> {
        match self {
            Driver::Kernel(requests) => requests.reap(),
            Driver::Namespace(ring) => ring.reap(),
        }
    }

    pub(super) fn sleep(&mut self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Driver::Kernel(requests) => requests.sleep(limit),
            Driver::Namespace(ring) => ring.sleep(limit),
        }
    }
}

pub(super) fn range_of(buffer: &Buffer) -> Range {
    Range { offset: buffer.at, len: buffer.bytes }
}

pub(super) fn how(direction: Direction, manner: Manner) -> Transfer {
    Transfer { direction, durable: manner == Manner::Durable }
}
