//! Records of shared listeners: any bytes are refused, or are a record in its one form.
#![no_main]

use heliostat_abi::listener::request::FIRST;
use heliostat_abi::listener::{Handed, ListenerReply, ListenerRequest};
use heliostat_abi::session::record::{Own, REPLY_BODY_BYTES, REQUEST_BODY_BYTES};
use libfuzzer_sys::fuzz_target;

/// The body of a record: what there is, and zeroes behind it.
fn body<const BYTES: usize>(bytes: &[u8]) -> [u8; BYTES] {
    let mut body = [0; BYTES];
    let length = bytes.len().min(BYTES);
    body[..length].copy_from_slice(&bytes[..length]);
    body
}

fuzz_target!(|bytes: &[u8]| {
    // The first byte is the number within the service: of requests up to 127, of replies from 128 on.
    let Some((number, rest)) = bytes.split_first() else { return };
    let number = FIRST + u16::from(*number);
    let request = Own { number, body: body::<REQUEST_BODY_BYTES>(rest) };
    if let Ok(decoded) = ListenerRequest::decode(&request) {
        // An address has other forms that are read (IPv4 in IPv6): what is written is read as the same.
        assert_eq!(ListenerRequest::decode(&decoded.encode()), Ok(decoded));
    }
    let reply = Own { number, body: body::<REPLY_BODY_BYTES>(rest) };
    if let Ok(decoded) = ListenerReply::decode(&reply) {
        assert_eq!(decoded.encode(), reply);
    }
    if let Ok(decoded) = Handed::decode(rest) {
        assert_eq!(Handed::decode(&decoded.encode()), Ok(decoded));
    }
});
