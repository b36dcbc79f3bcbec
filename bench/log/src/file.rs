//! A bare file: what a program does that has no log.
//!
//! Each producer writes at an offset of its own, one behind the other, and makes that durable by itself.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{slow, Failure, Way, SPACE_BYTES};

/// What direct writes are aligned to.
const BLOCK_BYTES: usize = 4096;

/// How what is written becomes durable.
enum Manner {
    /// write, then fdatasync.
    Sync,
    /// O_DSYNC.
    Dsync,
}

pub struct Bare {
    file: File,
    manner: Manner,
    is_direct: bool,
    next: AtomicU64,
}

impl Bare {
    pub fn new(folder: &Path, name: &str) -> Result<Bare, Failure> {
        let (manner, is_direct) = match name {
            "fdatasync" => (Manner::Sync, false),
            "dsync" => (Manner::Dsync, false),
            "direct-fdatasync" => (Manner::Sync, true),
            "direct-dsync" => (Manner::Dsync, true),
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
        Ok(Bare { file, manner, is_direct, next: AtomicU64::new(0) })
    }

    fn write(&self, payload: &[u8]) -> std::io::Result<()> {
        if !self.is_direct {
            let bytes = payload.len() as u64;
            let at = self.next.fetch_add(bytes, Ordering::Relaxed) % (SPACE_BYTES - bytes);
            return self.file.write_all_at(payload, at);
        }
        let bytes = payload.len().next_multiple_of(BLOCK_BYTES);
        let mut padded = vec![0; bytes + BLOCK_BYTES];
        let start = padded.as_ptr().align_offset(BLOCK_BYTES);
        padded[start..start + payload.len()].copy_from_slice(payload);
        let blocks = SPACE_BYTES - bytes as u64;
        let at = self.next.fetch_add(bytes as u64, Ordering::Relaxed) % blocks;
        self.file.write_all_at(
            &padded[start..start + bytes],
            at / BLOCK_BYTES as u64 * BLOCK_BYTES as u64,
        )
    }
}

impl Way for Bare {
    fn append(&self, payload: &[u8]) -> Result<(), Failure> {
        self.write(payload)?;
        match self.manner {
            Manner::Sync => self.file.sync_data()?,
            Manner::Dsync => slow::wait(),
        }
        Ok(())
    }
}
