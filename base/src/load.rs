//! How busy the machine is at this moment.

use crate::sys::{check, raw, Sysno};

/// Where the kernel tells it (proc_loadavg(5)): three averages, then `running/all`.
const FILE: &std::ffi::CStr = c"/proc/loadavg";
const BYTES: usize = 128;

/// How many threads run or wait for a core on the whole machine now, the calling one among them; `None`
/// where the kernel does not say. Some microseconds, and a descriptor for as long.
pub fn running() -> Option<usize> {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    let args = [libc::AT_FDCWD as usize, FILE.as_ptr() as usize, flags, 0, 0, 0];
    // SAFETY: a path that ends with a zero byte.
    let fd = check(unsafe { raw(Sysno::openat as usize, args) }).ok()?;
    let mut text = [0u8; BYTES];
    let args = [fd, text.as_mut_ptr() as usize, BYTES, 0, 0, 0];
    // SAFETY: so many bytes of `text` are writable.
    let answer = check(unsafe { raw(Sysno::read as usize, args) });
    let _ = crate::call::close(fd as i32);
    running_of(text.get(..answer.ok()?)?)
}

fn running_of(text: &[u8]) -> Option<usize> {
    let field = text.split(|byte| *byte == b' ').nth(3)?;
    let number = field.split(|byte| *byte == b'/').next()?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_field_says_how_many_run() {
        assert_eq!(running_of(b"0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(running_of(b"0.20 0.18 0.12 x/80 11206\n"), None);
        assert_eq!(running_of(b""), None);
    }

    #[test]
    fn who_asks_runs() {
        assert!(running().expect("the kernel says") >= 1);
    }
}
