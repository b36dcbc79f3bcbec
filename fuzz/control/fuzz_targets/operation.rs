//! Records in submission rings: any bytes are an operation or an error, and an operation lies inside.
#![no_main]

use heliostat_abi::delegated::{OneRead, Operation, OPERATION_BYTES_MAX};
use libfuzzer_sys::fuzz_target;

/// Small, so that pieces at its end are found soon.
const WINDOW_BYTES: u64 = 1 << 16;

fuzz_target!(|bytes: &[u8]| {
    let decoded = Operation::decode(bytes, WINDOW_BYTES);
    let one = decoded.ok().and_then(|operation| OneRead::of(&operation));
    assert_eq!(OneRead::decode(bytes, WINDOW_BYTES), one);
    if let Ok(operation) = decoded {
        let pieces = operation.pieces.as_slice();
        assert!(pieces.iter().all(|it| it.offset + u64::from(it.bytes) <= WINDOW_BYTES));
        let mut again = [0; OPERATION_BYTES_MAX];
        let length = operation.encode(&mut again);
        assert_eq!(&again[..length], bytes);
    }
});
