use super::*;
use crate::name::ObjectId;
use crate::rpc::{FunctionName, Publication, RpcRequest};

const ID: ObjectId = ObjectId { index: 7, generation: 3 };

fn messages() -> Vec<PeerMessage> {
    let user = ObjectId { index: 1 << 31, generation: 1 };
    let call = FarCall {
        call: ID,
        user,
        function: ObjectId { index: 2, generation: 9 },
        session: ObjectId { index: 3, generation: 4 },
        process: 77,
        is_one_way: false,
        is_now: false,
        left_us: u64::MAX,
    };
    let replies = [FarReply::Done, FarReply::No, FarReply::ServerEnded];
    let mut all: Vec<_> =
        replies.into_iter().map(|how| PeerMessage::Reply { call: ID, how }).collect();
    all.push(PeerMessage::Call(call));
    all.push(PeerMessage::Call(FarCall { is_one_way: true, left_us: 0, ..call }));
    all.push(PeerMessage::Call(FarCall { is_one_way: true, is_now: true, ..call }));
    all.push(PeerMessage::Leave { call: ID });
    all
}

#[test]
fn every_message_comes_back_as_it_was() {
    for message in messages() {
        let header = message.encode();
        assert_eq!(PeerMessage::decode(&header), Ok(message));
        assert!(!PeerControl::is_one(&header));
        assert!(PeerMessage::decode(&header[1..]).is_err());
        assert!(PeerControl::decode(&header).is_err());
    }
}

#[test]
fn every_answer_comes_back_as_it_was() {
    let mut found = 0;
    for number in 0..u16::MAX {
        let mut header = [0; ANSWER_BYTES];
        header[..2].copy_from_slice(&number.to_le_bytes());
        if let Ok(answer) = PeerAnswer::decode(&header) {
            assert_eq!(answer.encode(), header);
            found += 1;
        }
    }
    assert_eq!(found, 9);
    assert!(PeerAnswer::decode(&[0; 7]).is_err() && PeerAnswer::decode(&[]).is_err());
}

fn asked(request: RpcRequest) -> PeerControl {
    PeerControl { user: 1000, process: 77, session: ID, request }
}

#[test]
fn requests_that_only_a_program_may_make_are_none_of_a_node() {
    let name = FunctionName::parse("kv/get").unwrap();
    let may = [
        RpcRequest::Find { user: 3, node: 0, name: name.clone() },
        RpcRequest::Leave { function: ID, serves: false, calls: true },
        RpcRequest::List { user: 3, from: 0, beginning: "kv/".into() },
    ];
    for request in may {
        let control = asked(request);
        assert!(PeerControl::is_one(&control.encode()));
        assert_eq!(PeerControl::decode(&control.encode()), Ok(control.clone()));
        assert!(PeerMessage::decode(&control.encode()).is_err());
    }
    let (request_bytes, reply_bytes, queue) = (1, 1, 1);
    let publication = Publication { name, others: true, request_bytes, reply_bytes, queue };
    let may_not = [
        RpcRequest::Publish(publication),
        RpcRequest::Session,
        RpcRequest::ListOn { node: 3, user: 3, from: 0, beginning: String::new() },
    ];
    for request in may_not {
        assert!(PeerControl::decode(&asked(request).encode()).is_err());
    }
}

/// Bits flipped in every place: what is taken is what would be sent.
#[test]
fn a_changed_header_is_refused_or_is_another_message_in_its_one_form() {
    for message in messages() {
        for bit in 0..MESSAGE_BYTES * 8 {
            let mut header = message.encode();
            header[bit / 8] ^= 1 << (bit % 8);
            if let Ok(other) = PeerMessage::decode(&header) {
                assert_eq!(other.encode(), header);
            }
        }
    }
    let leave = RpcRequest::Leave { function: ID, serves: false, calls: true };
    let control = asked(leave).encode();
    for bit in 0..CONTROL_BYTES * 8 {
        let mut header = control;
        header[bit / 8] ^= 1 << (bit % 8);
        if let Ok(other) = PeerControl::decode(&header) {
            assert_eq!(other.encode(), header);
        }
    }
}

/// Bytes of a hostile node, from a generator with a fixed seed.
#[test]
fn any_bytes_are_refused_or_are_a_message_in_its_one_form() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..200_000u64 {
        let mut bytes = [0; CONTROL_BYTES];
        for part in bytes.chunks_mut(2) {
            // Small numbers and zeros are what comes near to a message.
            let number = if next() % 3 == 0 { next() } else { next() % 4 };
            part.copy_from_slice(&number.to_le_bytes()[..part.len()]);
        }
        let length = if round % 2 == 0 { MESSAGE_BYTES } else { (next() % 140) as usize };
        let header = &bytes[..length.min(CONTROL_BYTES)];
        if let Ok(message) = PeerMessage::decode(header) {
            assert_eq!(message.encode(), header);
        }
        if let Ok(control) = PeerControl::decode(header) {
            assert_eq!(control.encode(), header);
        }
        if let Ok(answer) = PeerAnswer::decode(header) {
            assert_eq!(answer.encode(), header);
        }
        if let Ok(reply) = PeerReply::decode(header, &[]) {
            assert_eq!(reply.encode().0, header);
        }
    }
}
