//! Calls that give files further names, or others: symlink, link, rename.

use std::os::fd::OwnedFd;

use heliostat_base::sys::Errno;
use rustix::fs::{AtFlags, RenameFlags};

use super::name::{creatable, free_to_move, not_there, special, there};
use crate::call::{Answer, Call, DONE};
use crate::errno::errno;
use crate::paths::{self, Found, Last, Object, Start};
use crate::proc::own_name;

/// symlinkat(2): its text is argument 0, and whatever it says, it is walked as the program's.
pub fn symlink(call: &Call<'_>, descriptor: i32, place: usize) -> Answer {
    let (text, path) = (call.path(0)?, call.path(place)?);
    if text.is_empty() {
        return Err(Errno(libc::ENOENT));
    }
    let found = creatable(call, descriptor, &path)?;
    not_there(&found)?;
    found.writable()?;
    call.check()?;
    rustix::fs::symlinkat(text.as_slice(), &found.folder, found.name.as_c_str()).map_err(errno)?;
    DONE
}

/// linkat(2). Both ends must be granted for writing: a second name in a grant for writing would
/// open a file that is granted for reading only.
pub fn link(call: &Call<'_>, from: (i32, usize), to: (i32, usize), flags: i32) -> Answer {
    if flags & !(libc::AT_EMPTY_PATH | libc::AT_SYMLINK_FOLLOW) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let (old, new) = (call.path(from.1)?, call.path(to.1)?);
    if old.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
        return link_own(call, from.0, to.0, &new);
    }
    let last = if flags & libc::AT_SYMLINK_FOLLOW != 0 { Last::Follow } else { Last::Keep };
    let found = call.find(from.0, &old, last)?;
    if let Object::Descriptor { process, number } = found.object {
        let target = creatable(call, to.0, &new)?;
        return link_nameless(
            call,
            paths::copied(&call.supervisor.roots, &found, (process, number))?,
            &target,
        );
    }
    // Before the new name is looked at.
    rustix::fs::statat(&found.folder, found.name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(errno)?;
    let target = creatable(call, to.0, &new)?;
    not_there(&target)?;
    target.writable()?;
    found.writable().map_err(|_| Errno(libc::EXDEV))?;
    call.supervisor.roots.describable(&found.path).map_err(|_| Errno(libc::EXDEV))?;
    call.check()?;
    let (folder, name) = (&found.folder, found.name.as_c_str());
    let flags = AtFlags::empty();
    rustix::fs::linkat(folder, name, &target.folder, target.name.as_c_str(), flags)
        .map_err(errno)?;
    DONE
}

/// A file that was made without a name (O_TMPFILE) gets one.
fn link_nameless(call: &Call<'_>, fd: OwnedFd, target: &Found) -> Answer {
    target.writable()?;
    // Judged anew: it is this copy that gets a name, and what has one, here or outside, is not
    // the program's to name.
    let held = Start::from(&call.supervisor.roots, fd);
    let is_nameless = held.path.is_none() && !held.is_hidden;
    if !is_nameless || !call.supervisor.roots.may_change_removed(&held.fd) {
        return Err(Errno(libc::EXDEV));
    }
    call.check()?;
    let own = own_name(&held.fd);
    let here = rustix::fs::CWD;
    let follow = AtFlags::SYMLINK_FOLLOW;
    rustix::fs::linkat(here, own, &target.folder, target.name.as_c_str(), follow).map_err(errno)?;
    DONE
}

/// A descriptor's own file gets a further name, as with the capability for it that the
/// supervisor may have and sealed programs do not (CAP_DAC_READ_SEARCH).
fn link_own(call: &Call<'_>, descriptor: i32, folder: i32, new: &[u8]) -> Answer {
    let start = Start::of(&call.supervisor.roots, call.thread(), descriptor)?;
    let target = creatable(call, folder, new)?;
    let Some(path) = start.path.clone() else {
        let copy = paths::copy(&call.supervisor.roots, call.thread(), descriptor)?;
        return link_nameless(call, copy, &target);
    };
    not_there(&target)?;
    target.writable()?;
    call.describable(&start, &path).map_err(|_| Errno(libc::EXDEV))?;
    call.check()?;
    let (empty, name) = (AtFlags::EMPTY_PATH, target.name.as_c_str());
    rustix::fs::linkat(&start.fd, "", &target.folder, name, empty).map_err(errno)?;
    DONE
}

/// renameat2(2).
pub fn rename(call: &Call<'_>, from: (i32, usize), to: (i32, usize), flags: u64) -> Answer {
    let flags = RenameFlags::from_bits(flags as u32).ok_or(Errno(libc::EINVAL))?;
    let keeps_both = RenameFlags::NOREPLACE | RenameFlags::WHITEOUT;
    if flags.contains(RenameFlags::EXCHANGE) && flags.intersects(keeps_both) {
        return Err(Errno(libc::EINVAL));
    }
    if flags.contains(RenameFlags::WHITEOUT) {
        return Err(Errno(libc::EPERM));
    }
    let (old, new) = (call.path(from.1)?, call.path(to.1)?);
    let (of_old, of_new) = (special(call, from.0, &old)?, special(call, to.0, &new)?);
    if of_old.is_some() || of_new.is_some() {
        let exists = of_old.is_none() && flags.contains(RenameFlags::NOREPLACE);
        return Err(Errno(if exists { libc::EEXIST } else { libc::EBUSY }));
    }
    let found = call.find_changeable(from.0, &old)?;
    let target = call.find_changeable(to.0, &new)?;
    if is_of_proc(&found) != is_of_proc(&target) {
        return Err(Errno(libc::EXDEV));
    }
    there(&found)?;
    found.writable()?;
    target.writable()?;
    for end in [&found, &target] {
        if end.object == Object::Plain {
            free_to_move(call, end)?;
        }
    }
    call.check()?;
    let (folder, name) = (&found.folder, found.name.as_c_str());
    let to = target.name.as_c_str();
    rustix::fs::renameat_with(folder, name, &target.folder, to, flags).map_err(errno)?;
    DONE
}

/// Whether a name lies on the file system of /proc.
fn is_of_proc(found: &Found) -> bool {
    found.path.parent().is_some_and(|folder| folder.starts_with("/proc"))
}
