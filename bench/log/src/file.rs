//! A bare file: what a program does that has no log.
//!
//! Each producer writes at an offset of its own, one behind the other, and makes that durable by itself; in turn
//! where it has to be one flush for each append, since the kernel lets flushes that wait become one.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use crate::way::{Failure, Way, SPACE_BYTES};

/// What direct writes are aligned to.
const BLOCK_BYTES: usize = 4096;

/// How what is written becomes durable.
enum Manner {
    /// write, then fdatasync.
    Sync,
    /// O_DSYNC.
    Dsync,
    /// pwritev2 with RWF_DSYNC.
    Rwf,
}

pub struct Bare {
    file: File,
    manner: Manner,
    is_direct: bool,
    /// Held for a whole append, if producers take turns.
    turn: Option<Mutex<()>>,
    next: AtomicU64,
}

impl Bare {
    pub fn new(folder: &Path, name: &str) -> Result<Bare, Failure> {
        let (manner, is_direct) = match name {
            "fdatasync" | "fdatasync-in-turn" => (Manner::Sync, false),
            "dsync" => (Manner::Dsync, false),
            "direct-fdatasync" => (Manner::Sync, true),
            "direct-dsync" => (Manner::Dsync, true),
            "direct-rwf" => (Manner::Rwf, true),
            _ => return Err(format!("no way {name}").into()),
        };
        let path = folder.join("bare");
        let mut written = File::create(&path)?;
        for _ in 0..SPACE_BYTES >> 20 {
            written.write_all(&[0; 1 << 20])?;
        }
        written.sync_all()?;
        let mut flags = if is_direct { libc::O_DIRECT } else { 0 };
        if matches!(manner, Manner::Dsync) {
            flags |= libc::O_DSYNC;
        }
        let file = OpenOptions::new().write(true).custom_flags(flags).open(&path)?;
        let turn = name.ends_with("-in-turn").then(Mutex::default);
        Ok(Bare { file, manner, is_direct, turn, next: AtomicU64::new(0) })
    }

    fn write(&self, payload: &[u8]) -> std::io::Result<()> {
        if !self.is_direct {
            let bytes = payload.len() as u64;
            let at = self.next.fetch_add(bytes, Ordering::Relaxed) % (SPACE_BYTES - bytes);
            return self.write_at(payload, at);
        }
        let bytes = payload.len().next_multiple_of(BLOCK_BYTES);
        let mut padded = vec![0; bytes + BLOCK_BYTES];
        let start = padded.as_ptr().align_offset(BLOCK_BYTES);
        padded[start..start + payload.len()].copy_from_slice(payload);
        let blocks = SPACE_BYTES - bytes as u64;
        let at = self.next.fetch_add(bytes as u64, Ordering::Relaxed) % blocks;
        let at = at / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        self.write_at(&padded[start..start + bytes], at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> std::io::Result<()> {
        if !matches!(self.manner, Manner::Rwf) {
            return self.file.write_all_at(bytes, at);
        }
        let piece = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
        let fd = self.file.as_raw_fd();
        // SAFETY: the one piece is `bytes`, which the kernel only reads during the call.
        let done = unsafe { libc::pwritev2(fd, &piece, 1, at as libc::off_t, libc::RWF_DSYNC) };
        match done {
            ..0 => Err(std::io::Error::last_os_error()),
            short if (short as usize) < bytes.len() => Err(std::io::ErrorKind::WriteZero.into()),
            _ => Ok(()),
        }
    }
}

impl Way for Bare {
    fn append(&self, payload: &[u8]) -> Result<(), Failure> {
        let _turn = self.turn.as_ref().map(|turn| turn.lock().expect("nobody panics with it"));
        self.write(payload)?;
        if matches!(self.manner, Manner::Sync) {
            self.file.sync_data()?;
        }
        Ok(())
    }
}
