//! What a server loop answers to a message of another node: 8 bytes, a number and zeros.

use crate::wire::{Reader, WireError, Writer};

/// Bytes of an answer's header; it has no payload.
pub const ANSWER_BYTES: usize = 8;

/// The answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerAnswer {
    /// A server has received the call; the message is in line; the reply was heard.
    Done,
    /// Nobody serves the function any more.
    Gone,
    /// It was not granted to that user of that node.
    NotGranted,
    /// There is no room in line, or that node has as many calls here as may be.
    Full,
    /// Its time was over before a server was free, or before there was room.
    TimedOut,
    /// The caller left before a server was free.
    Left,
    /// It is longer than the function carries.
    TooLong,
    /// It is no message, or names a call that is under way.
    Malformed,
    /// Nobody waits for that reply.
    NobodyWaits,
}

impl PeerAnswer {
    const ALL: [PeerAnswer; 9] = [
        Self::Done,
        Self::Gone,
        Self::NotGranted,
        Self::Full,
        Self::TimedOut,
        Self::Left,
        Self::TooLong,
        Self::Malformed,
        Self::NobodyWaits,
    ];

    fn number(self) -> u16 {
        Self::ALL.iter().position(|it| *it == self).map_or(0, |at| at as u16)
    }

    /// The header.
    pub fn encode(self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        Writer::new(&mut bytes).u16(self.number());
        bytes
    }

    /// The answer in a foreign header.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(header: &[u8]) -> Result<Self, WireError> {
        if header.len() != ANSWER_BYTES {
            return Err(WireError::Length { wanted: ANSWER_BYTES, found: header.len() });
        }
        let mut r = Reader::new(header);
        let number = r.u16();
        let wrong = WireError::Field { name: "answer", found: u64::from(number) };
        let answer = *Self::ALL.get(usize::from(number)).ok_or(wrong)?;
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok(answer)
    }
}
