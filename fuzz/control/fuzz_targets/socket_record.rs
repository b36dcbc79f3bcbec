//! What is asked of delegated sockets: requests, replies, addresses, entries of Poll, a worker's facts.
#![no_main]

use heliostat_abi::lean::{Facts, FACTS_USED_BYTES};
use heliostat_abi::socket::operation::{
    decode_address, encode_address, PollEntry, ADDRESS_BYTES, POLL_ENTRY_BYTES,
};
use heliostat_abi::socket::request::FIRST;
use heliostat_abi::socket::{SocketReply, SocketRequest};
use heliostat_fuzz_control::{filled, own_records};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((request, reply)) = own_records(FIRST, bytes) else { return };
    let rest = &bytes[1..];
    if let Ok(found) = SocketRequest::decode(&request) {
        // Hosts have bytes that say nothing: what was understood is understood again.
        assert_eq!(SocketRequest::decode(&found.encode()), Ok(found));
    }
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
