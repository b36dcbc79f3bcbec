//! Parts of an operation by the emulated way: each goes over the ring once.

use std::collections::VecDeque;

use heliostat_abi::file::delegated::OpKind;
use heliostat_backend_block::{Buffer, Request};

use crate::pages::PageRun;

/// Bytes that one part moves.
const PART_BYTES: u64 = 256 << 10;

/// A part of an operation: what goes over the ring once.
pub(crate) struct Part {
    pub(crate) place: usize,
    pub(crate) kind: OpKind,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Where its bytes lie in this process.
    pub(crate) buffer: Option<Buffer>,
    /// Where they lie in the window, if they were given a place there.
    pub(crate) run: Option<PageRun>,
    /// The pages of a buffer that is a part of the window: nobody else gets them before this has ended.
    pub(crate) kept: Option<PageRun>,
}

impl Part {
    /// One that moves no bytes.
    pub(crate) fn plain(place: usize, kind: OpKind, offset: u64, bytes: u64) -> Part {
        Part { place, kind, offset, bytes, buffer: None, run: None, kept: None }
    }

    /// All pages that it has.
    pub(crate) fn runs(&self) -> impl Iterator<Item = PageRun> + use<> {
        [self.run, self.kept].into_iter().flatten()
    }
}

/// The parts of a request, which was checked.
pub(crate) fn push_parts(parts: &mut VecDeque<Part>, place: usize, request: &Request) {
    let (kind, offset, bytes, buffer) = match request {
        Request::Read { offset, into } => (OpKind::Read, *offset, into.bytes as u64, Some(into)),
        Request::Write { offset, from, durable: false } => {
            (OpKind::Write, *offset, from.bytes as u64, Some(from))
        }
        Request::Write { offset, from, durable: true } => {
            (OpKind::WriteDurable, *offset, from.bytes as u64, Some(from))
        }
        Request::Flush => (OpKind::Fsync, 0, 0, None),
        Request::Discard { offset, bytes } => (OpKind::Discard, *offset, *bytes, None),
        Request::Zero { offset, bytes } => (OpKind::Zero, *offset, *bytes, None),
    };
    let Some(buffer) = buffer else {
        return parts.push_back(Part::plain(place, kind, offset, bytes));
    };
    let mut done = 0;
    while done < bytes {
        let here = PART_BYTES.min(bytes - done);
        let buffer = Some(buffer.part(done as usize, here as usize));
        let offset = offset + done;
        let (run, kept) = (None, None);
        parts.push_back(Part { place, kind, offset, bytes: here, buffer, run, kept });
        done += here;
    }
}
