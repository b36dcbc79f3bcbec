//! Records and journals of cores: any bytes are refused, or are one in its one form.
#![no_main]

use heliostat_abi::cores::request::FIRST;
use heliostat_abi::cores::{CoresReply, CoresRequest, CpuMask};
use heliostat_fuzz_control::own_records;
use heliostat_service_cores::Journal;
use libfuzzer_sys::fuzz_target;

/// FNV-1a, as a journal has it: its parser is to be reached.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(mask) = CpuMask::parse(&String::from_utf8_lossy(bytes)) {
        assert_eq!(CpuMask::parse(&mask.to_string()), Ok(mask));
    }
    let mut journal = bytes.to_vec();
    journal.extend(checksum(bytes).to_le_bytes());
    if let Ok(decoded) = Journal::decode(&journal) {
        assert_eq!(Journal::decode(&decoded.encode()), Ok(decoded));
    }
    let Some((request, reply)) = own_records(FIRST, bytes) else { return };
    if let Ok(decoded) = CoresRequest::decode(&request) {
        assert_eq!(decoded.encode(), request);
    }
    if let Ok(decoded) = CoresReply::decode(&reply) {
        assert_eq!(decoded.encode(), reply);
    }
});
