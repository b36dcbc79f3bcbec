//! What is asked of delegated sockets: requests, replies, addresses, entries of Poll, a worker's facts.
#![no_main]

use heliostat_abi::lean::{Facts, FACTS_USED_BYTES};
use heliostat_abi::session::record::{OwnReply, OwnRequest, REPLY_BODY_BYTES, REQUEST_BODY_BYTES};
use heliostat_abi::socket::operation::{
    decode_address, encode_address, PollEntry, ADDRESS_BYTES, POLL_ENTRY_BYTES,
};
use heliostat_abi::socket::{SocketReply, SocketRequest};
use libfuzzer_sys::fuzz_target;

/// The input's beginning, with zeros behind it.
fn filled<const BYTES: usize>(bytes: &[u8]) -> [u8; BYTES] {
    let mut all = [0; BYTES];
    let length = bytes.len().min(BYTES);
    all[..length].copy_from_slice(&bytes[..length]);
    all
}

fuzz_target!(|bytes: &[u8]| {
    let Some((number, rest)) = bytes.split_first() else { return };
    let number = 14 << 8 | u16::from(*number);
    let request = OwnRequest { number, body: filled::<REQUEST_BODY_BYTES>(rest) };
    if let Ok(found) = SocketRequest::decode(&request) {
        // Hosts have bytes that say nothing: what was understood is understood again.
        assert_eq!(SocketRequest::decode(&found.encode()), Ok(found));
    }
    let reply = OwnReply { number, body: filled::<REPLY_BODY_BYTES>(rest) };
    if let Ok(found) = SocketReply::decode(&reply) {
        assert_eq!(found.encode(), reply);
    }
    if let Some(address) = decode_address(&filled::<ADDRESS_BYTES>(rest)) {
        assert_eq!(decode_address(&encode_address(address)), Some(address));
    }
    if let Some(entry) = PollEntry::decode(&filled::<POLL_ENTRY_BYTES>(rest)) {
        assert_eq!(PollEntry::decode(&entry.encode()), Some(entry));
    }
    if let Some(facts) = Facts::decode(&filled::<FACTS_USED_BYTES>(rest)) {
        assert_eq!(facts.encode(), filled::<FACTS_USED_BYTES>(rest));
    }
});
