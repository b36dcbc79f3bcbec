//! Messages in a stream of bytes: where each begins and how long its parts are.
//!
//! ```text
//!  0  u16  0x4c48, "HL"
//!  2  u16  bytes of the head
//!  4  u32  bytes of the payload
//!  8  the head, then the payload
//! ```
//!
//! Pure. A length is checked before anything is kept for it.

use crate::limits::{HEAD_AND_HEADER_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::transport::{Malformation, Message};

/// What each message begins with.
pub const PREFIX_BYTES: usize = 8;
/// The payload of a message before the link is admitted: any record of the handshake fits.
pub const STRANGER_PAYLOAD_BYTES_MAX: usize = 128;

const MAGIC: u16 = 0x4c48;

/// The prefix of a message within the limits.
pub fn prefix(message: &Message) -> [u8; PREFIX_BYTES] {
    let mut bytes = [0; PREFIX_BYTES];
    bytes[..2].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[2..4].copy_from_slice(&(message.head.len() as u16).to_le_bytes());
    bytes[4..].copy_from_slice(&(message.payload.len() as u32).to_le_bytes());
    bytes
}

/// A message of which some bytes are here.
#[derive(Debug)]
pub struct Assembly {
    prefix: [u8; PREFIX_BYTES],
    message: Message,
    /// Of prefix, head and payload together.
    filled: usize,
    payload_bytes_max: usize,
}

impl Default for Assembly {
    fn default() -> Assembly {
        Assembly {
            prefix: [0; PREFIX_BYTES],
            message: Message::default(),
            filled: 0,
            payload_bytes_max: STRANGER_PAYLOAD_BYTES_MAX,
        }
    }
}

impl Assembly {
    /// Takes payloads of any length that a message may have, from the next message on.
    pub fn admit(&mut self) {
        self.payload_bytes_max = PAYLOAD_BYTES_MAX;
    }

    /// Whether the link is not admitted. Then no byte beyond the message is to be read, since the
    /// next one may be admitted already.
    pub fn is_stranger(&self) -> bool {
        self.payload_bytes_max == STRANGER_PAYLOAD_BYTES_MAX
    }

    /// The bytes that the part which is being filled still lacks; never 0.
    pub fn lacks(&self) -> usize {
        match self.filled.checked_sub(PREFIX_BYTES) {
            None => PREFIX_BYTES - self.filled,
            Some(filled) => self.message.head.len() + self.message.payload.len() - filled,
        }
    }

    /// Where the rest of the payload goes, if it is being filled; [`Assembly::filled`] says how much.
    pub fn payload_rest(&mut self) -> Option<&mut [u8]> {
        let filled = self.filled.checked_sub(PREFIX_BYTES + self.message.head.len())?;
        self.message.payload.get_mut(filled..).filter(|rest| !rest.is_empty())
    }

    /// So many bytes were written to [`Assembly::payload_rest`]; the message, if it is whole.
    pub fn filled(&mut self, bytes: usize) -> Option<Message> {
        self.filled += bytes;
        self.take_whole()
    }

    /// Takes bytes from the front of `bytes`, up to the end of one part of the message.
    pub fn feed(&mut self, bytes: &mut &[u8]) -> Result<Option<Message>, Malformation> {
        let count = self.lacks().min(bytes.len());
        let (part, rest) = bytes.split_at(count);
        *bytes = rest;
        if self.filled < PREFIX_BYTES {
            self.prefix[self.filled..self.filled + count].copy_from_slice(part);
            self.filled += count;
            if self.filled < PREFIX_BYTES {
                return Ok(None);
            }
            self.begin()?;
        } else {
            self.fill(part);
        }
        Ok(self.take_whole())
    }

    /// Reads the prefix, and makes room for what it announces.
    fn begin(&mut self) -> Result<(), Malformation> {
        let [m0, m1, h0, h1, p0, p1, p2, p3] = self.prefix;
        if u16::from_le_bytes([m0, m1]) != MAGIC {
            return Err(Malformation::NoMessage);
        }
        let head_bytes = u16::from_le_bytes([h0, h1]) as usize;
        let payload_bytes = u32::from_le_bytes([p0, p1, p2, p3]) as usize;
        for (found, limit) in
            [(head_bytes, HEAD_AND_HEADER_BYTES_MAX), (payload_bytes, self.payload_bytes_max)]
        {
            if found > limit {
                return Err(Malformation::TooLong { found: found as u64, limit: limit as u64 });
            }
        }
        // The kernel's zero pages: a payload that never comes costs no memory.
        self.message = Message { head: vec![0; head_bytes], payload: vec![0; payload_bytes] };
        Ok(())
    }

    fn fill(&mut self, part: &[u8]) {
        let at = self.filled - PREFIX_BYTES;
        let of_head = self.message.head.len().saturating_sub(at).min(part.len());
        let (head, payload) = part.split_at(of_head);
        if !head.is_empty() {
            self.message.head[at..at + of_head].copy_from_slice(head);
        }
        let at = (at + of_head) - self.message.head.len().min(at + of_head);
        self.message.payload[at..at + payload.len()].copy_from_slice(payload);
        self.filled += part.len();
    }

    fn take_whole(&mut self) -> Option<Message> {
        let whole = PREFIX_BYTES + self.message.head.len() + self.message.payload.len();
        if self.filled < whole || self.filled < PREFIX_BYTES {
            return None;
        }
        self.filled = 0;
        Some(std::mem::take(&mut self.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(head: usize, payload: usize) -> Message {
        Message { head: vec![1; head], payload: vec![2; payload] }
    }

    fn bytes(messages: &[Message]) -> Vec<u8> {
        let parts = messages
            .iter()
            .map(|message| [prefix(message).as_slice(), &message.head, &message.payload].concat());
        parts.collect::<Vec<_>>().concat()
    }

    fn feed_in_pieces(assembly: &mut Assembly, stream: &[u8], piece: usize) -> Vec<Message> {
        let mut found = Vec::new();
        for mut bytes in stream.chunks(piece) {
            while !bytes.is_empty() {
                found.extend(assembly.feed(&mut bytes).expect("well formed"));
            }
        }
        found
    }

    #[test]
    fn messages_come_out_as_they_went_in_however_the_stream_is_cut() {
        let messages =
            [message(40, 0), message(0, 0), message(40, 100), message(0, 7), message(512, 128)];
        let stream = bytes(&messages);
        for piece in 1..stream.len() {
            let found = feed_in_pieces(&mut Assembly::default(), &stream, piece);
            assert_eq!(found, messages, "pieces of {piece}");
        }
    }

    #[test]
    fn a_payload_can_be_written_where_it_belongs() {
        let mut assembly = Assembly::default();
        assembly.admit();
        let whole = message(4, 1000);
        let stream = bytes(std::slice::from_ref(&whole));
        assert_eq!(feed_in_pieces(&mut assembly, &stream[..PREFIX_BYTES + 4 + 10], 5), []);
        assembly.payload_rest().expect("a payload")[..600].fill(2);
        assert_eq!(assembly.filled(600), None);
        let rest = assembly.payload_rest().expect("a payload");
        assert_eq!(rest.len(), 390);
        rest.fill(2);
        assert_eq!(assembly.filled(390), Some(whole));
        assert!(assembly.payload_rest().is_none());
    }

    #[test]
    fn bytes_that_begin_otherwise_are_no_message() {
        let mut garbage: &[u8] = b"GET / HTTP/1.1";
        assert_eq!(Assembly::default().feed(&mut garbage), Err(Malformation::NoMessage));
    }

    #[test]
    fn a_stranger_sends_no_long_payload_and_nobody_one_beyond_the_limit() {
        let limit = STRANGER_PAYLOAD_BYTES_MAX;
        let long = bytes(&[message(0, limit + 1)]);
        let too_long = |limit: usize| {
            Err(Malformation::TooLong { found: limit as u64 + 1, limit: limit as u64 })
        };
        assert_eq!(Assembly::default().feed(&mut &long[..]), too_long(limit));
        let mut admitted = Assembly::default();
        admitted.admit();
        let longer = bytes(&[message(0, PAYLOAD_BYTES_MAX + 1)]);
        assert_eq!(admitted.feed(&mut &longer[..]), too_long(PAYLOAD_BYTES_MAX));
        let head = bytes(&[message(HEAD_AND_HEADER_BYTES_MAX + 1, 0)]);
        assert_eq!(Assembly::default().feed(&mut &head[..]), too_long(HEAD_AND_HEADER_BYTES_MAX));
    }
}
