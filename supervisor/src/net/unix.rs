//! Unix sockets with paths: inside what is granted for writing, by the rules of paths.
//!
//! A connection is made to the very socket that the walk found. A socket is made under the name
//! that the program gave, since getsockname(2) repeats it: the kernel walks that name again, in
//! a thread that Landlock lets make sockets in the folder that was found, and below, wherever a
//! link that changed meanwhile leads.

use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;

use heliostat_backend_seal as seal;
use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;
use landlock::{
    AccessFs, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr,
};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::net::SocketAddrUnix;

use super::socket::Socket;
use crate::call::Call;
use crate::errno::errno;
use crate::paths::{Found, Last};
use crate::proc::own_name;

/// The socket at a path, held open, and a name by which this process reaches it.
pub fn destination(call: &Call<'_>, path: &[u8]) -> Result<(OwnedFd, SocketAddrUnix), Errno> {
    let found = call.find(libc::AT_FDCWD, path, Last::Follow)?;
    let held = call.open_found(&found, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
    if found.access != Some(Access::ReadWrite) {
        call.note_path(&found.path, Access::ReadWrite);
        return Err(Errno(libc::EACCES));
    }
    call.check()?;
    let name = SocketAddrUnix::new(own_name(&held)).map_err(errno)?;
    Ok((held, name))
}

/// bind(2) to a path: EADDRINUSE if something is there, EROFS where only reading is granted.
pub fn bind(call: &Call<'_>, socket: &Socket, path: &[u8]) -> Result<(), Errno> {
    let found = call.find_changeable(libc::AT_FDCWD, path)?;
    let there = rustix::fs::statat(&found.folder, &found.name, AtFlags::SYMLINK_NOFOLLOW);
    if there.is_ok() {
        return Err(Errno(libc::EADDRINUSE));
    }
    found.writable()?;
    let start = call.start(libc::AT_FDCWD, path)?;
    let asked = CString::new(path).map_err(|_| Errno(libc::EINVAL))?;
    let umask = Mode::from_raw_mode(call.umask());
    call.check()?;
    let (folder, guarded) = (start.as_ref().map(|start| &*start.fd), has_guarded(call, &found));
    std::thread::scope(|scope| {
        let made = scope.spawn(|| match seal::leave_shared_folder() {
            Ok(()) => {
                if let Some(folder) = folder {
                    rustix::process::fchdir(folder).map_err(errno)?;
                }
                rustix::process::umask(umask);
                fence(&found.folder)?;
                make(socket, &asked, &found, guarded)
            }
            Err(_) => {
                fence(&found.folder)?;
                in_shared_folder(socket, folder, umask, || make(socket, &asked, &found, guarded))
            }
        });
        made.join().unwrap_or(Err(Errno(libc::EIO)))
    })
}

/// Where a thread gets no working folder of its own (unshare(2) is refused in containers), all
/// threads stand in the program's for a moment: none of them uses a relative name, and one at a time
/// comes here. The mask stays; the new name takes its mode from the socket instead.
fn in_shared_folder(
    socket: &Socket,
    folder: Option<&OwnedFd>,
    umask: Mode,
    make: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Errno> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let all = Mode::from_raw_mode(0o777);
    let before = rustix::fs::fstat(&socket.fd).map_err(errno)?.st_mode & 0o7777;
    rustix::fs::fchmod(&socket.fd, all.difference(umask)).map_err(errno)?;
    let made = folder.map_or(Ok(()), |folder| rustix::process::fchdir(folder).map_err(errno));
    let made = made.and_then(|()| make());
    let _ = rustix::fs::fchmod(&socket.fd, Mode::from_raw_mode(before));
    if folder.is_some() {
        let _ = rustix::process::chdir("/");
    }
    made
}

/// Makes the socket by its name, or where that leads elsewhere for this process (/proc/self), or
/// may lead into a part that is guarded, in the folder that is held.
fn make(socket: &Socket, asked: &CString, found: &Found, has_guarded: bool) -> Result<(), Errno> {
    let bind = |name: rustix::io::Result<SocketAddrUnix>| {
        rustix::net::bind(&socket.fd, &name.map_err(errno)?).map_err(errno)
    };
    if !has_guarded && bind(SocketAddrUnix::new(asked.as_c_str())).is_ok() {
        return Ok(());
    }
    let name = OsStr::from_bytes(found.name.as_bytes());
    bind(SocketAddrUnix::new(own_name(&found.folder).join(name)))
}

/// Whether a grant for reading lies below the folder in which a name is to be made.
fn has_guarded(call: &Call<'_>, found: &Found) -> bool {
    let folder = found.path.parent().unwrap_or(&found.path);
    let mut guarded =
        call.supervisor.roots.all().iter().filter(|root| root.access != Access::ReadWrite);
    guarded.any(|root| root.path.starts_with(folder))
}

/// Lets this thread make sockets in and below one folder only.
fn fence(folder: &OwnedFd) -> Result<(), Errno> {
    let refused = |_| Errno(libc::EACCES);
    rustix::thread::set_no_new_privs(true).map_err(errno)?;
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::MakeSock)
        .map_err(refused)?
        .create()
        .and_then(|rules| rules.add_rule(PathBeneath::new(folder, AccessFs::MakeSock)))
        .and_then(|rules| rules.restrict_self())
        .map(drop)
        .map_err(refused)
}
