//! What the targets of services' own records share: an input is a number and a body.

use heliostat_abi::session::record::{OwnReply, OwnRequest, REPLY_BODY_BYTES, REQUEST_BODY_BYTES};

/// The input's beginning, with zeros behind it.
pub fn filled<const BYTES: usize>(bytes: &[u8]) -> [u8; BYTES] {
    let mut all = [0; BYTES];
    let length = bytes.len().min(BYTES);
    all[..length].copy_from_slice(&bytes[..length]);
    all
}

/// Reads an input as a request and as a reply of the service whose first number is `first`. Its first
/// byte is the number within the service: of requests up to 127, of replies from 128 on.
pub fn own_records(first: u16, bytes: &[u8]) -> Option<(OwnRequest, OwnReply)> {
    let (number, rest) = bytes.split_first()?;
    let number = first + u16::from(*number);
    let request = OwnRequest { number, body: filled::<REQUEST_BODY_BYTES>(rest) };
    let reply = OwnReply { number, body: filled::<REPLY_BODY_BYTES>(rest) };
    Some((request, reply))
}
