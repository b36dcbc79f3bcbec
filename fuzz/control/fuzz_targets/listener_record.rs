//! Records of shared listeners: any bytes are refused, or are a record in its one form.
#![no_main]

use heliostat_abi::listener::request::FIRST;
use heliostat_abi::listener::{Handed, ListenerReply, ListenerRequest};
use heliostat_fuzz_control::own_records;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((request, reply)) = own_records(FIRST, bytes) else { return };
    if let Ok(decoded) = ListenerRequest::decode(&request) {
        // An address has other forms that are read (IPv4 in IPv6): what is written is read as the same.
        assert_eq!(ListenerRequest::decode(&decoded.encode()), Ok(decoded));
    }
    if let Ok(decoded) = ListenerReply::decode(&reply) {
        assert_eq!(decoded.encode(), reply);
    }
    if let Ok(decoded) = Handed::decode(&bytes[1..]) {
        assert_eq!(Handed::decode(&decoded.encode()), Ok(decoded));
    }
});
