//! What a traced program asks for by path: each call that the filter hands over, before its answer.
//!
//! A traced program is granted everything, so that one run shows all it needs. What is made or
//! removed is asked of the folder.

use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use heliostat_base::sys::Sysno;
use heliostat_control::policy::record::Ask;
use heliostat_control::policy::Access;
use rustix::fs::OFlags;

use crate::call::Call;
use crate::paths::{writes, Start};
use crate::spaces::OWN_PLACES;

/// What a call does with one of its paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// Looks at it, if there is something: whether it is there, its attributes, where a link leads.
    Look,
    /// Reads it, or runs it, if there is something.
    Read,
    /// Changes what is there.
    Change,
    /// Changes which names its folder has.
    Name,
    /// Opens it, with flags.
    Open(OFlags),
}

/// Takes down what a call asks for by path.
pub fn note(call: &Call<'_>) {
    for (descriptor, place, what) in uses(call) {
        let Ok(path) = call.path(place) else { continue };
        let Some(path) = host_path(call, descriptor, &path) else { continue };
        note_path(call, &path, what);
    }
}

fn note_path(call: &Call<'_>, path: &Path, what: Use) {
    let there = std::fs::metadata(path);
    let folder = path.parent().unwrap_or(path);
    match (what, &there) {
        (Use::Name, _) => ask(call, Ask::Path(&real(folder), Access::ReadWrite)),
        (Use::Open(flags), Err(_)) if flags.intersects(OFlags::CREATE) => {
            ask(call, Ask::Path(&real(folder), Access::ReadWrite));
        }
        (_, Err(_)) => {}
        (Use::Open(flags), Ok(_)) if writes(flags) => {
            ask(call, Ask::Path(&real(path), Access::ReadWrite));
        }
        (Use::Change, Ok(_)) => ask(call, Ask::Path(&real(path), Access::ReadWrite)),
        (Use::Look, Ok(_)) => ask(call, Ask::Path(&real(path), Access::Stat)),
        (Use::Open(flags), Ok(_)) if flags.contains(OFlags::PATH) => {
            ask(call, Ask::Path(&real(path), Access::Stat));
        }
        (_, Ok(found)) if found.is_dir() => ask(call, Ask::Folder(&real(path))),
        (_, Ok(_)) => ask(call, Ask::Path(&real(path), Access::ReadOnly)),
    }
}

fn ask(call: &Call<'_>, ask: Ask<'_>) {
    let (Ask::Path(path, _) | Ask::Folder(path)) = ask else { return };
    // Of these, what a program may have is settled without grants.
    if !path.starts_with("/proc") && !is_temporary(path, call.supervisor.begun) {
        call.note_ask(ask, true);
    }
}

/// Whether a path lies in what is the program's own when it is sealed: a folder for temporary files
/// itself, or what was made there since the program began.
fn is_temporary(path: &Path, begun: SystemTime) -> bool {
    let below = OWN_PLACES.iter().find_map(|place| Some((place, path.strip_prefix(place).ok()?)));
    let Some((place, below)) = below else { return false };
    let Some(first) = below.components().next() else { return true };
    let born = std::fs::symlink_metadata(Path::new(place).join(first)).and_then(|it| it.created());
    born.is_ok_and(|born| born >= begun)
}

/// The grants that count are those of resolved paths.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn host_path(call: &Call<'_>, descriptor: i32, path: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    if path.as_os_str().is_empty() {
        return None;
    }
    let whole = match path.is_absolute() {
        true => path.to_owned(),
        false => {
            Start::of(&call.supervisor.roots, call.thread(), descriptor).ok()?.path?.join(path)
        }
    };
    // A name that ends in ".." has no folder of its own.
    let is_plain = !matches!(whole.components().next_back(), Some(Component::ParentDir));
    if is_plain {
        Some(whole)
    } else {
        whole.canonicalize().ok()
    }
}

/// (descriptor, place of the path, what is done with it) for each path of a call.
fn uses(call: &Call<'_>) -> Vec<(i32, usize, Use)> {
    const HERE: i32 = libc::AT_FDCWD;
    let at = |place| call.int(place);
    match call.number {
        Sysno::open | Sysno::openat | Sysno::openat2 | Sysno::creat => opened(call),
        Sysno::rename => vec![(HERE, 0, Use::Name), (HERE, 1, Use::Name)],
        Sysno::renameat | Sysno::renameat2 => vec![(at(0), 1, Use::Name), (at(2), 3, Use::Name)],
        Sysno::link => vec![(HERE, 0, Use::Change), (HERE, 1, Use::Name)],
        Sysno::linkat => vec![(at(0), 1, Use::Change), (at(2), 3, Use::Name)],
        Sysno::symlink => vec![(HERE, 1, Use::Name)],
        Sysno::symlinkat => vec![(at(1), 2, Use::Name)],
        Sysno::inotify_add_watch => vec![(HERE, 1, Use::Read)],
        number => {
            let here = of_first(number).map(|of| (HERE, 0, of));
            let there = of_second(number).map(|of| (at(0), 1, of));
            here.or(there).into_iter().collect()
        }
    }
}

/// The same of a call that opens.
fn opened(call: &Call<'_>) -> Vec<(i32, usize, Use)> {
    const HERE: i32 = libc::AT_FDCWD;
    let flags = |bits: i32| Use::Open(OFlags::from_bits_retain(bits as u32));
    match call.number {
        Sysno::open => vec![(HERE, 0, flags(call.int(1)))],
        Sysno::openat => vec![(call.int(0), 1, flags(call.int(2)))],
        Sysno::creat => vec![(HERE, 0, Use::Open(OFlags::CREATE | OFlags::WRONLY))],
        _ => {
            let mut how = [0; 8];
            let known = call.read(2, &mut how).is_ok();
            let of = flags(u64::from_ne_bytes(how) as i32);
            known.then_some((call.int(0), 1, of)).into_iter().collect()
        }
    }
}

/// What is done with the path that is a call's first argument.
fn of_first(number: Sysno) -> Option<Use> {
    Some(match number {
        Sysno::stat
        | Sysno::lstat
        | Sysno::access
        | Sysno::readlink
        | Sysno::chdir
        | Sysno::statfs
        | Sysno::getxattr
        | Sysno::lgetxattr
        | Sysno::listxattr
        | Sysno::llistxattr => Use::Look,
        Sysno::execve => Use::Read,
        Sysno::chmod
        | Sysno::chown
        | Sysno::lchown
        | Sysno::truncate
        | Sysno::utime
        | Sysno::utimes
        | Sysno::setxattr
        | Sysno::lsetxattr
        | Sysno::removexattr
        | Sysno::lremovexattr => Use::Change,
        Sysno::mkdir | Sysno::rmdir | Sysno::unlink | Sysno::mknod => Use::Name,
        _ => return None,
    })
}

/// What is done with the path that is a call's second argument, below the descriptor before it.
fn of_second(number: Sysno) -> Option<Use> {
    Some(match number {
        Sysno::newfstatat
        | Sysno::statx
        | Sysno::faccessat
        | Sysno::faccessat2
        | Sysno::readlinkat => Use::Look,
        Sysno::execveat => Use::Read,
        Sysno::fchmodat
        | Sysno::fchmodat2
        | Sysno::fchownat
        | Sysno::utimensat
        | Sysno::futimesat => Use::Change,
        Sysno::mkdirat | Sysno::unlinkat | Sysno::mknodat => Use::Name,
        _ => return None,
    })
}
