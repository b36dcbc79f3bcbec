//! Heads of every kind, there and back, and each byte that may not be as it is.

use super::*;

const CALL: CallId = CallId { index: 7, generation: 0x0102_0304 };

fn kinds() -> Vec<FrameKind> {
    let mut kinds: Vec<FrameKind> = HANDSHAKE.into_iter().map(FrameKind::Handshake).collect();
    kinds.extend([
        FrameKind::Request { call: CALL, left_ns: 5_000_000_000 },
        FrameKind::Post,
        FrameKind::Reply { call: CALL, is_refusal: false },
        FrameKind::Reply { call: CALL, is_refusal: true },
        FrameKind::Withdraw { call: CALL },
        FrameKind::Alive,
        FrameKind::Goodbye,
    ]);
    kinds
}

fn frame(kind: FrameKind) -> Frame {
    let header = if kind.has_header() { b"header".to_vec() } else { Vec::new() };
    Frame { kind, released: Released { requests: 1 << 40, replies: 3 }, header }
}

#[test]
fn a_head_of_every_kind_is_read_as_it_was_written() {
    for kind in kinds() {
        let frame = frame(kind);
        assert_eq!(Frame::decode(&frame.encode(), 0), Ok(frame));
    }
}

#[test]
fn a_head_lies_where_the_page_says() {
    let head = frame(FrameKind::Request { call: CALL, left_ns: 9 }).encode();
    assert_eq!(head[..4], [6, 0, 0, 0]);
    assert_eq!(head[4..12], [7, 0, 0, 0, 4, 3, 2, 1]);
    assert_eq!(head[12..24], [0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(head[24..40], [0, 0, 0, 0, 0, 1, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&head[40..], b"header");
}

#[test]
fn kinds_and_codes_without_a_meaning_are_refused() {
    let mut head = frame(FrameKind::Alive).encode();
    for kind in [0, 12, 255] {
        head[0] = kind;
        assert_eq!(Frame::decode(&head, 0), Err(FrameError::Kind(kind)));
    }
    let mut reply = frame(FrameKind::Reply { call: CALL, is_refusal: true }).encode();
    reply[1] = 2;
    assert_eq!(Frame::decode(&reply, 0), Err(FrameError::Code(2)));
}

#[test]
fn fields_that_a_kind_does_not_have_are_zero() {
    for at in [2, 3, 4, 8, 12, 15, 16, 23] {
        let mut head = frame(FrameKind::Alive).encode();
        head[at] = 1;
        assert_eq!(Frame::decode(&head, 0), Err(FrameError::NotZero), "byte {at}");
    }
}

#[test]
fn heads_that_are_too_short_or_too_long_are_refused() {
    let head = frame(FrameKind::Post).encode();
    for length in 0..HEAD_BYTES {
        assert_eq!(Frame::decode(&head[..length], 0), Err(FrameError::Length { found: length }));
    }
    let long = [frame(FrameKind::Post).encode(), vec![0; HEADER_BYTES_MAX]].concat();
    assert_eq!(Frame::decode(&long, 0), Err(FrameError::Length { found: long.len() }));
}

#[test]
fn a_sign_of_life_has_neither_header_nor_payload() {
    let head = frame(FrameKind::Alive).encode();
    assert_eq!(Frame::decode(&head, 1), Err(FrameError::Payload { found: 1 }));
    let longer = [head, vec![1]].concat();
    assert_eq!(Frame::decode(&longer, 0), Err(FrameError::Length { found: HEAD_BYTES + 1 }));
}
