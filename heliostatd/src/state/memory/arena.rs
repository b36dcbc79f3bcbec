//! An arena: a sealed memory file of one user, in which regions lie.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use heliostat_base::mapping::{Access, MappingError, SharedMapping};
use heliostat_service_grant::Holder;
use rustix::fs::{fallocate, FallocateFlags, SeekFrom};
use rustix::io::Errno;

/// Zeros that are written at once where no hole can be punched.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// An arena's file, and its mapping once a loop needs it.
pub struct Arena {
    /// The file, for sessions that map it.
    pub fd: Rc<OwnedFd>,
    /// Whose descriptor it counts as.
    pub holder: Holder,
    bytes: u64,
    mapping: Option<Arc<SharedMapping>>,
}

impl Arena {
    /// A fresh one, all zero. Its pages exist once they are written.
    ///
    /// # Errors
    /// The kernel has no descriptor for it, or not so many bytes.
    pub fn create(holder: Holder, bytes: u64) -> Result<Arena, MappingError> {
        let fd = SharedMapping::create_fd(c"heliostat-arena", bytes as usize)?;
        Ok(Arena { fd: Rc::new(fd.into()), holder, bytes, mapping: None })
    }

    /// Its bytes, for a loop.
    ///
    /// # Errors
    /// The kernel has no place for them.
    pub fn mapping(&mut self) -> Result<Arc<SharedMapping>, MappingError> {
        if let Some(mapping) = &self.mapping {
            return Ok(mapping.clone());
        }
        let raw = self.fd.as_raw_fd();
        let made = SharedMapping::from_fd(raw, self.bytes as usize, Access::ReadWrite)?;
        Ok(self.mapping.insert(Arc::new(made)).clone())
    }

    /// Its holder, its file and its mapping, for whoever closes it.
    pub fn into_parts(self) -> (Holder, Rc<OwnedFd>, Option<Arc<SharedMapping>>) {
        (self.holder, self.fd, self.mapping)
    }

    /// The first byte from `offset` on, up to `end`, that was ever written.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn next_data(&self, offset: u64, end: u64) -> io::Result<u64> {
        match rustix::fs::seek(&self.fd, SeekFrom::Data(offset)) {
            Ok(data) => Ok(data.clamp(offset, end)),
            Err(Errno::NXIO) => Ok(end),
            Err(error) => Err(error.into()),
        }
    }

    /// The first byte from `offset` on, up to `end`, that was never written, nor its page.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn next_hole(&self, offset: u64, end: u64) -> io::Result<u64> {
        Ok(rustix::fs::seek(&self.fd, SeekFrom::Hole(offset))?.clamp(offset, end))
    }

    /// Has pages for bytes, so that writing them fails for nobody.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn reserve(&self, offset: u64, bytes: u64) -> io::Result<()> {
        retry(|| fallocate(&self.fd, FallocateFlags::KEEP_SIZE, offset, bytes))
    }

    /// Makes bytes zero that nobody has any more, and gives their pages back.
    ///
    /// # Errors
    /// They are still what they were, or some of them.
    pub fn erase(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = retry(|| fallocate(&self.fd, flags, offset, bytes));
        punched.or_else(|_| self.overwrite(offset, bytes))
    }

    fn overwrite(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes {
            let part = (bytes - done).min(ZEROS.len() as u64) as usize;
            let zeros = &ZEROS[..part];
            done += retry(|| rustix::io::pwrite(&self.fd, zeros, offset + done))? as u64;
        }
        Ok(())
    }
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 2 << 20;

    fn filled() -> (Arena, Arc<SharedMapping>) {
        let mut arena = Arena::create(Holder::user(1), BYTES as u64).unwrap();
        let mapping = arena.mapping().unwrap();
        mapping.copy_in(0, &vec![7; BYTES]).unwrap();
        (arena, mapping)
    }

    fn bytes(mapping: &SharedMapping) -> Vec<u8> {
        let mut found = vec![0; BYTES];
        mapping.copy_out(0, &mut found).unwrap();
        found
    }

    #[test]
    fn exactly_the_bytes_that_are_erased_are_zero() {
        for (offset, length) in [(64, 64), (4032, 128), (100 << 10, 1 << 20), (0, BYTES)] {
            let (arena, mapping) = filled();
            arena.erase(offset as u64, length as u64).unwrap();
            let (found, end) = (bytes(&mapping), offset + length);
            assert!(found[offset..end].iter().all(|byte| *byte == 0), "{offset} {length}");
            assert!(found[..offset].iter().chain(&found[end..]).all(|byte| *byte == 7));
        }
    }

    #[test]
    fn overwriting_erases_the_same() {
        let (arena, mapping) = filled();
        arena.overwrite(64, 200_000).unwrap();
        let found = bytes(&mapping);
        assert!(found[64..200_064].iter().all(|byte| *byte == 0));
        assert!(found[..64].iter().chain(&found[200_064..]).all(|byte| *byte == 7));
    }
}
