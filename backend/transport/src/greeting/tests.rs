//! Records of the handshake, there and back, and what is refused of them.

use super::*;

const OURS: TransportKind = TransportKind { family: Family::Ucx, version: 0x010d_0001 };

fn greeting() -> Greeting {
    Greeting { kind: OURS, node: NodeId(3), incarnation: 9, window_bytes: 1 << 20, nonce: [7; 32] }
}

#[test]
fn a_greeting_is_read_as_it_was_written() {
    assert_eq!(Greeting::decode(&greeting().encode(), OURS), Ok(greeting()));
}

#[test]
fn another_version_of_the_protocol_is_named_whatever_follows() {
    let mut bytes = greeting().encode();
    bytes[8] = 2;
    let refusal = JoinRefusal::Protocol { found: 2, wanted: 1 };
    assert_eq!(Greeting::decode(&bytes, OURS), Err(refusal));
    assert_eq!(Greeting::decode(&bytes[..16], OURS), Err(refusal));
}

#[test]
fn another_transport_or_version_of_it_is_named() {
    let tcp = TransportKind { family: Family::Tcp, version: 0 };
    assert_eq!(
        Greeting::decode(&greeting().encode(), tcp),
        Err(JoinRefusal::Family { found: 3, wanted: 2 })
    );
    let newer = TransportKind { version: 0x0116_0000, ..OURS };
    let refusal = JoinRefusal::Version { found: 0x010d_0001, wanted: 0x0116_0000 };
    assert_eq!(Greeting::decode(&greeting().encode(), newer), Err(refusal));
}

#[test]
fn a_greeting_that_is_cut_padded_or_without_a_window_is_malformed() {
    let bytes = greeting().encode();
    let padded = [bytes.as_slice(), &[0]].concat();
    let narrow = Greeting { window_bytes: WINDOW_BYTES_MIN - 1, ..greeting() }.encode();
    let mut unused = bytes;
    unused[40] = 1;
    for wrong in [&bytes[..15], &bytes[..79], &padded, &narrow, &unused, b"GET / HTTP/1.1\r\n\r\n"]
    {
        assert_eq!(Greeting::decode(wrong, OURS), Err(JoinRefusal::Malformed));
    }
}

#[test]
fn every_refusal_is_read_as_it_was_written() {
    let (found, wanted) = (5, 6);
    for refusal in [
        JoinRefusal::Protocol { found, wanted },
        JoinRefusal::Family { found, wanted },
        JoinRefusal::Version { found, wanted },
        JoinRefusal::Secret,
        JoinRefusal::OtherNode { found, wanted },
        JoinRefusal::Itself,
        JoinRefusal::Outdated { found, wanted },
        JoinRefusal::Duplicate,
        JoinRefusal::Full { limit: 6 },
        JoinRefusal::Malformed,
    ] {
        assert_eq!(JoinRefusal::decode(&refusal.encode()), refusal);
    }
    assert_eq!(JoinRefusal::decode(&[]), JoinRefusal::Malformed);
}
