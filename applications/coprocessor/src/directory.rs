//! tantivy's directory over a worker's files: an index lives wherever they do.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tantivy::HasLen;
use tantivy::directory::error::{DeleteError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, Directory, FileHandle, OwnedBytes, TerminatingWrite, WatchCallback, WatchHandle,
    WritePtr,
};

use crate::files::{File, Files, Opening, read_all};

/// Bytes that tantivy writes at once: larger than its own 8 KiB, since each write is a message.
const BUFFER_BYTES: usize = 256 * 1024;

/// The files of an index, in one directory.
#[derive(Clone, Debug)]
pub struct FilesDirectory {
    files: Arc<dyn Files>,
    below: String,
}

impl FilesDirectory {
    pub fn new(files: Arc<dyn Files>, below: &str) -> Self {
        Self { files, below: below.to_owned() }
    }

    fn name(&self, path: &Path) -> String {
        format!("{}/{}", self.below, path.display())
    }
}

impl Directory for FilesDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        let open = || {
            let file = self.files.open(&self.name(path), Opening::Read)?;
            let length = usize::try_from(file.len()?).map_err(io::Error::other)?;
            Ok(Arc::new(Handle { file, length }) as Arc<dyn FileHandle>)
        };
        open().map_err(|error| not_read(error, path))
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.files.remove(&self.name(path)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DeleteError::FileDoesNotExist(path.to_owned()),
            _ => DeleteError::IoError { io_error: Arc::new(error), filepath: path.to_owned() },
        })
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        match self.files.open(&self.name(path), Opening::Read) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(not_read(error, path)),
        }
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let file =
            self.files.open(&self.name(path), Opening::Create).map_err(|error| {
                match error.kind() {
                    io::ErrorKind::AlreadyExists => {
                        OpenWriteError::FileAlreadyExists(path.to_owned())
                    }
                    _ => OpenWriteError::IoError {
                        io_error: Arc::new(error),
                        filepath: path.to_owned(),
                    },
                }
            })?;
        Ok(BufWriter::with_capacity(BUFFER_BYTES, Box::new(Writer { file, offset: 0 })))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        read_all(&*self.files, &self.name(path)).map_err(|error| not_read(error, path))
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        let beside = format!("{}.new", self.name(path));
        let file = self.files.open(&beside, Opening::Replace)?;
        file.write_at(data, 0)?;
        file.sync()?;
        drop(file);
        self.files.rename(&beside, &self.name(path))
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    /// Nobody else changes the index of a worker: there is nothing to watch.
    fn watch(&self, _callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(WatchHandle::empty())
    }
}

fn not_read(error: io::Error, path: &Path) -> OpenReadError {
    match error.kind() {
        io::ErrorKind::NotFound => OpenReadError::FileDoesNotExist(path.to_owned()),
        _ => OpenReadError::IoError { io_error: Arc::new(error), filepath: path.to_owned() },
    }
}

/// A file that is read in pieces.
struct Handle {
    file: Arc<dyn File>,
    length: usize,
}

impl fmt::Debug for Handle {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(into, "a file of {} bytes", self.length)
    }
}

impl HasLen for Handle {
    fn len(&self) -> usize {
        self.length
    }
}

impl FileHandle for Handle {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        let mut bytes = vec![0; range.len()];
        if self.file.read_at(&mut bytes, range.start as u64)? < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(OwnedBytes::new(bytes))
    }
}

/// A file that is written from its beginning to its end.
struct Writer {
    file: Arc<dyn File>,
    offset: u64,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TerminatingWrite for Writer {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        self.file.sync()
    }
}
