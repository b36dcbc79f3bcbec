//! Report entries from stubs: any bytes are an entry or nothing.
#![no_main]

use heliostat_abi::session::report::{Entry, ENTRY_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(bytes) = <&[u8; ENTRY_BYTES]>::try_from(bytes) else { return };
    if let Some(entry) = Entry::decode(bytes) {
        assert_eq!(Entry::decode(&entry.encode()), Some(entry));
    }
});
