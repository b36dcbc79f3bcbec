//! Calls that give files further names, or others: symlink, link, rename.

use heliostat_base::sys::Errno;
use rustix::fs::{AtFlags, RenameFlags};

use super::name::{changeable, free_to_move, not_there, there};
use crate::call::{own_name, Answer, Call, Last, DONE};
use crate::paths::{errno, Found, Object, Start};

/// symlinkat(2): its text is argument 0, and whatever it says, it is walked as the program's.
pub fn symlink(call: &Call<'_>, descriptor: i32, place: usize) -> Answer {
    let (text, path) = (call.path(0)?, call.path(place)?);
    if text.is_empty() {
        return Err(Errno(libc::ENOENT));
    }
    let found = changeable(call, descriptor, &path)?;
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
    let target = changeable(call, to.0, &new)?;
    if let Object::Descriptor { process, number } = found.object {
        return link_nameless(call, process, number, &target);
    }
    there(&found)?;
    not_there(&target)?;
    target.writable()?;
    found.writable().map_err(|_| Errno(libc::EXDEV))?;
    call.check()?;
    let (folder, name) = (&found.folder, found.name.as_c_str());
    let flags = AtFlags::empty();
    rustix::fs::linkat(folder, name, &target.folder, target.name.as_c_str(), flags)
        .map_err(errno)?;
    DONE
}

/// A file that was made without a name (O_TMPFILE) gets one.
fn link_nameless(call: &Call<'_>, process: i32, number: i32, target: &Found) -> Answer {
    target.writable()?;
    let fd = heliostat_base::seal::descriptor_of(process, number)?;
    let flags = rustix::fs::fcntl_getfl(&fd).map_err(errno)?;
    if !flags.intersects(rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::RDWR) {
        return Err(Errno(libc::EXDEV));
    }
    call.check()?;
    let own = own_name(&fd.into());
    let here = rustix::fs::CWD;
    let follow = AtFlags::SYMLINK_FOLLOW;
    rustix::fs::linkat(here, own, &target.folder, target.name.as_c_str(), follow).map_err(errno)?;
    DONE
}

fn link_own(call: &Call<'_>, descriptor: i32, folder: i32, new: &[u8]) -> Answer {
    let start = Start::of(&call.house.roots, call.thread(), descriptor)?;
    let target = changeable(call, folder, new)?;
    match start.path {
        None => link_nameless(call, call.thread(), descriptor, &target),
        // Needs a capability that sealed programs do not have (CAP_DAC_READ_SEARCH).
        Some(_) => Err(Errno(libc::ENOENT)),
    }
}

/// renameat2(2).
pub fn rename(call: &Call<'_>, from: (i32, usize), to: (i32, usize), flags: u64) -> Answer {
    let flags = RenameFlags::from_bits(flags as u32).ok_or(Errno(libc::EINVAL))?;
    if flags.contains(RenameFlags::WHITEOUT) {
        return Err(Errno(libc::EPERM));
    }
    let (old, new) = (call.path(from.1)?, call.path(to.1)?);
    let found = changeable(call, from.0, &old)?;
    let target = changeable(call, to.0, &new)?;
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
