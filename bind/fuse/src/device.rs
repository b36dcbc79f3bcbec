//! A mount and the device by which it is served.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{open, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{getgid, getuid};

use crate::{helper, MountError, SOURCE};

/// By which the kernel asks.
const DEVICE: &str = "/dev/fuse";
/// The kernel's type, and ours.
const KIND: &str = "fuse.heliostat";

/// A mount that is to be served.
pub struct Mounted {
    pub(crate) device: OwnedFd,
    pub(crate) is_for_all: bool,
}

/// Mounts at a folder: by the kernel where this user may, and else by fusermount3. The mount lasts until
/// it is taken away; once the answer is dropped, what uses it gets an error at once.
///
/// # Errors
/// There is no device, no right and no fusermount3, or the folder cannot be used.
pub fn mount(folder: &Path, is_for_all: bool) -> Result<Mounted, MountError> {
    let mounted = |device| Mounted { device, is_for_all };
    let refused = match open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT | Errno::NXIO | Errno::NODEV) => return Err(MountError::NoDevice),
        Err(error) => error,
        Ok(device) => match mount_here(&device, folder, is_for_all) {
            Ok(()) => return Ok(mounted(device)),
            Err(Errno::PERM) => Errno::PERM,
            Err(error) => return Err(MountError::Mount(error.into())),
        },
    };
    helper::mount(folder, is_for_all, refused.into()).map(mounted)
}

fn mount_here(device: &OwnedFd, folder: &Path, is_for_all: bool) -> Result<(), Errno> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let mut options =
        format!("fd={},rootmode=40000,user_id={user},group_id={group}", device.as_raw_fd());
    if is_for_all {
        options += ",allow_other,default_permissions";
    }
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount(SOURCE, folder, KIND, flags, options.as_c_str())
}

/// Takes the mount at a folder away, for new uses at once; files that are open go on while their server
/// lives.
///
/// # Errors
/// Nothing is mounted there, or this user may not.
pub fn unmount(folder: &Path) -> io::Result<()> {
    match rustix::mount::unmount(folder, UnmountFlags::DETACH) {
        Err(Errno::PERM) => helper::unmount(folder),
        done => Ok(done?),
    }
}
