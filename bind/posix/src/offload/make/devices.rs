//! Which file systems are the kernel's own: their files are regular ones by type, and mean what they like.
//!
//! fstatfs(2) tells a file system by its magic number. That is asked once for each device; the few that a
//! program uses are remembered, in words that any thread, an executor too, reads and writes.

use heliostat_base::sync::AtomicU64;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sys::Sysno;

use super::call;

/// Devices that are remembered. Another one takes the place of the one that it falls upon.
const DEVICES_MAX: usize = 64;
/// A device's number has fewer bits (source: linux/kdev_t.h, new_encode_dev: 12 and 20).
const OF_KERNEL: u64 = 1 << 62;
const KNOWN: u64 = 1 << 63;

static DEVICES: [AtomicU64; DEVICES_MAX] = [const { AtomicU64::new(0) }; DEVICES_MAX];

/// Sources: linux/magic.h; fs/fuse/control.c for FUSE's control files.
const MAGICS: [i64; 19] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x7472_6163, // tracefs
    0x6462_6720, // debugfs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0x5a3c_69f0, // AppArmor
    0x6265_6570, // configfs
    0xcafe_4a11, // bpf
    0xde5e_81e4, // efivarfs
    0x4249_4e4d, // binfmt_misc
    0x6165_676c, // pstore
    0x6573_5543, // fusectl
    0x0765_5821, // resctrl
    0x6e73_6673, // nsfs
    0x1980_0202, // mqueue
];

/// Whether the file open there is of such a file system; `is_still` tells whether it is on the device
/// still, when its file system is known.
pub fn is_of_kernel(device: u64, fd: u64, is_still: impl Fn() -> bool) -> bool {
    let known = &DEVICES[device as usize % DEVICES_MAX];
    let word = known.load(Relaxed);
    if word & !OF_KERNEL == device | KNOWN {
        return word & OF_KERNEL != 0;
    }
    let is_its = magic(fd).is_none_or(|magic| MAGICS.contains(&magic));
    // Another file may have come under the number meanwhile: then this is not the device's.
    if is_still() && device & (KNOWN | OF_KERNEL) == 0 {
        known.store(device | KNOWN | if is_its { OF_KERNEL } else { 0 }, Relaxed);
    }
    is_its
}

/// The file system's magic number, as 32 bits; none where the kernel does not say.
fn magic(fd: u64) -> Option<i64> {
    let mut found = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    let at = found.as_mut_ptr() as u64;
    let answer = call(Sysno::fstatfs, [fd, at, 0, 0, 0, 0]);
    // SAFETY: numbers, zero until the kernel has written them.
    let found = unsafe { found.assume_init() };
    (answer == 0).then_some(found.f_type & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_device_is_not_remembered_for_what_was_another_file() {
        let file = File::open("/proc/version").unwrap();
        let unused = 0xdead_0001;
        assert!(is_of_kernel(unused, file.as_raw_fd() as u64, || false));
        let disk = File::open("/etc/passwd").unwrap();
        assert!(!is_of_kernel(unused, disk.as_raw_fd() as u64, || true));
    }

    #[test]
    fn files_that_the_kernel_makes_up_are_told_from_those_of_disks() {
        let is = |path: &str| {
            let file = File::open(path).unwrap();
            is_of_kernel(file.metadata().unwrap().dev(), file.as_raw_fd() as u64, || true)
        };
        for _ in 0..2 {
            assert!(is("/proc/self/status") && is("/proc/version"));
            assert!(!is("/etc/passwd") && !is(env!("CARGO_MANIFEST_DIR")));
        }
        assert!(
            is_of_kernel(u64::MAX, u64::MAX, || false),
            "what is not known is left to its thread"
        );
    }
}
