//! fusermount3, which mounts for users who may not: it belongs to root and is set-user-id.
//!
//! It mounts, and sends the device through the socket whose number `_FUSE_COMMFD` says.

use std::ffi::OsStr;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::{fcntl_setfd, FdFlags};
use rustix::net::{recvmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use crate::{MountError, SOURCE};

/// The program.
const HELPER: &str = "fusermount3";
/// Where it is, if PATH does not say.
const USUAL: &str = "/usr/bin:/bin:/usr/local/bin";
/// The variable that tells it where to send the device.
const SOCKET: &str = "_FUSE_COMMFD";
/// How long it may take; it asks nobody but the kernel.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns where fusermount3 is, if it is anywhere.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(std::env::split_paths(OsStr::new(USUAL)));
    folders.map(|folder| folder.join(HELPER)).find(|file| file.is_file())
}

/// Has it mount at a folder, since this process may not (`refused`).
pub(crate) fn mount(
    folder: &Path,
    is_for_all: bool,
    refused: io::Error,
) -> Result<OwnedFd, MountError> {
    let Some(program) = find() else { return Err(MountError::NoHelper(refused)) };
    let failed = MountError::Mount;
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    // The one descriptor that it is to have.
    fcntl_setfd(&theirs, FdFlags::empty()).map_err(|error| failed(error.into()))?;
    let for_all = if is_for_all { ",allow_other,default_permissions" } else { "" };
    let options = format!("nosuid,nodev,noexec,fsname={SOURCE},subtype={SOURCE}{for_all}");
    let mut command = Command::new(program);
    command.args(["-o", options.as_str(), "--"]).arg(folder);
    command.env(SOCKET, theirs.as_raw_fd().to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().map_err(failed)?;
    drop(theirs);
    ours.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let device = receive(&ours);
    let output = child.wait_with_output().map_err(failed)?;
    match device {
        Ok(Some(device)) if output.status.success() => Ok(device),
        Err(error) => Err(failed(error)),
        Ok(_) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(MountError::Helper(said.trim().to_owned()))
        }
    }
}

/// The descriptor that it sends; none where it ends without.
fn receive(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(descriptors.last())
}

/// Has it take the mount at a folder away.
pub(crate) fn unmount(folder: &Path) -> io::Result<()> {
    let program = find().ok_or(io::ErrorKind::PermissionDenied)?;
    let mut command = Command::new(program);
    command.args(["-u", "-z", "--"]).arg(folder).stdin(Stdio::null());
    let output = command.output()?;
    let said = || io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    output.status.success().then_some(()).ok_or_else(said)
}
