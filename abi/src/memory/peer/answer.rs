//! The answer to an operation on a region of another node.
//!
//! ```text
//! 0 refusal u16, 0 u16, 0 u32    8 result u64    16 word u64
//! ```
//! The payload is what was read; others have none. A refusal has neither result nor word, but that the
//! word of Busy says how long to wait.

use crate::wire::{Reader, WireError, Writer};

/// Bytes of the header.
pub const ANSWER_BYTES: usize = 24;

/// Why an operation was not done, or not to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u16)]
pub enum PeerRefusal {
    /// The asking node has no such handle there.
    NoHandle = 1,
    /// Its region is gone.
    Stale = 2,
    /// The handle does not allow it.
    Denied = 3,
    /// Not all of it lies in the region; nothing was touched.
    Range = 4,
    /// A word at no multiple of 8.
    Misaligned = 5,
    /// The region is on its way to other pieces: ask again.
    Again = 6,
    /// What was sent is no operation.
    Malformed = 7,
    /// A rate there is used up: ask again after so many nanoseconds as the word says.
    Busy = 8,
}

impl PeerRefusal {
    /// Every refusal, in order of number.
    pub const ALL: [PeerRefusal; 8] = [
        Self::NoHandle,
        Self::Stale,
        Self::Denied,
        Self::Range,
        Self::Misaligned,
        Self::Again,
        Self::Malformed,
        Self::Busy,
    ];
}

/// What came of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerAnswer {
    /// Bytes that are done; of words 8, or 0 where nothing was changed. Or why not.
    pub result: Result<u64, PeerRefusal>,
    /// What a word was before; of Busy how many nanoseconds to wait.
    pub word: u64,
}

impl PeerAnswer {
    /// It was done.
    pub const fn done(bytes: u64) -> Self {
        Self { result: Ok(bytes), word: 0 }
    }

    /// It was not.
    pub const fn refused(refusal: PeerRefusal) -> Self {
        Self { result: Err(refusal), word: 0 }
    }

    /// It was not, and may be asked for again after so long.
    pub const fn busy(ns: u64) -> Self {
        Self { result: Err(PeerRefusal::Busy), word: ns }
    }

    /// The header.
    pub fn encode(&self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        let mut w = Writer::new(&mut bytes);
        let (refusal, result) = match self.result {
            Ok(result) => (0, result),
            Err(refusal) => (refusal as u16, 0),
        };
        w.u16(refusal).u16(0).u32(0).u64(result).u64(self.word);
        bytes
    }

    /// The answer in a foreign header.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(header: &[u8]) -> Result<Self, WireError> {
        if header.len() != ANSWER_BYTES {
            return Err(WireError::Length { wanted: ANSWER_BYTES, found: header.len() });
        }
        let mut r = Reader::new(header);
        let (number, zeros, done, word) = (r.u16(), (r.u16(), r.u32()), r.u64(), r.u64());
        let known = PeerRefusal::ALL.into_iter().find(|it| *it as u16 == number);
        let wrong = WireError::Field { name: "refusal", found: u64::from(number) };
        let has_word = number == 0 || number == PeerRefusal::Busy as u16;
        if zeros != (0, 0) || number != 0 && done != 0 || !has_word && word != 0 {
            return Err(WireError::Reserved);
        }
        match number {
            0 => Ok(Self { result: Ok(done), word }),
            _ => Ok(Self { result: Err(known.ok_or(wrong)?), word }),
        }
    }
}
