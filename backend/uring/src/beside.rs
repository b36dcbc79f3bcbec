//! A request that the kernel's io_uring does not know, made by a thread of its own.
//!
//! The ring waits for a descriptor that tells when the thread is done, and finds the result beside it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::thread;

/// The result of a request, once it is there: 0 or minus an errno.
pub(crate) type Outcome = Arc<OnceLock<i32>>;

/// Makes a file so many bytes long, meanwhile. The descriptor has something to read when that is done.
///
/// # Errors
/// No descriptor or no thread can be had; nothing is changed.
pub(crate) fn truncate(file: &OwnedFd, bytes: u64) -> io::Result<(Arc<OwnedFd>, Outcome)> {
    let file = File::from(file.try_clone()?);
    let (done, telling) = UnixStream::pair()?;
    let outcome = Outcome::default();
    let told = outcome.clone();
    thread::Builder::new().name("truncates".into()).spawn(move || {
        let result =
            file.set_len(bytes).map_err(|error| -error.raw_os_error().unwrap_or(libc::EIO));
        let _ = told.set(result.err().unwrap_or(0));
        // The end of this stream is what the ring hears.
        drop(telling);
    })?;
    Ok((Arc::new(OwnedFd::from(done)), outcome))
}
