//! The note by which Heliostat's own libraries are known in a program that is under it.
//!
//! They make system calls by themselves, on descriptors of their own, and want none of them caught.
//! The note lies in a section of its own, for the loader's view to show it:
//!
//! ```text
//! length of the name  length of the content  kind  name
//! 10                  0                      1     "Heliostat", zero-padded to 12 bytes
//! ```

/// The note's name as it lies in memory.
pub const NAME: &[u8] = b"Heliostat\0\0\0";
/// Its kind.
pub const KIND: u32 = 1;
/// The whole note, for the section `.note.heliostat`.
pub const NOTE: [u8; 24] = *b"\x0a\0\0\0\0\0\0\0\x01\0\0\0Heliostat\0\0\0";
