//! Records of the store service: any body is refused, or is a request or reply in its one form.
#![no_main]

use heliostat_abi::session::record::{Own, REPLY_BODY_BYTES, REQUEST_BODY_BYTES};
use heliostat_abi::store::request::FIRST;
use heliostat_abi::store::{StoreReply, StoreRequest};
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
    if let Ok(decoded) = StoreRequest::decode(&request) {
        assert_eq!(decoded.encode(), request);
    }
    let reply = Own { number, body: body::<REPLY_BODY_BYTES>(rest) };
    if let Ok(decoded) = StoreReply::decode(&reply) {
        assert_eq!(decoded.encode(), reply);
    }
});
