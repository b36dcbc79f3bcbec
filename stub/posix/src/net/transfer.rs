//! What a transfer is made of: where its bytes come from, and the pieces of a large one.

use std::io::IoSlice;

/// Piece of a large transfer: long enough to forget its overhead, short enough for both sides to
/// copy at the same time and for the piece to stay in the first-level cache.
pub const PIECE_BYTES: usize = 16 * 1024;

/// What is to be sent: the program's buffers, or a file's bytes.
pub enum Source<'a> {
    /// With the flags of the call.
    Buffers(&'a [IoSlice<'a>], i32),
    /// At most `limit` bytes from `offset`, or from the file's own position.
    File {
        /// The file.
        fd: i32,
        /// Where to begin.
        offset: Option<u64>,
        /// Bytes at most.
        limit: u64,
    },
}

impl Source<'_> {
    /// True when the program says that more follows.
    #[inline]
    pub fn is_continued(&self) -> bool {
        match self {
            Self::Buffers(_, flags) => flags & libc::MSG_MORE != 0,
            Self::File { .. } => false,
        }
    }
}
