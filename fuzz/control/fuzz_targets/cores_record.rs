//! Records and journals of cores: any bytes are refused, or are one in its one form.
#![no_main]

use heliostat_abi::cores::request::FIRST;
use heliostat_abi::cores::{CoresReply, CoresRequest, CpuMask};
use heliostat_abi::session::record::{Own, REPLY_BODY_BYTES, REQUEST_BODY_BYTES};
use heliostat_service_cores::Journal;
use libfuzzer_sys::fuzz_target;

/// The body of a record: what there is, and zeroes behind it.
fn body<const BYTES: usize>(bytes: &[u8]) -> [u8; BYTES] {
    let mut body = [0; BYTES];
    let length = bytes.len().min(BYTES);
    body[..length].copy_from_slice(&bytes[..length]);
    body
}

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
    // The first byte is the number within the service: of requests up to 127, of replies from 128 on.
    let Some((number, rest)) = bytes.split_first() else { return };
    let number = FIRST + u16::from(*number);
    let request = Own { number, body: body::<REQUEST_BODY_BYTES>(rest) };
    if let Ok(decoded) = CoresRequest::decode(&request) {
        assert_eq!(decoded.encode(), request);
    }
    let reply = Own { number, body: body::<REPLY_BODY_BYTES>(rest) };
    if let Ok(decoded) = CoresReply::decode(&reply) {
        assert_eq!(decoded.encode(), reply);
    }
});
