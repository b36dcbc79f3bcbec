//! Changes that no lease tells of: the cache never has what was.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::policy::device_of;
use crate::support::delegated::*;
use crate::support::*;

/// A shared mapping of a file's first page; its descriptor is closed.
struct Mapped(*mut u8);

impl Mapped {
    fn new(path: &Path) -> Mapped {
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping, which nobody else knows of.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), 4096, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        Mapped(start.cast())
    }

    fn store(&self, byte: u8) {
        // SAFETY: the page is mapped until the value is dropped.
        unsafe { self.0.write_volatile(byte) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone.
        unsafe { libc::munmap(self.0.cast(), 4096) };
    }
}

/// An overlay over folders of its own, until it is dropped.
struct Overlay(PathBuf);

impl Overlay {
    fn mount(folder: &Path) -> Option<Overlay> {
        let [base, lower, upper, work, merged] =
            ["", "lower", "upper", "work", "merged"].map(|name| folder.join("overlay").join(name));
        std::fs::create_dir(&base).unwrap();
        if !mount(c"tmpfs", &base, "") {
            return None;
        }
        for folder in [&lower, &upper, &work, &merged] {
            std::fs::create_dir(folder).unwrap();
        }
        let [low, up, at] = [&lower, &upper, &work].map(|it| it.display());
        let options = format!("lowerdir={low},upperdir={up},workdir={at}");
        let overlay = Overlay(merged);
        mount(c"overlay", &overlay.0, &options).then_some(overlay)
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        for at in [Some(&*self.0), self.0.parent()].into_iter().flatten() {
            // SAFETY: the text lives until the call returns.
            unsafe { libc::umount2(text(at).as_ptr(), libc::MNT_DETACH) };
        }
    }
}

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn mount(kind: &std::ffi::CStr, at: &Path, options: &str) -> bool {
    let (at, options) = (text(at), CString::new(options).unwrap());
    // SAFETY: all five are texts that live until the call returns.
    unsafe {
        libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast()) == 0
    }
}

/// A mapping of an overlay's file is one of the file beneath: no lease keeps its stores away.
#[test]
fn a_store_by_a_mapping_on_overlay_is_seen_at_once() {
    let daemon = Daemon::start();
    let Some(overlay) = Overlay::mount(daemon.folder()) else {
        return eprintln!("skipped: no overlay may be mounted here");
    };
    let path = overlay.0.join("file");
    std::fs::write(&path, vec![5; 4096]).unwrap();
    let mapping = Mapped::new(&path);
    let mut session = Delegate::new(&daemon);
    let file = session.show(&File::open(&path).unwrap(), false).unwrap();
    for round in 0..20 {
        mapping.store(round);
        assert_eq!(session.read(file, 0, 4096).2[0], round);
    }
    let device = device_of(&daemon, &path);
    assert_eq!(device["why"], "the fixed threshold: no lease vouches for files on overlay");
}
