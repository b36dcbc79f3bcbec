//! Messages of other nodes about functions: any header is refused, or is a message in its one form.
#![no_main]

use heliostat_abi::rpc::peer::{PeerAnswer, PeerControl, PeerMessage, PeerReply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The first byte says where the header ends and the payload begins.
    let Some((cut, rest)) = bytes.split_first() else { return };
    let (header, payload) = rest.split_at(rest.len().min(usize::from(*cut)));
    if let Ok(message) = PeerMessage::decode(header) {
        assert_eq!(message.encode(), header);
        assert!(!PeerControl::is_one(header));
    }
    if let Ok(control) = PeerControl::decode(header) {
        assert_eq!(control.encode(), header);
        assert!(PeerControl::is_one(header));
    }
    if let Ok(answer) = PeerAnswer::decode(header) {
        assert_eq!(answer.encode(), header);
    }
    if let Ok(reply) = PeerReply::decode(header, payload) {
        let (again, body) = reply.encode();
        assert_eq!((&again[..], &body[..]), (header, payload));
    }
});
