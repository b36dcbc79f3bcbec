//! Working folders that are held open, since one call after the other begins in the same.
//!
//! A thread's folder is looked at anew by each call: device, inode and mount. Only if it is one that
//! is held, that one is taken, which is the same folder: none of the three can be another's while
//! it is held. Its name is asked for each time, since others may rename what is above it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::fs::{AtFlags, StatxFlags};

use super::proc::is_proc;

/// Folders that are held at most: a file system that one of them lies on cannot be unmounted.
const HELD_MAX: usize = 4;

/// Device (major, minor), inode and mount.
type Identity = (u32, u32, u64, u64);

/// A folder.
#[derive(Clone, Debug)]
pub struct HeldFolder {
    /// Opened by path only.
    pub fd: Arc<OwnedFd>,
    /// It lies in an instance of /proc.
    pub is_proc: bool,
}

/// Those that were asked for last, the latest at the end.
#[derive(Debug, Default)]
pub struct Here(Mutex<Vec<(Identity, HeldFolder)>>);

impl Here {
    /// The folder that an entry of /proc leads to, if it is held.
    pub fn find(&self, proc: &OwnedFd, entry: &str) -> Option<HeldFolder> {
        let identity = identity(proc, entry, AtFlags::empty())?;
        let mut all = self.0.lock().ok()?;
        let place = all.iter().position(|(known, _)| *known == identity)?;
        let last = all.len() - 1;
        all[place..=last].rotate_left(1);
        Some(all[last].1.clone())
    }

    /// Holds a folder from now on.
    pub fn hold(&self, fd: OwnedFd) -> HeldFolder {
        let held = HeldFolder { is_proc: is_proc(&fd), fd: Arc::new(fd) };
        let Some(identity) = identity(&held.fd, "", AtFlags::EMPTY_PATH) else { return held };
        let Ok(mut all) = self.0.lock() else { return held };
        if all.len() >= HELD_MAX {
            all.remove(0);
        }
        all.push((identity, held.clone()));
        held
    }
}

/// `None` where the kernel does not tell mounts apart (before Linux 5.8).
fn identity(folder: &OwnedFd, path: &str, how: AtFlags) -> Option<Identity> {
    let wanted = StatxFlags::INO | StatxFlags::MNT_ID;
    // What is asked for never changes, so that no server has to be asked for it.
    let how = how | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(folder, path, how, wanted).ok()?;
    let is_told = StatxFlags::from_bits_retain(found.stx_mask).contains(wanted);
    let device = (found.stx_dev_major, found.stx_dev_minor);
    is_told.then_some((device.0, device.1, found.stx_ino, found.stx_mnt_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};

    fn open(path: impl rustix::path::Arg) -> OwnedFd {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        rustix::fs::open(path, flags, Mode::empty()).expect("a folder")
    }

    #[test]
    fn a_folder_is_found_by_what_it_is_whatever_its_name() {
        let whole = tempfile::tempdir().expect("a folder");
        let (one, other) = (whole.path().join("one"), whole.path().join("other"));
        std::fs::create_dir(&one).expect("one");
        let here = Here::default();
        let (within, held) = (open(whole.path()), here.hold(open(&one)));
        let is_it =
            |found: Option<HeldFolder>| found.is_some_and(|it| Arc::ptr_eq(&it.fd, &held.fd));
        assert!(is_it(here.find(&within, "one")));
        std::fs::rename(&one, &other).expect("renamed");
        assert!(is_it(here.find(&within, "other")));
        std::fs::create_dir(&one).expect("another of that name");
        assert!(here.find(&within, "one").is_none());
        assert!(here.find(&within, "none").is_none());
    }

    #[test]
    fn a_thread_apart_learns_the_same_names() {
        use crate::paths::{go_apart, host_path, host_path_of_folder};
        let whole = tempfile::tempdir().expect("a folder");
        let folder = whole.path().canonicalize().expect("its real name");
        let (one, other) = (folder.join("one"), folder.join("other (deleted)"));
        std::fs::create_dir(&one).expect("one");
        let fd = open(&one);
        let before = std::env::current_dir().expect("a working folder");
        let apart = std::thread::spawn(move || {
            go_apart();
            assert_eq!(host_path_of_folder(&fd), Some(one.clone()));
            std::fs::rename(&one, &other).expect("renamed");
            let named = (host_path_of_folder(&fd), host_path(&fd));
            assert_eq!(named, (Some(other.clone()), Some(other.clone())), "that is its name");
            std::fs::remove_dir(&other).expect("removed");
            assert_eq!((host_path_of_folder(&fd), host_path(&fd)), (None, None));
        });
        apart.join().expect("names");
        assert_eq!(std::env::current_dir().expect("a working folder"), before);
    }

    #[test]
    fn few_folders_are_held_and_the_longest_unused_goes() {
        let whole = tempfile::tempdir().expect("a folder");
        let (here, within) = (Here::default(), open(whole.path()));
        for number in 0..=HELD_MAX {
            let name = number.to_string();
            std::fs::create_dir(whole.path().join(&name)).expect("a folder");
            here.hold(open(whole.path().join(&name)));
            assert!(here.find(&within, "0").is_some(), "it is in use");
        }
        assert!(here.find(&within, "1").is_none());
        assert!(here.find(&within, &HELD_MAX.to_string()).is_some());
    }
}
