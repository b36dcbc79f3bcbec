//! Files of the host, by operations on its rings.

use std::io;
use std::sync::Arc;

use super::foreign::{
    self, CREATE, DIRECTORY, EXCLUSIVE, FETCHES, Fetches, Object, READ, TRUNCATE, WRITE,
};
use super::{BUFFER_BYTES, Memory, attach};
use crate::files::{Each, File, Files, Opening, read_all};

/// Files below a granted folder.
#[derive(Debug)]
pub struct LeanFiles {
    memory: &'static Memory,
    root: String,
}

impl LeanFiles {
    /// Files below `root`, which `heliostat coprocessor run --root` has granted.
    ///
    /// # Errors
    /// As of [`attach`].
    pub fn new(root: &str) -> io::Result<Self> {
        Ok(Self { memory: attach()?, root: root.to_owned() })
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }
}

impl Files for LeanFiles {
    fn open(&self, name: &str, opening: Opening) -> io::Result<Arc<dyn File>> {
        let flags = match opening {
            Opening::Read => READ,
            Opening::Create => READ | WRITE | CREATE | EXCLUSIVE,
            Opening::Replace => READ | WRITE | CREATE | TRUNCATE,
        };
        let object = foreign::open(&self.path(name), flags)?;
        Ok(Arc::new(LeanFile { memory: self.memory, object }))
    }

    fn list(&self, name: &str) -> io::Result<Vec<String>> {
        let folder = LeanFile {
            memory: self.memory,
            object: foreign::open(&self.path(name), READ | DIRECTORY)?,
        };
        let mut names = Vec::new();
        let mut cookie = 0;
        while let Some((more, next)) =
            self.memory.with_buffer(|buffer| buffer.entries(folder.object, cookie))?
        {
            names.extend(more);
            if next == cookie {
                break;
            }
            cookie = next;
        }
        Ok(names)
    }

    /// Asks ahead: while one part's files are used, the next ones are read.
    fn read_each(&self, names: &[String], each: &mut Each<'_>) -> io::Result<()> {
        let paths: Vec<String> = names.iter().map(|name| self.path(name)).collect();
        self.memory.with_buffer(|buffer| {
            let (mut bytes, mut place) = (Vec::new(), 0);
            let mut rest = paths.chunks(FETCHES).enumerate();
            let begin = |(part, some): (usize, &[String])| Fetches::begin(buffer, part, some);
            let mut ahead = rest.next().map(begin).transpose()?;
            while let Some(mut now) = ahead {
                ahead = rest.next().map(begin).transpose()?;
                while let Some(got) = now.next(&mut bytes) {
                    match got {
                        Ok(true) => each(place, &bytes)?,
                        // Longer, or to be opened for another reason, which that tells.
                        _ => each(place, &read_all(self, &names[place])?)?,
                    }
                    place += 1;
                }
            }
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        foreign::unlink(&self.path(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        foreign::rename(&self.path(from), &self.path(to))
    }
}

#[derive(Debug)]
struct LeanFile {
    memory: &'static Memory,
    object: Object,
}

impl Drop for LeanFile {
    /// What could not be written was told by `sync`: the end of a file has nothing to add.
    fn drop(&mut self) {
        let _ = foreign::close(self.object);
    }
}

impl File for LeanFile {
    fn len(&self) -> io::Result<u64> {
        foreign::length(self.object)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.memory.with_buffer(|buffer| {
            let mut read = 0;
            while read < bytes.len() {
                let asked = (bytes.len() - read).min(BUFFER_BYTES);
                let got = buffer.read(self.object, offset + read as u64, &mut bytes[read..])?;
                read += got;
                // Fewer than were asked for: the file's end, which need not be asked for again.
                if got < asked {
                    break;
                }
            }
            Ok(read)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.memory.with_buffer(|buffer| {
            let mut wrote = 0;
            while wrote < bytes.len() {
                match buffer.write(self.object, offset + wrote as u64, &bytes[wrote..])? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    more => wrote += more,
                }
            }
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        foreign::sync(self.object)
    }
}
