//! Requests from clients: any bytes are a request or an error, and a request means one thing.
#![no_main]

use heliostat_abi::session::record::Request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match Request::decode(bytes) {
        // A program's name that is no text is repaired for people, so it need not return as it
        // came; it decides nothing.
        Ok((Request::Hello { .. }, _)) | Err(_) => {}
        Ok((request, sequence)) => {
            let again = Request::decode(&request.encode(sequence));
            assert_eq!(again, Ok((request, sequence)));
        }
    }
});
