//! What somebody who is no node can do to the port of our TCP transport: nothing to anybody else.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use heliostat_backend_transport::address::Address;
use heliostat_backend_transport::frame::{Frame, FrameKind, HandshakeKind, Released};
use heliostat_backend_transport::greeting::{Greeting, JoinRefusal};
use heliostat_backend_transport::identity::NodeId;
use heliostat_backend_transport::simulated::Random;
use heliostat_backend_transport::tcp::framing::{prefix, PREFIX_BYTES};
use heliostat_backend_transport::transport::{Family, Message, TransportKind};

use crate::station::{Station, WATCHDOG};
use crate::suite::pattern;
use crate::tcp;

fn knock(station: &Station) -> TcpStream {
    let Address::Tcp(address) = station.address else { panic!("it listens by TCP") };
    connect(address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(WATCHDOG)).expect("a duration");
    stream
}

fn record(kind: HandshakeKind, payload: Vec<u8>) -> Vec<u8> {
    frame(FrameKind::Handshake(kind), payload)
}

fn frame(kind: FrameKind, payload: Vec<u8>) -> Vec<u8> {
    let head = Frame { kind, released: Released::default(), header: Vec::new() }.encode();
    let message = Message { head, payload };
    [prefix(&message).as_slice(), &message.head, &message.payload].concat()
}

fn hello() -> [u8; 80] {
    let kind = TransportKind { family: Family::Tcp, version: 0 };
    let nonce = [1; 32];
    Greeting { kind, node: NodeId(9), incarnation: 1, window_bytes: 1 << 20, nonce }.encode()
}

/// Reads one message, or nothing at the end of the stream.
fn answer(stream: &mut TcpStream) -> Option<(FrameKind, Vec<u8>)> {
    let mut fixed = [0; PREFIX_BYTES];
    stream.read_exact(&mut fixed).ok()?;
    let mut head = vec![0; u16::from_le_bytes([fixed[2], fixed[3]]).into()];
    let mut payload =
        vec![0; u32::from_le_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]) as usize];
    stream.read_exact(&mut head).expect("a head follows");
    stream.read_exact(&mut payload).expect("a payload follows");
    let frame = Frame::decode(&head, payload.len()).expect("a frame of ours");
    Some((frame.kind, payload))
}

fn refusal(stream: &mut TcpStream) -> JoinRefusal {
    let (kind, payload) = answer(stream).expect("it answers");
    assert_eq!(kind, FrameKind::Handshake(HandshakeKind::Refuse));
    assert!(answer(stream).is_none(), "the link ends");
    JoinRefusal::decode(&payload)
}

#[test]
fn another_version_of_the_protocol_is_refused_by_name() {
    let station = Station::start(1, 7, tcp);
    let mut stream = knock(&station);
    let mut greeting = hello();
    greeting[8] = 2;
    stream.write_all(&record(HandshakeKind::Hello, greeting.to_vec())).expect("sent");
    assert_eq!(refusal(&mut stream), JoinRefusal::Protocol { found: 2, wanted: 1 });
}

#[test]
fn another_version_of_the_transport_is_refused_by_name() {
    let station = Station::start(1, 7, tcp);
    let mut stream = knock(&station);
    let mut greeting = hello();
    greeting[12] = 3;
    stream.write_all(&record(HandshakeKind::Hello, greeting.to_vec())).expect("sent");
    assert_eq!(refusal(&mut stream), JoinRefusal::Version { found: 3, wanted: 0 });
}

#[test]
fn a_guessed_proof_and_a_request_instead_of_one_are_refused() {
    let station = Station::start(1, 7, tcp);
    let proof = record(HandshakeKind::Proof, vec![0; 32]);
    let request = frame(FrameKind::Post, vec![0; 100]);
    for (said, wanted) in [(proof, JoinRefusal::Secret), (request, JoinRefusal::Malformed)] {
        let mut stream = knock(&station);
        stream.write_all(&record(HandshakeKind::Hello, hello().to_vec())).expect("sent");
        let challenged = answer(&mut stream).expect("it answers");
        assert_eq!(challenged.0, FrameKind::Handshake(HandshakeKind::Challenge));
        stream.write_all(&said).expect("sent");
        assert_eq!(refusal(&mut stream), wanted);
    }
    assert_eq!(station.counters().strangers, 2);
}

#[test]
fn garbage_long_lengths_and_silence_at_the_port_harm_nobody() {
    let (one, two) = (Station::start(1, 7, tcp), Station::start(2, 7, tcp));
    one.join(two.address);
    let mut random = Random::new(19);
    let mut open = Vec::new();
    for count in 0..200 {
        let mut stream = knock(&one);
        let mut said: Vec<u8> = (0..random.below(3000)).map(|_| random.draw() as u8).collect();
        match count % 4 {
            0 => said.clear(),
            1 => said.splice(0..0, b"HL\x28\x00\xff\xff\xff\x7f".iter().copied()).for_each(drop),
            2 => said.splice(0..0, record(HandshakeKind::Hello, hello().to_vec())).for_each(drop),
            _ => {}
        }
        // Where it has hung up already there is nothing to say.
        let _ = stream.write_all(&said);
        open.push(stream);
        if count % 20 == 0 {
            let payload = pattern(100_000);
            assert!(one.call(2, payload.clone()).expect("answered") == payload);
        }
    }
    drop(open);
    let payload = pattern(4 << 20);
    assert!(two.call(1, payload.clone()).expect("answered") == payload);
    // Whoever knocks after them is let in: nothing of theirs is kept.
    let three = Station::start(3, 7, tcp);
    three.join(one.address);
}
