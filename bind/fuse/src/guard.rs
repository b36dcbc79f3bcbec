//! What takes a mount away whose server was killed: a process that sleeps until the server has ended.

use std::io::Read;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use crate::unmount;

/// Between the end of the server's pipe and that of its device may lie a moment; no more than this.
const LOOKS: u32 = 50;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Sleeps until the other end of a pipe is gone, and takes away the mount at a folder if nobody serves it
/// then. A mount that was taken away in good order, or another one in its place, is left alone.
pub fn guard(mut server: impl Read, folder: &Path) {
    // Whatever comes and however it ends: afterwards the server is gone.
    let _ = server.read_to_end(&mut Vec::new());
    for _ in 0..LOOKS {
        match rustix::fs::statfs(folder) {
            Err(Errno::NOTCONN | Errno::CONNABORTED) => {
                let _ = unmount(folder);
                return;
            }
            // Of a live mount it is the kind of file system; a server that ends is still one.
            Ok(found) if is_fuse(&found) => thread::sleep(PAUSE),
            _ => return,
        }
    }
}

/// Whether it is the kernel's number for FUSE.
fn is_fuse(found: &rustix::fs::StatFs) -> bool {
    const FUSE: u64 = 0x6573_5546;
    found.f_type as u64 == FUSE
}
