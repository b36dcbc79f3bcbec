//! The messages of one link in the order in which they were sent.
//!
//! UCX keeps the order of messages that are copied, but one whose payload is fetched from its sender
//! is whole later than those after it. So each carries a number, and waits for those before it.

use std::collections::BTreeMap;

use heliostat_backend_transport::limits::{
    HEAD_AND_HEADER_BYTES_MAX, PAYLOAD_BYTES_MAX, WINDOW_BYTES,
};
use heliostat_backend_transport::transport::{Malformation, Message};

/// The number in front of each head.
pub const NUMBER_BYTES: usize = 8;

/// Messages ahead of their turn: as many as two windows hold.
const AHEAD_MAX: u64 = 65_536;
/// Bytes of messages that wait or are being fetched: both windows and the control messages.
const HELD_BYTES_MAX: u64 = 3 * WINDOW_BYTES;

/// What came and waits; `P` is a payload that is still at its sender.
#[derive(Debug)]
pub struct Inbox<P> {
    next: u64,
    held: BTreeMap<u64, Held<P>>,
    held_bytes: u64,
}

#[derive(Debug)]
enum Held<P> {
    Whole(Message),
    /// At its sender, with the head that came.
    Away(Vec<u8>, P, usize),
    /// On its way.
    Fetched,
}

impl<P> Default for Inbox<P> {
    fn default() -> Inbox<P> {
        Inbox { next: 0, held: BTreeMap::new(), held_bytes: 0 }
    }
}

impl<P> Inbox<P> {
    /// Takes a whole message that came.
    pub fn take_in(&mut self, header: &[u8], payload: Vec<u8>) -> Result<(), Malformation> {
        let (number, head) = self.admit(header, payload.len())?;
        self.held.insert(number, Held::Whole(Message { head: head.to_vec(), payload }));
        Ok(())
    }

    /// Takes the head of a message whose payload is still at its sender.
    pub fn announce(
        &mut self,
        header: &[u8],
        payload: P,
        payload_bytes: usize,
    ) -> Result<(), (Malformation, P)> {
        match self.admit(header, payload_bytes) {
            Ok((number, head)) => {
                let away = Held::Away(head.to_vec(), payload, payload_bytes);
                self.held.insert(number, away);
                Ok(())
            }
            Err(wrong) => Err((wrong, payload)),
        }
    }

    /// A payload was fetched: the message of this number is whole.
    pub fn complete(&mut self, number: u64, message: Message) {
        self.held.insert(number, Held::Whole(message));
    }

    /// A payload that nobody fetches yet, whoever's turn it is: its number, its head, and the payload.
    pub fn next_away(&mut self) -> Option<(u64, Vec<u8>, P)> {
        let is_away = |held: &Held<P>| matches!(held, Held::Away(..));
        let number = self.held.iter().find(|(_, held)| is_away(held)).map(|(number, _)| *number)?;
        match self.held.insert(number, Held::Fetched) {
            Some(Held::Away(head, payload, _)) => Some((number, head, payload)),
            _ => None,
        }
    }

    /// What has its turn; a payload only if it is not longer than `bytes_max`.
    pub fn take(&mut self, bytes_max: usize) -> Result<Option<Message>, Malformation> {
        let (bytes, is_whole) = match self.held.get(&self.next) {
            Some(Held::Whole(message)) => (message.payload.len(), true),
            Some(Held::Away(_, _, bytes)) => (*bytes, false),
            Some(Held::Fetched) | None => return Ok(None),
        };
        if bytes > bytes_max {
            return Err(Malformation::TooLong { found: bytes as u64, limit: bytes_max as u64 });
        }
        if !is_whole {
            return Ok(None);
        }
        let Some(Held::Whole(message)) = self.held.remove(&self.next) else { return Ok(None) };
        self.held_bytes -= message.payload.len() as u64;
        self.next += 1;
        Ok(Some(message))
    }

    /// The payloads that nobody fetched.
    pub fn into_away(self) -> impl Iterator<Item = P> {
        self.held.into_values().filter_map(|held| match held {
            Held::Away(_, payload, _) => Some(payload),
            Held::Whole(_) | Held::Fetched => None,
        })
    }

    /// Reads a message's number, and counts its bytes.
    fn admit<'a>(
        &mut self,
        header: &'a [u8],
        payload_bytes: usize,
    ) -> Result<(u64, &'a [u8]), Malformation> {
        let (number, head) =
            header.split_first_chunk::<NUMBER_BYTES>().ok_or(Malformation::NoMessage)?;
        let number = u64::from_le_bytes(*number);
        let is_ahead = number >= self.next && number - self.next < AHEAD_MAX;
        if !is_ahead || self.held.contains_key(&number) {
            return Err(Malformation::NoMessage);
        }
        for (found, limit) in [
            (head.len() as u64, HEAD_AND_HEADER_BYTES_MAX as u64),
            (payload_bytes as u64, PAYLOAD_BYTES_MAX as u64),
            (self.held_bytes + payload_bytes as u64, HELD_BYTES_MAX),
        ] {
            if found > limit {
                return Err(Malformation::TooLong { found, limit });
            }
        }
        self.held_bytes += payload_bytes as u64;
        Ok((number, head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: usize = usize::MAX;

    fn header(number: u64) -> Vec<u8> {
        [number.to_le_bytes().as_slice(), b"head"].concat()
    }

    fn message(payload: &[u8]) -> Message {
        Message { head: b"head".to_vec(), payload: payload.to_vec() }
    }

    #[test]
    fn a_message_that_is_fetched_holds_up_those_after_it() {
        let mut inbox = Inbox::default();
        inbox.announce(&header(0), "away", 3).expect("in order");
        inbox.take_in(&header(1), b"b".to_vec()).expect("in order");
        assert_eq!(inbox.take(ALL), Ok(None));
        assert_eq!(inbox.next_away(), Some((0, b"head".to_vec(), "away")));
        assert_eq!((inbox.next_away(), inbox.take(ALL)), (None, Ok(None)));
        inbox.complete(0, message(b"aaa"));
        assert_eq!(inbox.take(ALL), Ok(Some(message(b"aaa"))));
        assert_eq!(inbox.take(ALL), Ok(Some(message(b"b"))));
        assert_eq!((inbox.take(ALL), inbox.held_bytes), (Ok(None), 0));
    }

    #[test]
    fn numbers_that_came_are_far_ahead_or_missing_are_refused() {
        let mut inbox = Inbox::<()>::default();
        let refused = Err(Malformation::NoMessage);
        inbox.take_in(&header(0), vec![]).expect("in order");
        assert_eq!(inbox.take_in(&header(0), vec![]), refused);
        inbox.take(ALL).expect("short").expect("whole");
        assert_eq!(inbox.take_in(&header(0), vec![]), refused);
        assert_eq!(inbox.take_in(&header(1 + AHEAD_MAX), vec![]), refused);
        assert_eq!(inbox.take_in(b"short", vec![]), refused);
    }

    #[test]
    fn a_payload_beyond_what_its_turn_allows_is_refused_whole_or_away() {
        let too_long = Err(Malformation::TooLong { found: 3, limit: 2 });
        let mut inbox = Inbox::<()>::default();
        inbox.take_in(&header(0), vec![0; 3]).expect("in order");
        assert_eq!(inbox.take(2), too_long);
        let mut inbox = Inbox::default();
        inbox.announce(&header(0), "away", 3).expect("in order");
        assert_eq!(inbox.take(2), too_long);
        assert_eq!(inbox.into_away().collect::<Vec<_>>(), ["away"]);
    }

    #[test]
    fn more_than_the_windows_hold_is_refused() {
        let mut inbox = Inbox::default();
        let fitting = HELD_BYTES_MAX / PAYLOAD_BYTES_MAX as u64;
        for number in 0..fitting {
            inbox.announce(&header(number), (), PAYLOAD_BYTES_MAX).expect("fits");
        }
        let refused = inbox.announce(&header(fitting), (), PAYLOAD_BYTES_MAX);
        assert!(matches!(refused, Err((Malformation::TooLong { limit: HELD_BYTES_MAX, .. }, ()))));
        let single = Inbox::default().announce(&header(0), (), PAYLOAD_BYTES_MAX + 1);
        assert!(matches!(single, Err((Malformation::TooLong { .. }, ()))));
    }
}
