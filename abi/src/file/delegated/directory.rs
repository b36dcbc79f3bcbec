//! Entries of a directory, as Readdir packs them into its pieces.
//!
//! ```text
//! entry   0 inode u64
//!         8 cookie u64      Readdir's offset for what comes after this entry
//!        16 bytes of the name u16
//!        18 type u8         of the entry itself, as d_type of readdir(3); 0 where unknown
//!        19 0 x 5
//!        24 name            then zeros up to a multiple of 8
//! ```
//!
//! An entry may begin in one piece and end in the next. `.` and `..` are left out.

use crate::wire::{Reader, Writer};

/// Length of an entry without its name.
pub const ENTRY_HEAD_BYTES: usize = 24;
/// Longest name of an entry (NAME_MAX of Linux).
pub const ENTRY_NAME_BYTES_MAX: usize = 255;
/// Longest entry; a Readdir whose pieces hold less is none, so that each brings an entry.
pub const ENTRY_BYTES_MAX: usize = ENTRY_HEAD_BYTES + ENTRY_NAME_BYTES_MAX.next_multiple_of(8);
/// Bytes that one Readdir brings at most, however long its pieces are: they are packed beside the
/// server loop, which then copies them in one step.
pub const ENTRIES_BYTES_MAX: usize = 64 * 1024;

/// One entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryEntry<'a> {
    /// Its number on the device.
    pub inode: u64,
    /// Readdir's offset for what comes after it.
    pub cookie: u64,
    /// What it is (DT_REG, DT_DIR, DT_LNK, ...); 0 where the file system does not say.
    pub kind: u8,
    /// Its name: any bytes but zero and `/`.
    pub name: &'a [u8],
}

impl DirectoryEntry<'_> {
    /// Packs it behind others; false, with nothing added, when that would be more than `limit`
    /// bytes, or the name is longer than any.
    pub fn pack(&self, into: &mut Vec<u8>, limit: usize) -> bool {
        let length = ENTRY_HEAD_BYTES + self.name.len().next_multiple_of(8);
        if self.name.len() > ENTRY_NAME_BYTES_MAX || into.len() + length > limit {
            return false;
        }
        let mut head = [0; ENTRY_HEAD_BYTES];
        let mut w = Writer::new(&mut head);
        w.u64(self.inode).u64(self.cookie).u16(self.name.len() as u16).u8(self.kind);
        let end = into.len() + length;
        into.extend_from_slice(&head);
        into.extend_from_slice(self.name);
        into.resize(end, 0);
        true
    }
}

/// The entries in bytes that a Readdir has brought; ends where they are no entry.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntries<'a>(pub &'a [u8]);

impl<'a> Iterator for DirectoryEntries<'a> {
    type Item = DirectoryEntry<'a>;

    fn next(&mut self) -> Option<DirectoryEntry<'a>> {
        let mut r = Reader::new(self.0.get(..ENTRY_HEAD_BYTES)?);
        let (inode, cookie, length, kind) = (r.u64(), r.u64(), usize::from(r.u16()), r.u8());
        let name = self.0.get(ENTRY_HEAD_BYTES..)?.get(..length)?;
        self.0 = self.0.get(ENTRY_HEAD_BYTES + length.next_multiple_of(8)..).unwrap_or(&[]);
        Some(DirectoryEntry { inode, cookie, kind, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &[u8]) -> DirectoryEntry<'_> {
        DirectoryEntry { inode: 7, cookie: i64::MAX as u64, kind: 8, name }
    }

    #[test]
    fn entries_of_every_length_come_back_as_they_were_packed() {
        let names: Vec<Vec<u8>> = (1..=ENTRY_NAME_BYTES_MAX).map(|len| vec![b'n'; len]).collect();
        let mut bytes = Vec::new();
        assert!(names.iter().all(|name| entry(name).pack(&mut bytes, usize::MAX)));
        assert_eq!(bytes.len() % 8, 0);
        assert!(DirectoryEntries(&bytes).eq(names.iter().map(|name| entry(name))));
    }

    #[test]
    fn what_does_not_fit_is_not_packed_and_leaves_nothing() {
        let mut bytes = Vec::new();
        assert!(entry(&[b'n'; 255]).pack(&mut bytes, ENTRY_BYTES_MAX));
        assert_eq!(bytes.len(), ENTRY_BYTES_MAX);
        let before = bytes.clone();
        assert!(!entry(b"x").pack(&mut bytes, before.len() + 31));
        assert!(!entry(&[b'n'; 256]).pack(&mut bytes, usize::MAX));
        assert_eq!(bytes, before);
    }

    #[test]
    fn bytes_that_are_no_entry_end_the_list() {
        let mut bytes = Vec::new();
        assert!(entry(b"abc").pack(&mut bytes, 100));
        let mut long = bytes.clone();
        long[16] = 200;
        assert_eq!(DirectoryEntries(&long).next(), None);
        for length in 0..ENTRY_HEAD_BYTES + 3 {
            assert_eq!(DirectoryEntries(&bytes[..length]).next(), None, "{length}");
        }
    }
}
