use super::*;
use crate::memory::{Allocation, MemoryName, MemoryRequest, Rights};
use crate::wire::WireError;

const ID: ObjectId = ObjectId { index: 7, generation: 3 };
const HANDLE: PeerHandle = PeerHandle { session: ObjectId { index: 1, generation: 2 }, handle: ID };

fn operations() -> Vec<(PeerOperation, usize)> {
    let part = Range { offset: 4096, bytes: CHUNK_BYTES_MAX };
    let of = Range { offset: 0, bytes: 1 << 40 };
    let all = [
        (PeerAction::Read { part, of }, 0),
        (PeerAction::Write { part, of: part }, CHUNK_BYTES_MAX as usize),
        (PeerAction::Set { part, of, value: 200 }, 0),
        (PeerAction::Copy { to: 1, source: HANDLE, from: 2, bytes: 1 << 30, done: 9 }, 0),
        (PeerAction::FetchAdd { offset: 8, more: u64::MAX }, 0),
        (PeerAction::CompareSwap { offset: 16, expected: 1, new: u64::MAX }, 0),
        (PeerAction::Swap { offset: 24, new: 5 }, 0),
    ];
    all.map(|(action, payload)| (PeerOperation { handle: HANDLE, action }, payload)).to_vec()
}

#[test]
fn every_operation_comes_back_as_it_was() {
    for (operation, payload) in operations() {
        assert_eq!(PeerOperation::decode(&operation.encode(), payload), Ok(operation));
        let wrong = PeerOperation::decode(&operation.encode(), payload + 1);
        assert!(matches!(wrong, Err(WireError::Length { .. })), "{operation:?}");
        assert!(PeerOperation::decode(&operation.encode()[1..], payload).is_err());
    }
}

#[test]
fn a_part_that_is_none_of_its_transfer_is_refused() {
    let read = |part, of| PeerOperation { handle: HANDLE, action: PeerAction::Read { part, of } };
    let range = |offset, bytes| Range { offset, bytes };
    let refused = [
        (range(0, 0), range(0, 1)),
        (range(0, 2), range(0, 1)),
        (range(1, 1), range(0, 1)),
        (range(0, 1), range(1, 1)),
        (range(0, CHUNK_BYTES_MAX + 1), range(0, CHUNK_BYTES_MAX + 1)),
        (range(u64::MAX, 2), range(u64::MAX, 2)),
        (range(0, 1), range(u64::MAX, u64::MAX)),
    ];
    for (part, of) in refused {
        assert!(PeerOperation::decode(&read(part, of).encode(), 0).is_err(), "{part:?} {of:?}");
    }
    let copy = PeerAction::Copy { to: 0, source: HANDLE, from: 0, bytes: 9, done: 9 };
    let copy = PeerOperation { handle: HANDLE, action: copy };
    assert!(PeerOperation::decode(&copy.encode(), 0).is_err(), "nothing is left of it");
}

#[test]
fn every_answer_comes_back_as_it_was() {
    let refused = PeerRefusal::ALL.map(PeerAnswer::refused);
    let done = [PeerAnswer::done(u64::MAX), PeerAnswer { result: Ok(0), word: 7 }];
    for answer in refused.into_iter().chain(done) {
        assert_eq!(PeerAnswer::decode(&answer.encode()), Ok(answer));
    }
    assert!(PeerAnswer::decode(&[0; 23]).is_err());
}

fn asked(request: MemoryRequest) -> PeerControl {
    PeerControl { user: 1000, is_restricted: true, process: 77, request }
}

#[test]
fn requests_of_a_control_plane_come_back_and_those_with_descriptors_are_none() {
    let name = MemoryName::parse("kv/cache").unwrap();
    let rights = Rights::READ;
    let allocation =
        Allocation { bytes: 9, lasting: true, name: Some(name.clone()), others: rights };
    let may = [
        MemoryRequest::Allocate(allocation),
        MemoryRequest::Map { user: 3, name: name.clone(), rights },
        MemoryRequest::MapRegion { region: ID, rights },
        MemoryRequest::Unmap { handle: ID },
        MemoryRequest::Free { handle: ID },
        MemoryRequest::Locate { handle: ID, from: 0 },
    ];
    for request in may {
        let control = asked(request);
        assert_eq!(PeerControl::decode(&control.encode()), Ok(control.clone()));
        assert!(PeerOperation::decode(&control.encode(), 0).is_err());
        let mut flagged = control.encode();
        flagged[8] = 2;
        assert!(PeerControl::decode(&flagged).is_err());
    }
    let inner = Box::new(MemoryRequest::MapRegion { region: ID, rights });
    let may_not = [
        MemoryRequest::Session,
        MemoryRequest::RegionPage,
        MemoryRequest::Arena { arena: ID },
        MemoryRequest::AskMe { handle: ID },
        MemoryRequest::On { node: 3, request: inner },
    ];
    for request in may_not {
        assert!(PeerControl::decode(&asked(request).encode()).is_err());
    }
}

/// Bits flipped in every place: what is taken is what would be sent.
#[test]
fn a_changed_header_is_refused_or_is_another_message_in_its_one_form() {
    for (operation, payload) in operations() {
        for bit in 0..OPERATION_BYTES * 8 {
            let mut header = operation.encode();
            header[bit / 8] ^= 1 << (bit % 8);
            if let Ok(other) = PeerOperation::decode(&header, payload) {
                assert_eq!(other.encode(), header);
            }
        }
    }
    let answer = PeerAnswer { result: Ok(8), word: 9 }.encode();
    for bit in 0..ANSWER_BYTES * 8 {
        let mut header = answer;
        header[bit / 8] ^= 1 << (bit % 8);
        if let Ok(other) = PeerAnswer::decode(&header) {
            assert_eq!(other.encode(), header);
        }
    }
    let control = asked(MemoryRequest::Locate { handle: ID, from: 1 }).encode();
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
        for part in bytes.chunks_mut(8) {
            // Small numbers and zeros are what comes near to a message.
            let number = if next() % 3 == 0 { next() } else { next() % 8 };
            part.copy_from_slice(&number.to_le_bytes()[..part.len()]);
        }
        let length = if round % 2 == 0 { OPERATION_BYTES } else { (next() % 140) as usize };
        let header = &bytes[..length.min(CONTROL_BYTES)];
        if let Ok(operation) = PeerOperation::decode(header, 0) {
            assert_eq!(operation.encode(), header);
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
