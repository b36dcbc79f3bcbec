//! Replays the stored corpus of the fuzz target `wire`, and every change of a byte of it, without the
//! fuzzer; writes the corpus.

mod foreign;

use std::path::{Path, PathBuf};

use heliostat_backend_transport::frame::{CallId, Frame, FrameKind, HandshakeKind, Released};
use heliostat_backend_transport::greeting::{Greeting, JoinRefusal};
use heliostat_backend_transport::tcp::framing::prefix;
use heliostat_backend_transport::transport::{Family, Message, TransportKind};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/transport/corpus/wire")
}

#[test]
fn every_stored_input_and_every_change_of_a_byte_is_read_or_refused() {
    let found = std::fs::read_dir(folder()).expect("the corpus is stored");
    let inputs: Vec<_> = found.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(inputs.len() >= 5, "{} inputs", inputs.len());
    for input in inputs {
        foreign::exercise(&input);
        (0..input.len()).for_each(|length| foreign::exercise(&input[..length]));
        for at in 0..input.len() {
            for value in [0, 1, 6, 8, 0x10, 0x7f, 0x80, 0xff] {
                let mut changed = input.clone();
                changed[at] = value;
                foreign::exercise(&changed);
            }
        }
    }
}

fn greeting() -> Vec<u8> {
    let me = foreign::identity(2);
    let kind = TransportKind { family: Family::Simulated, version: 0 };
    Greeting { kind, node: me.node, incarnation: 1, window_bytes: 1 << 16, nonce: [2; 32] }
        .encode()
        .to_vec()
}

fn framed(kind: FrameKind, payload: Vec<u8>) -> Vec<u8> {
    let head = Frame { kind, released: Released::default(), header: Vec::new() }.encode();
    let message = Message { head, payload };
    [prefix(&message).as_slice(), &message.head, &message.payload].concat()
}

/// A message as the conversation cuts it out of an input: an odd step, the payload's length, the head's
/// first 12 bytes, the payload.
fn step(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let head = Frame { kind, released: Released::default(), header: Vec::new() }.encode();
    [&[3, payload.len() as u8], &head[..12], payload].concat()
}

/// Writes what the corpus begins with: `cargo test -p heliostat-backend-transport --test foreign_corpus
/// -- --ignored`.
#[test]
#[ignore = "writes the stored corpus anew; by hand, when a format changes"]
fn write_the_corpus() {
    let call = CallId { index: 0, generation: 0 };
    let conversation = [
        step(FrameKind::Request { call, left_ns: 0 }, &[1; 8]),
        vec![1, 0, 0],
        step(FrameKind::Reply { call, is_refusal: false }, &[2; 8]),
        step(FrameKind::Post, &[3; 16]),
        step(FrameKind::Withdraw { call }, &[]),
        step(FrameKind::Reply { call, is_refusal: true }, &[]),
        step(FrameKind::Alive, &[]),
        step(FrameKind::Goodbye, &[]),
    ]
    .concat();
    let handshake = [
        framed(FrameKind::Handshake(HandshakeKind::Hello), greeting()),
        framed(FrameKind::Handshake(HandshakeKind::Proof), vec![5; 32]),
    ]
    .concat();
    let said = [
        vec![2, 80],
        Frame {
            kind: FrameKind::Handshake(HandshakeKind::Hello),
            released: Released::default(),
            header: Vec::new(),
        }
        .encode(),
        greeting(),
    ]
    .concat();
    for (name, input) in [
        ("conversation", conversation),
        ("handshake", handshake),
        ("said", said),
        ("greeting", greeting()),
        ("refusal", JoinRefusal::Full { limit: 3 }.encode().to_vec()),
        ("stream", framed(FrameKind::Request { call, left_ns: 1 << 30 }, vec![9; 64])),
    ] {
        std::fs::write(folder().join(name), input).expect("the folder is there");
    }
}
