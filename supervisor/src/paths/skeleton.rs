//! Empty directories that lead to the grants, so that programs can look at what leads to them.
//!
//! A private folder of the host holds them: one per ancestor of a grant, an empty file or folder
//! in a grant's own place, and the host's symbolic links that stand before a grant (`/bin`). It
//! is only ever read, and removed at the end.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Once;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, ResolveFlags};

/// How a supervisor's folder begins; its process's number follows, and one of `PLACES_MAX`.
const PREFIX: &str = "heliostat-sealed-";
/// How the name of the folder beside it goes on.
const OWN: &str = "-tmp";
/// Folders of one process's number: other pid namespaces have the same numbers.
const PLACES_MAX: usize = 64;

/// Modes of what is made, whatever this process takes from them at that moment (umask(2)).
const OF_FOLDERS: u32 = 0o755;
const OF_FILES: u32 = 0o644;

/// Something that leads to a grant.
#[derive(Debug)]
enum Part {
    Folder(PathBuf),
    File(PathBuf),
    /// A symbolic link and its text.
    Link(PathBuf, PathBuf),
}

/// The folder; dropping it removes it. What is in it is made when somebody looks at it first, which
/// most short programs never do.
#[derive(Debug)]
pub struct Skeleton {
    place: PathBuf,
    top: OwnedFd,
    parts: Vec<Part>,
    is_made: Once,
    /// Held as long as this supervisor lives: who can take it may remove the folder.
    _claim: OwnedFd,
}

impl Skeleton {
    /// Makes an empty one in `folder`, which is private to this user.
    pub fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        remove_left_behind(folder);
        let (place, claim) = claim_one(&folder.canonicalize()?)?;
        let top = open_below(&claim, Path::new("."), OFlags::PATH)?;
        let parts = vec![Part::Folder(PathBuf::from("/proc"))];
        Ok(Self { place, top, parts, is_made: Once::new(), _claim: claim })
    }

    /// Where it lies on the host.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// A directory and what leads to it.
    pub fn folder(&mut self, path: &Path) {
        self.parts.push(Part::Folder(path.to_owned()));
    }

    /// An empty file and what leads to it.
    pub fn file(&mut self, path: &Path) {
        self.parts.push(Part::File(path.to_owned()));
    }

    /// A symbolic link as the host has it, and what leads to it.
    pub fn link(&mut self, path: &Path, text: &Path) {
        self.parts.push(Part::Link(path.to_owned(), text.to_owned()));
    }

    /// Makes all parts. What cannot be made is not there.
    fn make(&self) {
        let mut made = HashMap::new();
        for part in &self.parts {
            let _ = match part {
                Part::Folder(path) => self.make_folder(&mut made, path).map(drop),
                Part::File(path) => {
                    self.inside(&mut made, path).and_then(|(above, name)| make_file(&above, name))
                }
                Part::Link(path, text) => self
                    .inside(&mut made, path)
                    .and_then(|(above, name)| or_there(rustix::fs::symlinkat(text, &above, name))),
            };
        }
    }

    /// The directory in which a path of the program has its place, and its name there.
    fn inside<'a>(
        &self,
        made: &mut HashMap<&'a Path, Rc<OwnedFd>>,
        path: &'a Path,
    ) -> io::Result<(Rc<OwnedFd>, &'a OsStr)> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok((self.make_folder(made, above)?, name))
    }

    /// Makes a directory, and what leads to it, unless that was done.
    fn make_folder<'a>(
        &self,
        made: &mut HashMap<&'a Path, Rc<OwnedFd>>,
        path: &'a Path,
    ) -> io::Result<Rc<OwnedFd>> {
        if let Some(known) = made.get(path) {
            return Ok(known.clone());
        }
        let folder = match path.as_os_str() == "/" {
            true => self.top.try_clone()?,
            false => {
                let (above, name) = self.inside(made, path)?;
                let mode = Mode::from_raw_mode(OF_FOLDERS);
                or_there(rustix::fs::mkdirat(&above, name, mode))?;
                open_below(&above, Path::new(name), OFlags::PATH)?
            }
        };
        let folder = Rc::new(folder);
        made.insert(path, folder.clone());
        Ok(folder)
    }

    /// A folder beside it, for what the program keeps at `/tmp` where that cannot be memory of its
    /// own.
    pub fn own_folder(&self) -> io::Result<PathBuf> {
        let path = beside(&self.place);
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(path),
        }
    }

    /// Removes it from the host. Nothing of it is found any more.
    pub fn remove(&self) {
        let _ = fs::remove_dir_all(beside(&self.place));
        // Nothing is in it if nobody has looked.
        if fs::remove_dir(&self.place).is_err() {
            let _ = fs::remove_dir_all(&self.place);
        }
    }

    /// Makes the list of /proc: these processes, `others`, and nobody else. What cannot be made
    /// is not listed; a list that is being read changes under its reader, as that of proc(5).
    pub fn list_processes(&self, numbers: &[i32], others: &[&str]) -> io::Result<()> {
        let place = open_below(self.top(), Path::new("proc"), OFlags::RDONLY)?;
        let mut there = HashSet::new();
        for entry in rustix::fs::Dir::read_from(&place)?.flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            match name.parse::<i32>() {
                Ok(number) if !numbers.contains(&number) => {
                    let _ = rustix::fs::unlinkat(&place, name, AtFlags::REMOVEDIR);
                }
                _ => drop(there.insert(name.to_owned())),
            }
        }
        for number in numbers.iter().map(i32::to_string).filter(|name| !there.contains(name)) {
            let _ = rustix::fs::mkdirat(&place, number, Mode::from_raw_mode(OF_FOLDERS));
        }
        for name in others.iter().filter(|name| !there.contains(**name)) {
            make_file(&place, OsStr::new(name))?;
        }
        Ok(())
    }

    /// Its top, the program's `/`.
    pub fn top(&self) -> &OwnedFd {
        self.is_made.call_once(|| self.make());
        &self.top
    }

    /// The program's name of what lies in the skeleton at a path of the host.
    pub fn name_of(&self, host: &Path) -> Option<PathBuf> {
        // Byte by byte, as each name that is judged is compared with it.
        let place = self.place.as_os_str().as_bytes();
        let rest = host.as_os_str().as_bytes().strip_prefix(place)?;
        match rest {
            [] => Some(PathBuf::from("/")),
            [b'/', ..] => Some(PathBuf::from(OsStr::from_bytes(rest))),
            _ => None,
        }
    }
}

/// A directory below a held one, by no link: who may write where the skeleton lies puts none there
/// that leads elsewhere.
fn open_below(folder: &OwnedFd, path: &Path, how: OFlags) -> io::Result<OwnedFd> {
    let flags = how | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve)?)
}

/// An empty file, unless something is there.
fn make_file(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let new = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | new;
    or_there(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(OF_FILES)).map(drop))
}

/// What is there already need not be made.
fn or_there(made: rustix::io::Result<()>) -> io::Result<()> {
    match made {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        made => Ok(made?),
    }
}

impl Drop for Skeleton {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A folder in memory for the skeletons of this user, where a hundred folders are made in the time
/// of one on a disk; `None` where there is none, or where grants reach, which lead to `places`.
pub fn in_memory(places: &[PathBuf]) -> Option<PathBuf> {
    /// Source: linux/magic.h.
    const TMPFS: i64 = 0x0102_1994;
    const MEMORY: &str = "/dev/shm";
    let reaches = |path: &PathBuf| path.starts_with(MEMORY) || Path::new(MEMORY).starts_with(path);
    let is_tmpfs = rustix::fs::statfs(MEMORY).is_ok_and(|found| found.f_type == TMPFS);
    if !is_tmpfs || places.iter().any(reaches) {
        return None;
    }
    let user = rustix::process::geteuid().as_raw();
    let folder = Path::new(MEMORY).join(format!("heliostat-{user}"));
    let _ = fs::DirBuilder::new().mode(0o700).create(&folder);
    // Everybody may make names there.
    let found = fs::symlink_metadata(&folder).ok()?;
    let is_private = found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0;
    is_private.then_some(folder)
}

/// Makes a folder that nobody else has, and claims it.
fn claim_one(folder: &Path) -> io::Result<(PathBuf, OwnedFd)> {
    for number in 0..PLACES_MAX {
        let place = folder.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match fs::create_dir(&place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        // Whoever cleared up at this moment has it, or has removed it.
        match claim(&place) {
            Some(claim) if place.exists() => return Ok((place, claim)),
            _ => continue,
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The folder beside a supervisor's, which has it as long as its own.
fn beside(place: &Path) -> PathBuf {
    let mut name = place.as_os_str().to_owned();
    name.push(OWN);
    PathBuf::from(name)
}

/// The lock of a supervisor's folder; `None` if a supervisor that lives holds it.
fn claim(place: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(place, flags, Mode::empty()).ok()?;
    rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(folder)
}

/// Folders of supervisors that were killed. The folder may be one where a person keeps others.
fn remove_left_behind(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        // Held until it is gone.
        let claimed = is_a_place(&name).then(|| claim(&entry.path())).flatten();
        if claimed.is_some() {
            let _ = fs::remove_dir_all(beside(&entry.path()));
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a name is exactly as `claim_one` makes them.
fn is_a_place(name: &OsStr) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    let numbers = rest.and_then(|rest| rest.split_once('-'));
    numbers.is_some_and(|(process, place)| is_number(process) && is_number(place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_folders_that_nobody_claims_are_cleared_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let left = folder.path().join("heliostat-sealed-1-0");
        fs::create_dir_all(left.join("etc")).expect("what a killed supervisor left");
        let (one, other) = (Skeleton::new(folder.path()), Skeleton::new(folder.path()));
        let (one, other) = (one.expect("one"), other.expect("another"));
        assert!(!left.exists());
        assert!(one.place != other.place && one.place.exists() && other.place.exists());
        drop((one, other));
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn what_leads_to_grants_is_there_for_whoever_looks_at_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut skeleton = Skeleton::new(folder.path()).expect("a skeleton");
        skeleton.folder(Path::new("/srv/data"));
        skeleton.file(Path::new("/etc/hosts"));
        skeleton.link(Path::new("/bin"), Path::new("usr/bin"));
        let place = skeleton.place().to_owned();
        assert_eq!(fs::read_dir(&place).expect("its place").count(), 0, "nobody has looked");
        let top = PathBuf::from(format!("/proc/self/fd/{}", skeleton.top().as_raw_fd()));
        let found =
            |name: &str| top.join(name).symlink_metadata().expect(name).permissions().mode();
        assert_eq!(found("srv/data") & 0o7022, 0);
        assert_eq!(found("etc/hosts") & 0o7133, 0);
        assert_eq!(fs::read_link(top.join("bin")).expect("a link"), Path::new("usr/bin"));
        assert!(top.join("proc").is_dir());
        drop(skeleton);
        assert!(!place.exists());
    }

    #[test]
    fn what_a_person_keeps_beside_it_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = ["sealed-letters", "heliostat-sealed-notes", "heliostat-sealed-1-0-copy"];
        for name in names {
            fs::create_dir_all(folder.path().join(name).join("inner")).expect("a person's folder");
        }
        drop(Skeleton::new(folder.path()).expect("a skeleton"));
        for name in names {
            assert!(folder.path().join(name).join("inner").exists(), "{name}");
        }
    }

    #[test]
    fn a_grant_of_memory_keeps_the_skeleton_out_of_it() {
        for path in ["/dev/shm", "/dev", "/", "/dev/shm/some"] {
            assert_eq!(in_memory(&[PathBuf::from(path)]), None, "{path}");
        }
    }
}
