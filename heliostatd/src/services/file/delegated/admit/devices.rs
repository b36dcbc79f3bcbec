//! The devices that files lie on: which one a file has, and by which file it is measured.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use heliostat_server_file::{Device, ProbeFile};
use rustix::fs::fstat;

use crate::daemon::Daemon;
use crate::mounts::FileSystemKind;

/// What st_blocks counts (stat(2)).
const STAT_BLOCK_BYTES: u64 = 512;

impl Daemon {
    /// The device of this number, with what is known of it.
    pub(super) fn device_of(&self, number: u64) -> Result<Arc<Device>, i32> {
        let delegated = self.services.file.delegated.as_ref().ok_or(libc::ECONNRESET)?;
        Ok(delegated.shared.devices.of(number))
    }

    /// A file was opened, with so many bytes, by these descriptors; past the page cache by the second
    /// where it can be and a lease vouches for it. Then its device is measured by it, beside the event
    /// loop, if it never was.
    pub(super) fn consider_measuring(
        &self,
        device: &Arc<Device>,
        (buffered, direct): (&Arc<OwnedFd>, Option<&Arc<OwnedFd>>),
        (kind, bytes): (FileSystemKind, u64),
    ) {
        let Some(delegated) = &self.services.file.delegated else { return };
        match direct {
            _ if kind == FileSystemKind::Memory => device.give_up("its files lie in memory"),
            _ if kind == FileSystemKind::Overlay => {
                device.give_up("no lease vouches for files on overlay");
            }
            // Of one file this says nothing: another may be opened so.
            None => {}
            // Nor does the speed of what was never written.
            _ if !is_filled(buffered, bytes) => {}
            Some(direct) => {
                let (direct, buffered) = (direct.clone(), buffered.clone());
                delegated.prober.consider(device, ProbeFile { direct, buffered, bytes });
            }
        }
    }
}

/// Whether all of a file has its place on the disk.
fn is_filled(file: &OwnedFd, bytes: u64) -> bool {
    fstat(file).is_ok_and(|status| status.st_blocks as u64 * STAT_BLOCK_BYTES >= bytes)
}
