//! An area that is open, as its devices share it. Dropped with the last of them, it is given back.

use std::os::fd::AsFd;
use std::sync::Arc;

use heliostat_abi::store::reply::NO_MORE;
use heliostat_abi::store::{AreaRights, OpenedArea, StoreReply, StoreRequest, Way};
use heliostat_backend_block::{BlockError, Extents, Run, CLAIMS};
use heliostat_base::fd::OwnedFd;
use heliostat_base::range_lock::{is_locked, lock_for_reading};

use crate::ask::{when_left, AskStore};
use crate::{Shared, StoreError};

/// Pieces that are asked for at most: an area has 64, and each answer brings some.
const PIECES_MAX: usize = 1024;

/// A handle, and the device where that was granted.
pub(crate) struct Opened {
    pub(crate) shared: Arc<Shared>,
    pub(crate) is: OpenedArea,
    /// The device, if the way is direct.
    pub(crate) device: Option<OwnedFd>,
}

impl Opened {
    /// What a request for a handle was answered with.
    pub(crate) fn ask(shared: &Arc<Shared>, request: &StoreRequest) -> Result<Opened, StoreError> {
        let (reply, fds) = when_left(|| shared.control.ask_store(request, &[]))?;
        let StoreReply::Opened(is) = reply else { return Err(StoreError::Corrupt) };
        let mut fds = fds.into_iter();
        // From here on the handle is given back, whatever follows.
        let opened = Opened { shared: shared.clone(), is, device: fds.next() };
        match (is.way, opened.device.is_some(), fds.next().is_none()) {
            (Way::Direct, true, true) | (Way::Emulated(_), false, true) => Ok(opened),
            _ => Err(StoreError::Corrupt),
        }
    }

    /// Refuses a write by a handle that does not allow it, as the server loop does: by the direct way the
    /// kernel would say that the descriptor is wrong.
    pub(crate) fn check_writes(&self) -> Result<(), StoreError> {
        match self.is.rights.have(AreaRights::WRITE) {
            true => Ok(()),
            false => Err(StoreError::Device(BlockError::Device { errno: libc::EACCES })),
        }
    }

    /// Where its bytes lie on the device.
    pub(crate) fn extents(&self) -> Result<Extents, StoreError> {
        let (mut runs, mut from) = (Vec::new(), 0);
        while runs.len() < PIECES_MAX {
            let asked = StoreRequest::Pieces { handle: self.is.handle, from };
            let answered = self.shared.control.ask_store(&asked, &[])?;
            let (StoreReply::Pieces { pieces, next, .. }, _) = answered else {
                return Err(StoreError::Corrupt);
            };
            runs.extend(
                pieces.iter().map(|piece| Run { offset: piece.offset, bytes: piece.bytes }),
            );
            if next == NO_MORE {
                break;
            }
            if next <= from {
                return Err(StoreError::Corrupt);
            }
            from = next;
        }
        Extents::new(runs).ok_or(StoreError::Corrupt)
    }
}

impl Opened {
    /// See `Area::claim_alone`. The claim is a reader's lock, which only asking makes a claim; it goes
    /// with the last copy of the descriptor.
    pub(crate) fn claim_alone(&self) -> Result<bool, StoreError> {
        let Some(device) = &self.device else { return Ok(true) };
        let first = self.extents()?.runs().next().map_or(0, |run| run.offset);
        let told = |errno: heliostat_base::sys::Errno| {
            let call = "fcntl(F_OFD_SETLK)";
            StoreError::NotDriven(heliostat_backend_block::OpenError::System {
                call,
                errno: errno.0,
            })
        };
        if is_locked(device.as_fd(), CLAIMS + first, 1).map_err(told)? {
            return Ok(false);
        }
        lock_for_reading(device.as_fd(), CLAIMS + first, 1).map_err(told)?;
        Ok(true)
    }
}

impl Drop for Opened {
    /// The device first, since the control plane looks whether anybody has it.
    fn drop(&mut self) {
        drop(self.device.take());
        // A session that has ended has given it back already.
        let _ = self.shared.control.tell_store(&StoreRequest::Close { handle: self.is.handle });
    }
}
