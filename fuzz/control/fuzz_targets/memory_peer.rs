//! Messages of other nodes about memory: any header is refused, or is a message in its one form.
#![no_main]

use heliostat_abi::memory::peer::{PeerAnswer, PeerControl, PeerOperation, PeerReply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The first byte says where the header ends and the payload begins.
    let Some((cut, rest)) = bytes.split_first() else { return };
    let (header, payload) = rest.split_at(rest.len().min(usize::from(*cut)));
    if let Ok(operation) = PeerOperation::decode(header, payload.len()) {
        assert_eq!(operation.encode(), header);
    }
    if let Ok(control) = PeerControl::decode(header) {
        assert_eq!(control.encode(), header);
    }
    if let Ok(answer) = PeerAnswer::decode(header) {
        assert_eq!(answer.encode(), header);
    }
    if let Ok(reply) = PeerReply::decode(header, payload) {
        let (again, body) = reply.encode();
        assert_eq!((&again[..], &body[..]), (header, payload));
    }
});
