//! Where a relative path begins: the thread's working directory, or a descriptor it holds.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use heliostat_backend_seal as seal;
use heliostat_backend_seal::status::{self, STAT_BYTES};
use heliostat_base::sys::Errno;
use rustix::fs::{Mode, OFlags};

use super::here::HeldFolder;
use super::proc::is_proc;
use super::{host_path, host_path_of_folder, Roots};

use crate::acting::as_supervisor;
use crate::errno::errno;

/// A directory of the program's, or whatever its descriptor stands for.
#[derive(Debug)]
pub struct Start {
    /// Opened by path only.
    pub fd: Arc<OwnedFd>,
    /// Its name for the program; `None` if it has none: deleted, a pipe, a socket, or something
    /// that lies outside and was handed in as a descriptor.
    pub path: Option<PathBuf>,
    /// It lies where nothing is granted: the program holds it from outside.
    pub is_hidden: bool,
}

impl Start {
    /// `number` is a descriptor of the thread's, or AT_FDCWD.
    ///
    /// # Errors
    /// EBADF if there is none.
    pub fn of(roots: &Roots, thread: i32, number: i32) -> Result<Self, Errno> {
        if number != libc::AT_FDCWD {
            return Self::open(roots, thread, number).map(|fd| Self::from(roots, fd));
        }
        let entry = Self::entry(thread, number)?;
        let held = match as_supervisor(|| roots.here().find(roots.proc(), &entry)) {
            Some(held) => held,
            None => roots.here().hold(Self::open(roots, thread, number)?),
        };
        Ok(Self::of_held(roots, held))
    }

    /// As `of`, for those who do not ask for its name.
    pub fn open(roots: &Roots, thread: i32, number: i32) -> Result<OwnedFd, Errno> {
        let entry = Self::entry(thread, number)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(roots.proc(), entry, flags, Mode::empty());
        // It is the program's already, whoever that has become.
        let opened = as_supervisor(open);
        opened.map_err(|error| Self::no_entry(number, errno(error)))
    }

    /// Its status, as `status::stat` has it. By a copy of the descriptor, where that is allowed:
    /// the kernel makes an entry of /proc for each process that is asked about by name, and takes
    /// it down when the process ends, which costs a short program as much as its other calls.
    pub fn stat(roots: &Roots, thread: i32, number: i32) -> Result<[u8; STAT_BYTES], Errno> {
        if let Ok(copy) = seal::descriptor_of(thread, number) {
            return status::stat(std::os::fd::OwnedFd::from(copy));
        }
        let entry = Self::entry(thread, number)?;
        let found = as_supervisor(|| status::stat_at(roots.proc(), &entry));
        found.map_err(|error| Self::no_entry(number, error))
    }

    /// Its name below /proc.
    fn entry(thread: i32, number: i32) -> Result<String, Errno> {
        match number {
            libc::AT_FDCWD => Ok(format!("{thread}/cwd")),
            number if number < 0 => Err(Errno(libc::EBADF)),
            number => Ok(format!("{thread}/fd/{number}")),
        }
    }

    fn no_entry(number: i32, error: Errno) -> Errno {
        match error {
            Errno(libc::ENOENT) if number != libc::AT_FDCWD => Errno(libc::EBADF),
            other => other,
        }
    }

    /// What is known of an open directory.
    pub fn from(roots: &Roots, fd: OwnedFd) -> Self {
        let host = host_path(&fd);
        Self::named(roots, HeldFolder { is_proc: is_proc(&fd), fd: Arc::new(fd) }, host)
    }

    fn of_held(roots: &Roots, held: HeldFolder) -> Self {
        let host = host_path_of_folder(&held.fd);
        Self::named(roots, held, host)
    }

    fn named(roots: &Roots, HeldFolder { fd, is_proc }: HeldFolder, host: Option<PathBuf>) -> Self {
        let path = host.as_deref().and_then(|host| roots.name_of_open(&fd, host));
        // Of an instance of /proc that is mounted below a grant, nothing is granted.
        let path = path.filter(|path| path.starts_with("/proc") || !is_proc);
        let is_hidden = host.is_some() && path.is_none();
        Self { fd, path, is_hidden }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use heliostat_control::policy::{Access, PathGrant};

    use super::super::Last;
    use super::*;
    use crate::paths::{Sandbox, View, Walk};

    struct Nobody;

    impl Sandbox for Nobody {
        fn holds(&self, _: i32) -> bool {
            false
        }

        fn all(&self) -> Vec<i32> {
            Vec::new()
        }

        fn process_of(&self, thread: i32) -> i32 {
            thread
        }
    }

    /// What a walk from a held directory answers for a file in it.
    fn walked(roots: &Roots, folder: &Path) -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let fd = rustix::fs::open(folder, flags, Mode::empty()).expect("a folder to begin in");
        let start = Start::from(roots, fd);
        let walk = Walk::new(roots, &Nobody, 1, Last::Follow);
        walk.to(Some(&start), b"file").map(drop)
    }

    #[test]
    fn a_folder_outside_whose_name_ends_as_a_removed_ones_does_is_not_entered() {
        let whole = tempfile::tempdir().expect("a folder");
        let folder = whole.path().canonicalize().expect("its real name");
        for name in ["data", "outside", "outside (deleted)", "own"] {
            std::fs::create_dir(folder.join(name)).expect("a folder to test with");
            std::fs::write(folder.join(name).join("file"), "x").expect("a file in it");
        }
        let grant = PathGrant { path: folder.join("data"), access: Access::ReadOnly };
        let roots =
            Roots::open(&View::default(), &[grant], &folder.join("own"), &mut |path, error| {
                panic!("{}: {error}", path.display())
            });
        let roots = roots.expect("roots");
        assert_eq!(walked(&roots, &folder.join("data")), Ok(()));
        for name in ["outside", "outside (deleted)"] {
            assert_eq!(walked(&roots, &folder.join(name)), Err(Errno(libc::ENOENT)), "{name}");
        }
    }
}
