//! Records of the store service: any body is refused, or is a request or reply in its one form.
#![no_main]

use heliostat_abi::store::request::FIRST;
use heliostat_abi::store::{StoreReply, StoreRequest};
use heliostat_fuzz_control::own_records;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((request, reply)) = own_records(FIRST, bytes) else { return };
    if let Ok(decoded) = StoreRequest::decode(&request) {
        assert_eq!(decoded.encode(), request);
    }
    if let Ok(decoded) = StoreReply::decode(&reply) {
        assert_eq!(decoded.encode(), reply);
    }
});
