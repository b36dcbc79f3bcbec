//! Whether program text may be patched: tried on a private copy of a page of this program.
//!
//! The stub makes libc's text writable for a moment and executable again. Security modules call
//! that execmod, and some forbid it. The page tried here is mapped for the purpose and never
//! executed; the rest of this program stays as it is.

#![allow(unsafe_code)]

use std::fs::File;
use std::ptr;

use rustix::io::Errno;
use rustix::mm::{mmap, mprotect, munmap, MapFlags, MprotectFlags, ProtFlags};

use super::Check;

const PAGE: usize = 4096;

/// The check of this file.
pub fn check() -> Check {
    Check::of(
        "patching of program text",
        patch_a_copy(),
        "text can be made writable and executable again",
        "a security module forbids it (SELinux: setsebool -P selinuxuser_execmod 1)",
    )
}

fn patch_a_copy() -> Result<(), Errno> {
    let own = File::open("/proc/self/exe").map_err(|_| Errno::ACCESS)?;
    let executable = ProtFlags::READ | ProtFlags::EXEC;
    // SAFETY: no address is asked for, so no existing mapping is touched.
    let page = unsafe { mmap(ptr::null_mut(), PAGE, executable, MapFlags::PRIVATE, &own, 0) }?;
    let writable = MprotectFlags::READ | MprotectFlags::WRITE;
    let again = MprotectFlags::READ | MprotectFlags::EXEC;
    // SAFETY: `page` is one whole private page that nothing else knows; it is written only while
    // it is writable, and unmapped by nobody else.
    unsafe {
        let answer = mprotect(page, PAGE, writable).and_then(|()| {
            page.cast::<u8>().write_volatile(0xc3);
            mprotect(page, PAGE, again)
        });
        munmap(page, PAGE)?;
        answer
    }
}
