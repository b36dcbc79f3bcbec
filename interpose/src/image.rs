//! The image: a libc's patched text and its trampolines, made once and mapped by each process.
//!
//! To patch libc takes a process a private copy of some 65 pages, and as many again for the
//! trampolines and what they are made from: with programs that run for a millisecond that is a third
//! of their time. All that differs from process to process are the addresses of the hooks, which
//! only the routines know. So the trampolines lie at a fixed distance from libc ([`NEAR_AT`]), the
//! routines in a page of the process's own before them, and the rest is a file.
//!
//! ```text
//! header, one page   windows      frames       pages of trampolines   pages of text
//! words, below       40 bytes     .eh_frame    from code_at           from text_at
//! ```
//! A header is 64-bit words: magic, version, check word over the header, start and length of the
//! text segment, start and length of the pages of text (all from the load address), the load address
//! for which the frames were written, counts of windows, bytes of frames, bytes of trampolines,
//! sites that are caught, sites that cannot be; offsets of six routines; two build-ids (length and
//! 32 bytes each); pairs of number and reason. A window is its start (4 bytes), its length (4), and
//! the bytes that libc has there.
//!
//! It is believed under the same conditions as a site list ([`crate::cache`]), and only where it was
//! made by the very stub that maps it, for the very libc.

use crate::format::{bytes, check_word};
use crate::site::{BuildId, Reason, SITES_MAX, WINDOW_BYTES_MAX};
use std::ops::Range;

/// The first word.
const MAGIC: u64 = u64::from_le_bytes(*b"HELIOIMG");
/// The version written and read. Who lays routines or trampolines out differently raises it.
const VERSION: u64 = 1;
/// Length of the header; all parts begin at pages.
pub const PAGE: usize = 4096;
/// Length of a window's record.
pub const WINDOW_BYTES: usize = 8 + WINDOW_BYTES_MAX;
/// Where the routines lie, from libc's load address: so far below that nothing is there in most
/// programs, and near enough for a jump.
pub const NEAR_AT: i64 = -(1 << 28);
/// Routines, each with an offset in their page.
pub const ROUTINES: usize = 6;
/// Sites that cannot be caught, at most; glibc has seven.
const LEFT_MAX: usize = 64;
/// Bytes at most: glibc has 40,000 of frames, 50,000 of trampolines, and 1.3 million of text.
const FRAMES_MAX: usize = 1 << 20;
const CODE_MAX: usize = 1 << 20;
const TEXT_MAX: usize = 1 << 26;
const NO_NUMBER: u64 = u64::MAX;

/// What an image is of, and where its parts are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Whose text it is.
    pub libc: BuildId,
    /// Who made it.
    pub stub: BuildId,
    /// Start and length of the executable segment, from the load address.
    pub text: (u64, u64),
    /// Start and length of the pages that are mapped over it.
    pub span: (u64, u64),
    /// Load address for which the frames were written.
    pub base: u64,
    /// How many windows there are.
    pub windows: usize,
    /// Lengths of the frames and of the trampolines.
    pub frames: usize,
    /// A whole number of pages.
    pub code: usize,
    /// Sites that are caught.
    pub patched: usize,
    /// Where the routines are that trampolines call.
    pub routines: [u32; ROUTINES],
    /// Sites that were wanted and cannot be caught.
    pub left: Vec<(Option<u32>, Reason)>,
}

impl Header {
    /// Where the windows lie in the file.
    pub fn windows_at(&self) -> Range<usize> {
        PAGE..PAGE + self.windows * WINDOW_BYTES
    }

    /// Where the frames lie.
    pub fn frames_at(&self) -> Range<usize> {
        let start = self.windows_at().end;
        start..start + self.frames
    }

    /// Where the trampolines lie.
    pub fn code_at(&self) -> Range<usize> {
        let start = self.frames_at().end.next_multiple_of(PAGE);
        start..start + self.code
    }

    /// Where the text lies, which ends the file.
    pub fn text_at(&self) -> Range<usize> {
        let start = self.code_at().end;
        start..start + self.span.1 as usize
    }

    /// Writes it, one page; `None` if it has more to say than fits.
    pub fn encode(&self) -> Option<Vec<u8>> {
        if self.left.len() > LEFT_MAX {
            return None;
        }
        let mut words = vec![MAGIC, VERSION, 0, self.text.0, self.text.1, self.span.0, self.span.1];
        words.push(self.base);
        let counts = [self.windows, self.frames, self.code, self.patched, self.left.len()];
        words.extend(counts.map(|count| count as u64));
        words.extend(self.routines.map(u64::from));
        for id in [&self.libc, &self.stub] {
            let mut whole = id.as_bytes().to_vec();
            words.push(whole.len() as u64);
            whole.resize(ID_WORDS * 8, 0);
            words.extend(whole.chunks_exact(8).map(|word| u64::from_le_bytes(bytes(word, 0))));
        }
        for (number, reason) in &self.left {
            words.extend([number.map_or(NO_NUMBER, u64::from), *reason as u64]);
        }
        let mut page: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        page.resize(PAGE, 0);
        let check = check_word(&page);
        page[16..24].copy_from_slice(&check.to_le_bytes());
        Some(page)
    }

    /// Reads the first page of a file of `length` bytes; `None` for whatever `encode` would not
    /// have written, or for another length.
    pub fn decode(page: &[u8], length: usize) -> Option<Header> {
        let page = page.get(..PAGE)?;
        let mut words = page.chunks_exact(8).map(|word| u64::from_le_bytes(bytes(word, 0)));
        let mut next = || words.next();
        let is_ours = next()? == MAGIC && next()? == VERSION && next()? == check_word(page);
        if !is_ours {
            return None;
        }
        let text = (next()?, next()?);
        let span = (next()?, next()?);
        let base = next()?;
        let mut count = |most: usize| usize::try_from(next()?).ok().filter(|count| *count <= most);
        let (windows, frames) = (count(SITES_MAX)?, count(FRAMES_MAX)?);
        let (code, patched, lefts) = (count(CODE_MAX)?, count(SITES_MAX)?, count(LEFT_MAX)?);
        let mut routines = [0; ROUTINES];
        for routine in &mut routines {
            *routine = u32::try_from(count(PAGE)?).ok()?;
        }
        let mut id = || {
            let length = usize::try_from(words.next()?).ok()?;
            let whole: Vec<u8> =
                words.by_ref().take(ID_WORDS).flat_map(|word| word.to_le_bytes()).collect();
            BuildId::new(whole.get(..length)?)
        };
        let (libc, stub) = (id()?, id()?);
        let mut left = Vec::with_capacity(lefts);
        for _ in 0..lefts {
            let number = match words.next()? {
                NO_NUMBER => None,
                number => Some(u32::try_from(number).ok()?),
            };
            left.push((number, Reason::from_code(u8::try_from(words.next()?).ok()?)?));
        }
        let found =
            Self { libc, stub, text, span, base, windows, frames, code, patched, routines, left };
        (found.is_within() && found.text_at().end == length).then_some(found)
    }

    /// Whether its pages of text are pages that the segment has a part of, and all lengths are
    /// those of whole pages.
    fn is_within(&self) -> bool {
        let page = PAGE as u64;
        let (start, bytes) = self.span;
        let ends = start.checked_add(bytes).zip(self.text.0.checked_add(self.text.1));
        let is_whole = [start, bytes, self.code as u64].iter().all(|word| word % page == 0);
        let is_part = |(end, text_end): (u64, u64)| {
            start >= self.text.0 / page * page && end <= text_end.next_multiple_of(page)
        };
        is_whole && bytes > 0 && bytes <= TEXT_MAX as u64 && ends.is_some_and(is_part)
    }
}

/// Words of a build-id in a header.
const ID_WORDS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            libc: BuildId::new(&[7; 20]).unwrap(),
            stub: BuildId::new(&[9; 8]).unwrap(),
            text: (0x26000, 0x155fd0),
            span: (0x26000, 0x12c000),
            base: 0x7f00_0000_0000,
            windows: 470,
            frames: 33_000,
            code: 11 * PAGE,
            patched: 460,
            routines: [0, 352, 944, 1296, 1888, 2240],
            left: vec![(Some(15), Reason::Forbidden), (None, Reason::NoRoom)],
        }
    }

    #[test]
    fn what_was_written_is_read_again() {
        let header = header();
        let page = header.encode().unwrap();
        let length = header.text_at().end;
        assert_eq!(Header::decode(&page, length), Some(header));
        assert_eq!(Header::decode(&page, length + PAGE), None, "cut or longer");
        assert_eq!(Header::decode(&page[..PAGE - 1], length), None);
    }

    #[test]
    fn one_changed_byte_is_refused() {
        let (page, length) = (header().encode().unwrap(), header().text_at().end);
        for at in 0..PAGE {
            let mut changed = page.clone();
            changed[at] ^= 0x10;
            assert_eq!(Header::decode(&changed, length), None, "{at}");
        }
    }

    #[test]
    fn text_outside_of_the_segment_is_refused() {
        let of = |span, code| {
            let header = Header { span, code, ..header() };
            Header::decode(&header.encode().unwrap(), header.text_at().end).is_some()
        };
        assert!(of((0x26000, 0x156000), 0), "its last page is not whole");
        assert!(!of((0x25000, 0x1000), 0) && !of((0x26000, 0x157000), 0));
        assert!(!of((0x26800, 0x1000), 0) && !of((0x26000, 0x1000), 100));
        assert!(!of((0x26000, 0), 0) && !of((u64::MAX - 4095, 0x2000), 0));
    }
}
