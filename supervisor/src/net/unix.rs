//! Unix sockets with paths: inside what is granted for writing, by the rules of paths.
//!
//! A connection is made to the very socket that the walk found. A socket is made under the name
//! that the program gave, since getsockname(2) repeats it: the kernel walks that name again, in
//! a thread that Landlock lets make sockets below writable grants only, wherever a link that
//! changed meanwhile leads.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use heliostat_base::seal;
use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;
use landlock::{
    AccessFs, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr,
};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::net::SocketAddrUnix;

use super::socket::Socket;
use crate::call::{own_name, Call, Last};
use crate::calls::changeable;
use crate::paths::errno;

/// The socket at a path, held open, and a name by which this process reaches it.
pub fn destination(call: &Call<'_>, path: &[u8]) -> Result<(OwnedFd, SocketAddrUnix), Errno> {
    let found = call.find(libc::AT_FDCWD, path, Last::Follow)?;
    let held = call.open_found(&found, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
    if found.access != Some(Access::ReadWrite) {
        call.house.note_path(call, path, true);
        return Err(Errno(libc::EACCES));
    }
    call.check()?;
    let name = SocketAddrUnix::new(own_name(&held)).map_err(errno)?;
    Ok((held, name))
}

/// bind(2) to a path: EADDRINUSE if something is there, EROFS where only reading is granted.
pub fn bind(call: &Call<'_>, socket: &Socket, path: &[u8]) -> Result<(), Errno> {
    let found = changeable(call, libc::AT_FDCWD, path)?;
    let there = rustix::fs::statat(&found.folder, &found.name, AtFlags::SYMLINK_NOFOLLOW);
    if there.is_ok() {
        return Err(Errno(libc::EADDRINUSE));
    }
    found.writable()?;
    let start = call.start(libc::AT_FDCWD, path)?;
    let name = CString::new(path).map_err(|_| Errno(libc::EINVAL))?;
    let name = SocketAddrUnix::new(name.as_c_str()).map_err(errno)?;
    let umask = Mode::from_raw_mode(call.umask());
    call.check()?;
    std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            seal::leave_shared_folder()?;
            if let Some(start) = &start {
                rustix::process::fchdir(&start.fd).map_err(errno)?;
            }
            rustix::process::umask(umask);
            fence(call)?;
            rustix::net::bind(&socket.fd, &name).map_err(errno)
        });
        made.join().unwrap_or(Err(Errno(libc::EIO)))
    })
}

/// Lets this thread make sockets below writable grants only.
fn fence(call: &Call<'_>) -> Result<(), Errno> {
    let refused = |_| Errno(libc::EACCES);
    rustix::thread::set_no_new_privs(true).map_err(errno)?;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::MakeSock)
        .map_err(|_| Errno(libc::EACCES))?
        .create()
        .map_err(refused)?;
    let roots = call.house.roots.all().iter();
    for root in roots.filter(|root| root.is_folder && root.access == Access::ReadWrite) {
        let beneath = PathBeneath::new(&root.folder, AccessFs::MakeSock);
        rules = rules.add_rule(beneath).map_err(refused)?;
    }
    rules.restrict_self().map(drop).map_err(refused)
}
