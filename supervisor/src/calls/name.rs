//! Calls that make and remove names: mkdir, mknod, rmdir, unlink.

use heliostat_backend_seal::status;
use heliostat_base::sys::Errno;
use rustix::fs::{AtFlags, FileType, Mode};

use crate::call::{Answer, Call, DONE};
use crate::errno::errno;
use crate::paths::{Found, Last, Object};

/// Last components that are no names, and so cannot be made, removed or moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Special {
    /// Slashes and nothing else.
    Top,
    /// `.`
    Here,
    /// `..`
    Above,
}

/// What a path ends in, if that is no name; what comes before has to be a directory.
///
/// # Errors
/// Those of a walk to that directory.
pub fn special(call: &Call<'_>, descriptor: i32, path: &[u8]) -> Result<Option<Special>, Errno> {
    let (kind, before) = match ending(path) {
        None => return Ok(None),
        Some((Special::Top, _)) => return Ok(Some(Special::Top)),
        Some(found) => found,
    };
    let (fd, _) = call.look(descriptor, before, Last::Follow)?;
    let mode = rustix::fs::fstat(&fd).map_err(errno)?.st_mode;
    match FileType::from_raw_mode(mode) {
        FileType::Directory => Ok(Some(kind)),
        _ => Err(Errno(libc::ENOTDIR)),
    }
}

/// What a path ends in, if that is no name, and what comes before.
pub fn ending(path: &[u8]) -> Option<(Special, &[u8])> {
    let slashes = path.iter().rev().take_while(|byte| **byte == b'/').count();
    let bare = &path[..path.len() - slashes];
    let begin = bare.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let before = if begin == 0 { b"./" } else { &bare[..begin] };
    match &bare[begin..] {
        b"" if path.is_empty() => None,
        b"" => Some((Special::Top, before)),
        b"." => Some((Special::Here, before)),
        b".." => Some((Special::Above, before)),
        _ => None,
    }
}

/// As `Call::find_changeable`, for a name that is to be made: EEXIST for what is none.
pub fn creatable(call: &Call<'_>, descriptor: i32, path: &[u8]) -> Result<Found, Errno> {
    match special(call, descriptor, path)? {
        Some(_) => Err(Errno(libc::EEXIST)),
        None => call.find_changeable(descriptor, path),
    }
}

/// EBUSY for what is, or holds, the root of a grant: it would be moved out of what decides
/// about it, as a mount would be.
pub fn free_to_move(call: &Call<'_>, found: &Found) -> Result<(), Errno> {
    let roots = call.supervisor.roots.all();
    match roots.iter().any(|root| root.path.starts_with(&found.path)) {
        true => Err(Errno(libc::EBUSY)),
        false => Ok(()),
    }
}

/// mkdirat(2).
pub fn mkdir(call: &Call<'_>, descriptor: i32, place: usize) -> Answer {
    let path = call.path(place)?;
    let found = creatable(call, descriptor, &path)?;
    not_there(&found)?;
    found.writable()?;
    let mode = Mode::from_raw_mode(call.word(place + 1) as u32 & 0o1777 & !call.umask());
    call.check()?;
    rustix::fs::mkdirat(&found.folder, found.name.as_c_str(), mode).map_err(errno)?;
    DONE
}

/// mknodat(2): files, FIFOs and sockets, never devices.
pub fn mknod(call: &Call<'_>, descriptor: i32, place: usize) -> Answer {
    let mode = call.word(place + 1) as u32;
    let kind = match mode & libc::S_IFMT {
        0 | libc::S_IFREG => FileType::RegularFile,
        libc::S_IFIFO => FileType::Fifo,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharacterDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        libc::S_IFDIR => return Err(Errno(libc::EPERM)),
        _ => return Err(Errno(libc::EINVAL)),
    };
    let path = call.path(place)?;
    let found = creatable(call, descriptor, &path)?;
    not_there(&found)?;
    found.writable()?;
    if matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) {
        return Err(no_device(call, &found));
    }
    let mode = call.new_mode(place + 1);
    call.check()?;
    rustix::fs::mknodat(&found.folder, found.name.as_c_str(), kind, mode, 0).map_err(errno)?;
    DONE
}

/// The error of making a device: EPERM, after those that the kernel finds first, of a name that is
/// there or too long, of slashes after it, and of a folder in which nothing may be made.
fn no_device(call: &Call<'_>, found: &Found) -> Errno {
    let whole = found.name.to_bytes();
    let slashes = whole.iter().rev().take_while(|byte| **byte == b'/').count();
    let name = &whole[..whole.len() - slashes];
    match rustix::fs::statat(&found.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => return Errno(libc::EEXIST),
        Err(rustix::io::Errno::NOENT) if slashes == 0 => {}
        Err(error) => return errno(error),
    }
    if let Err(error) = status::access(&found.folder, libc::W_OK | libc::X_OK, true) {
        return error;
    }
    call.note_call("devices are not made by sealed programs");
    Errno(libc::EPERM)
}

/// unlinkat(2), rmdir(2).
pub fn unlink(call: &Call<'_>, descriptor: i32, place: usize, flags: i32) -> Answer {
    if flags & !libc::AT_REMOVEDIR != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let path = call.path(place)?;
    match special(call, descriptor, &path)? {
        Some(_) if flags == 0 => return Err(Errno(libc::EISDIR)),
        Some(Special::Top) => return Err(Errno(libc::EBUSY)),
        Some(Special::Here) => return Err(Errno(libc::EINVAL)),
        Some(Special::Above) => return Err(Errno(libc::ENOTEMPTY)),
        None => {}
    }
    let found = call.find_changeable(descriptor, &path)?;
    there(&found)?;
    found.writable()?;
    if found.object == Object::Plain {
        free_to_move(call, &found)?;
    }
    call.check()?;
    let flags = AtFlags::from_bits_retain(flags as u32);
    rustix::fs::unlinkat(&found.folder, found.name.as_c_str(), flags).map_err(errno)?;
    DONE
}

/// EEXIST comes before EROFS.
pub fn not_there(found: &Found) -> Result<(), Errno> {
    if found.writable().is_ok() {
        // The kernel says so itself.
        return Ok(());
    }
    match there(found) {
        Ok(()) => Err(Errno(libc::EEXIST)),
        Err(Errno(libc::ENOENT)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// ENOENT comes before EROFS.
pub fn there(found: &Found) -> Result<(), Errno> {
    if found.writable().is_ok() {
        return Ok(());
    }
    let name = found.name.as_c_str();
    rustix::fs::statat(&found.folder, name, AtFlags::SYMLINK_NOFOLLOW).map(drop).map_err(errno)
}
