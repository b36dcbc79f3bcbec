//! Records in submission rings: any bytes are an operation or an error, and an operation lies inside.
//! The same bytes as entries of a directory, which a client takes apart, end within what is there.
#![no_main]

use heliostat_abi::file::delegated::{
    DirectoryEntries, OneRead, Operation, NAME_BYTES_MAX, OPERATION_BYTES_MAX,
};
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
        let names = pieces.iter().take(operation.kind.names());
        assert!(names.into_iter().all(|it| (1..=NAME_BYTES_MAX).contains(&it.bytes)));
        assert!(pieces.len() >= operation.kind.names());
        let mut again = [0; OPERATION_BYTES_MAX];
        let length = operation.encode(&mut again);
        assert_eq!(&again[..length], bytes);
    }
    let named: usize = DirectoryEntries(bytes).map(|entry| entry.name.len()).sum();
    assert!(named <= bytes.len());
});
