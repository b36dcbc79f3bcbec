//! A device whose sectors are larger than what counts as aligned: what it refuses is read another way.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::file::delegated::Way;

const SECTOR: &str = "16384";
const LARGE: u32 = 256 * 1024;

/// XFS on a loop device of large sectors, unmounted when dropped.
struct Sectors(PathBuf);

/// What a command printed; `None` when it fails or is not there.
fn run(words: &[&str]) -> Option<String> {
    let output = Command::new(words[0]).args(&words[1..]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Sectors {
    /// `None` where such a thing cannot be made.
    fn mount(folder: &Path) -> Option<Sectors> {
        let (image, at) = (folder.join("image"), folder.join("mounted"));
        std::fs::create_dir(&at).ok()?;
        File::create(&image).ok()?.set_len(320 << 20).ok()?;
        let device = run(&["losetup", "--find", "--show", "-b", SECTOR, image.to_str().unwrap()])?;
        let kind = format!("size={SECTOR}");
        let made = run(&["mkfs.xfs", "-q", "-b", &kind, "-s", &kind, &device])
            .and_then(|_| run(&["mount", "-t", "xfs", &device, at.to_str().unwrap()]));
        // With the last use of it the device goes.
        run(&["losetup", "--detach", &device]);
        made.map(|_| Sectors(at))
    }
}

impl Drop for Sectors {
    fn drop(&mut self) {
        let at = CString::new(self.0.as_os_str().as_bytes()).unwrap();
        // SAFETY: the text lives until the call returns.
        unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    }
}

#[test]
fn a_direct_read_that_the_device_refuses_goes_another_way_from_then_on() {
    let daemon = Daemon::start();
    let Some(sectors) = Sectors::mount(daemon.folder()) else {
        return eprintln!("skipped: no XFS of large sectors can be mounted here");
    };
    let path = sectors.0.join("file");
    let content: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 7 % 251) as u8).collect();
    std::fs::write(&path, &content).unwrap();
    let mut session = Delegate::new(&daemon);
    // Under a lease the cache is the other way, and without one the kernel.
    for (writes, other) in [(false, Way::Filled), (true, Way::Kernel)] {
        let shown = File::options().read(true).write(writes).open(&path).unwrap();
        let file = session.show(&shown, false).unwrap();
        for (at, expected) in [(1 << 19, Way::Direct), (4096, other), (1 << 19, other)] {
            let (result, way, bytes) = session.read(file, at, LARGE);
            assert_eq!((result, way), (i64::from(LARGE), expected), "at {at}, writes: {writes}");
            assert!(bytes == content[at as usize..][..LARGE as usize], "at {at}");
        }
    }
    // Who asked for the device is told.
    let direct = session.show(&File::open(&path).unwrap(), true).unwrap();
    assert_eq!(session.read(direct, 4096, 4096).0, -i64::from(libc::EINVAL));
    assert_eq!(session.read(direct, 0, LARGE).1, Way::Direct);
}
