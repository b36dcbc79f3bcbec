//! The worker's own kernel: what a program on the host does, and what the others are compared with.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Each, File, Files, Opening, read_in_turn};

/// Files below a directory of the host.
#[derive(Debug)]
pub struct Plain {
    root: PathBuf,
}

impl Plain {
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where a file lies.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

impl Files for Plain {
    fn open(&self, name: &str, opening: Opening) -> io::Result<Arc<dyn File>> {
        let writes = opening != Opening::Read;
        let file = fs::OpenOptions::new()
            .read(true)
            .write(writes)
            .create_new(opening == Opening::Create)
            .create(opening == Opening::Replace)
            .truncate(opening == Opening::Replace)
            .open(self.root.join(name))?;
        Ok(Arc::new(file))
    }

    fn list(&self, name: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(name))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn read_each(&self, names: &[String], each: &mut Each<'_>) -> io::Result<()> {
        read_in_turn(self, names, each)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.root.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.root.join(from), self.root.join(to))
    }
}

impl File for fs::File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < bytes.len() {
            match FileExt::read_at(self, &mut bytes[read..], offset + read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }
}
