//! Changes of names that the standard library has no function for.

use std::ffi::CString;

use super::Answer;
use crate::sys::{check, raw, Errno, Sysno};

/// Renames, and replaces nothing (renameat2(2), RENAME_NOREPLACE).
///
/// # Errors
/// EEXIST when the new name is there, EINVAL for a name with a zero in it.
pub fn rename_new(from: &str, to: &str) -> Result<(), Errno> {
    let name = |text: &str| CString::new(text).map_err(|_| Errno(libc::EINVAL));
    let (from, to) = (name(from)?, name(to)?);
    let (here, flags) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
    let done: Answer = call!(renameat2, here, from.as_ptr(), here, to.as_ptr(), flags);
    done.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_there_stays_as_it_is() {
        let folder = std::env::temp_dir().join(format!("heliostat-rename-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let name = |last: &str| folder.join(last).to_str().expect("plain text").to_owned();
        std::fs::write(name("a"), "a").expect("written");
        std::fs::write(name("b"), "b").expect("written");
        assert_eq!(rename_new(&name("a"), &name("b")), Err(Errno(libc::EEXIST)));
        assert_eq!(std::fs::read(name("b")).expect("there"), b"b");
        assert_eq!(rename_new(&name("a"), &name("c")), Ok(()));
        assert_eq!(std::fs::read(name("c")).expect("there"), b"a");
        assert_eq!(rename_new("a\0", "b"), Err(Errno(libc::EINVAL)));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
