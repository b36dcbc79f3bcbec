//! Two handshakes facing each other, and what somebody without the secret can try.

use super::*;
use crate::identity::Secret;
use crate::transport::{Family, TransportKind};

struct Side {
    me: Identity,
    ours: Greeting,
}

fn side(node: u64, secret: u8) -> Side {
    let me = Identity { node: NodeId(node), incarnation: 1, secret: Secret::new([secret; 32]) };
    let kind = TransportKind { family: Family::Tcp, version: 0 };
    let nonce = [node as u8; 32];
    let ours = Greeting { kind, node: me.node, incarnation: 1, window_bytes: 1 << 20, nonce };
    Side { me, ours }
}

impl Side {
    fn step(&self, at: Handshake, kind: HandshakeKind, record: &[u8]) -> Progress {
        at.step(kind, record, &self.me, &self.ours, None)
    }
}

fn said(progress: Progress) -> (Vec<u8>, Handshake) {
    match progress {
        Progress::Say(_, record, next) => (record, next),
        other => panic!("{other:?}"),
    }
}

fn refusal(progress: Progress) -> (JoinRefusal, bool) {
    match progress {
        Progress::Refused { why, is_theirs } => (why, is_theirs),
        other => panic!("{other:?}"),
    }
}

/// Both up to the proof of who connects.
fn up_to_proof(connects: &Side, listens: &Side) -> (Vec<u8>, Handshake, Handshake) {
    let hello = connects.ours.encode();
    let (challenge, listener) =
        said(listens.step(Handshake::AwaitsHello, HandshakeKind::Hello, &hello));
    let (proof, connector) =
        said(connects.step(Handshake::AwaitsChallenge, HandshakeKind::Challenge, &challenge));
    (proof, connector, listener)
}

#[test]
fn nodes_of_one_secret_join_and_know_each_other() {
    let (a, b) = (side(1, 7), side(2, 7));
    let (proof, connector, listener) = up_to_proof(&a, &b);
    let Progress::Proven(greeting, Some(welcome)) = b.step(listener, HandshakeKind::Proof, &proof)
    else {
        panic!("the proof is right")
    };
    assert_eq!(greeting, a.ours);
    let Progress::Proven(greeting, None) = a.step(connector, HandshakeKind::Welcome, &welcome)
    else {
        panic!("the welcome is right")
    };
    assert_eq!(greeting, b.ours);
}

#[test]
fn a_node_with_another_secret_is_refused_by_who_listens() {
    let (a, b) = (side(1, 7), side(2, 8));
    let (proof, _, listener) = up_to_proof(&a, &b);
    assert_eq!(
        refusal(b.step(listener, HandshakeKind::Proof, &proof)),
        (JoinRefusal::Secret, false)
    );
}

#[test]
fn a_proof_sent_back_is_no_welcome() {
    let (a, b) = (side(1, 7), side(2, 9));
    let (proof, connector, _) = up_to_proof(&a, &b);
    assert_eq!(
        refusal(a.step(connector, HandshakeKind::Welcome, &proof)),
        (JoinRefusal::Secret, false)
    );
}

#[test]
fn a_proof_heard_in_one_handshake_is_of_no_use_in_another() {
    let (a, b) = (side(1, 7), side(2, 7));
    let (proof, ..) = up_to_proof(&a, &b);
    let mut later = side(2, 7);
    later.ours.nonce = [99; 32];
    let (_, listener) =
        said(later.step(Handshake::AwaitsHello, HandshakeKind::Hello, &a.ours.encode()));
    assert_eq!(
        refusal(later.step(listener, HandshakeKind::Proof, &proof)),
        (JoinRefusal::Secret, false)
    );
}

#[test]
fn records_out_of_turn_and_of_other_lengths_are_malformed() {
    let (a, b) = (side(1, 7), side(2, 7));
    let hello = a.ours.encode();
    let out_of_turn = b.step(Handshake::AwaitsHello, HandshakeKind::Welcome, &hello);
    assert_eq!(refusal(out_of_turn), (JoinRefusal::Malformed, false));
    let (proof, _, listener) = up_to_proof(&a, &b);
    let short = b.step(listener, HandshakeKind::Proof, &proof[..31]);
    assert_eq!(refusal(short), (JoinRefusal::Malformed, false));
}

#[test]
fn a_node_does_not_join_itself_nor_another_than_it_asked_for() {
    let (a, b) = (side(1, 7), side(2, 7));
    let itself = a.step(Handshake::AwaitsHello, HandshakeKind::Hello, &a.ours.encode());
    assert_eq!(refusal(itself), (JoinRefusal::Itself, false));
    let challenge = b.ours.encode();
    let wanted = Some(NodeId(5));
    let other = Handshake::AwaitsChallenge.step(
        HandshakeKind::Challenge,
        &challenge,
        &a.me,
        &a.ours,
        wanted,
    );
    assert_eq!(refusal(other), (JoinRefusal::OtherNode { found: 2, wanted: 5 }, false));
}

#[test]
fn the_other_sides_refusal_ends_the_handshake_with_its_reason() {
    let a = side(1, 7);
    let record = JoinRefusal::Full { limit: 4 }.encode();
    let end = a.step(Handshake::AwaitsChallenge, HandshakeKind::Refuse, &record);
    assert_eq!(refusal(end), (JoinRefusal::Full { limit: 4 }, true));
}
