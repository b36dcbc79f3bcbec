//! The system-call sites of this machine's libc, which the stub is told by a file.

use std::path::PathBuf;
use std::sync::OnceLock;

/// Makes sure that the system-call sites of this machine's libc are known to the stub; looks once.
pub fn cache_sites() -> Result<PathBuf, String> {
    static LIST: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    LIST.get_or_init(find_sites).clone()
}

fn find_sites() -> Result<PathBuf, String> {
    let libc = heliostat_interpose::libc_path().ok_or("this program's own libc is not found")?;
    heliostat_interpose::ensure_cached(&libc)
        .map_err(|error| format!("the system calls of {} are not known: {error}", libc.display()))
}
