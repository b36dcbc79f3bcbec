#![no_main]

use heliostat_abi::session::record::OwnReply;
use heliostat_abi::stream::delegated::{self, Hand, GRANTED};
use libfuzzer_sys::fuzz_target;

// A message on a link, and the reply that brings a channel: what decodes says the same again.
fuzz_target!(|bytes: &[u8]| {
    if let Ok(hand) = Hand::decode(bytes) {
        assert_eq!(hand.encode(), bytes);
    }
    let mut body = [0; heliostat_abi::session::record::REPLY_BODY_BYTES];
    let length = bytes.len().min(body.len());
    body[..length].copy_from_slice(&bytes[..length]);
    if let Ok(entry) = delegated::granted(&OwnReply { number: GRANTED, body }) {
        assert_eq!(delegated::granted(&delegated::reply(&entry)), Ok(entry));
    }
});
