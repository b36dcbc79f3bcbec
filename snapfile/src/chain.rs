//! A file and the bases below it, read as one version.

use crate::error::{FileError, Part};
use crate::header::Base;
use crate::layout::{chunk_bytes, page_hash, page_range, CHUNK_BYTES};
use crate::read::{ReadAt, SnapFile};

/// Files that make one version together, the newest first.
#[derive(Debug)]
pub struct Chain<R> {
    files: Vec<SnapFile<R>>,
    raw: Vec<u8>,
}

impl<R: ReadAt> Chain<R> {
    /// A chain of one file, which has no base.
    pub fn of(file: SnapFile<R>) -> Result<Self, FileError> {
        Self::resolve(file, |_| Err(FileError::NoBase))
    }

    /// `file` and all below it; `open` finds the file that a base names. At most `DEPTH_MAX` are
    /// asked for, each of which must be the file that the one above was made against.
    pub fn resolve<E: From<FileError>>(
        file: SnapFile<R>,
        mut open: impl FnMut(&Base) -> Result<SnapFile<R>, E>,
    ) -> Result<Self, E> {
        let mut files = vec![file];
        while let Some(base) = files.last().and_then(|last| last.header().base.clone()) {
            let below = open(&base)?;
            let above = files.last().map(|last| (last.header().depth, last.header().length));
            let (wanted, found) = (base.identity, below.identity());
            if wanted != found {
                return Err(FileError::WrongBase { wanted, found }.into());
            }
            if above != Some((below.header().depth + 1, below.header().length)) {
                return Err(FileError::Damaged(Part::Field("depth")).into());
            }
            files.push(below);
        }
        Ok(Self { files, raw: Vec::with_capacity(CHUNK_BYTES) })
    }

    /// The newest file, which says what the version is.
    pub fn top(&self) -> &SnapFile<R> {
        // There is one: it was put in before any other.
        &self.files[0]
    }

    /// All files, the newest first.
    pub fn files(&self) -> &[SnapFile<R>] {
        &self.files
    }

    /// Reads chunk `chunk`, checked page by page; `into` must be of the chunk's length. After an
    /// error it holds nothing of use.
    pub fn read(&mut self, chunk: u32, into: &mut [u8]) -> Result<(), FileError> {
        let Self { files, raw } = self;
        let bytes = chunk_bytes(files[0].header().length, chunk);
        if into.len() != bytes || bytes == 0 {
            return Err(FileError::Order { chunk });
        }
        into.fill(0);
        let Some(top) = files[0].index().find(chunk) else { return Ok(()) };
        let mut missing = top.nonzero;
        for file in files.iter() {
            let Some(record) = file.index().find(chunk) else { continue };
            let wanted = missing.and(&record.here);
            if wanted.is_empty() {
                continue;
            }
            file.frame(record, raw)?;
            let mut rest = &raw[..];
            for page in record.here.iter() {
                let place = page_range(bytes, page);
                let (part, after) = rest.split_at(place.len());
                rest = after;
                if !wanted.contains(page) {
                    continue;
                }
                if top.hash(page) != Some(&page_hash(part)) {
                    return Err(page_damaged(chunk, page));
                }
                into[place].copy_from_slice(part);
            }
            missing = missing.without(&wanted);
        }
        let lost = missing.iter().next();
        lost.map_or(Ok(()), |page| Err(page_damaged(chunk, page)))
    }
}

fn page_damaged(chunk: u32, page: usize) -> FileError {
    let within = page_range(CHUNK_BYTES, page).start as u64;
    let offset = u64::from(chunk) * CHUNK_BYTES as u64 + within;
    FileError::Damaged(Part::Page { offset })
}
