//! Records of the cluster service are read back as they are written, and nothing else is.

use super::*;
use crate::cluster::ClusterRequest;
use crate::session::record::REQUEST_BODY_BYTES;

fn address(text: &str) -> MemberAddress {
    MemberAddress::parse(text).unwrap()
}

#[test]
fn every_request_is_read_back_as_it_is_written() {
    let all = [
        ClusterRequest::Nodes { from: 0 },
        ClusterRequest::Join { node: 1, address: MemberAddress::NONE },
        ClusterRequest::Join { node: NODE_MAX, address: address("ucx:[fe80::1%3]:7700") },
        ClusterRequest::Leave { node: 0 },
        ClusterRequest::Leave { node: 7 },
        ClusterRequest::NodesOf { node: 2, from: 9 },
    ];
    for request in all {
        assert_eq!(ClusterRequest::decode(&request.encode()), Ok(request));
    }
}

#[test]
fn a_request_with_a_wrong_number_address_or_rest_is_none() {
    let good = ClusterRequest::Join { node: 3, address: address("tcp:10.0.0.1:1") }.encode();
    let with = |at: usize, byte: u8| {
        let mut wrong = good;
        wrong.body[at] = byte;
        ClusterRequest::decode(&wrong).is_err()
    };
    assert!(with(2, 1), "a node beyond the last");
    assert!(with(0, 0), "no node");
    assert!(with(8, 65), "an address longer than any");
    assert!(with(8, 13), "bytes behind the address");
    assert!(with(12, 0xff), "no text");
    assert!(with(12, b' '), "not printable");
    assert!(with(REQUEST_BODY_BYTES - 1, 1), "bytes behind the record");
    let number = FIRST + 4;
    assert!(ClusterRequest::decode(&crate::session::record::Own { number, ..good }).is_err());
}

fn listed() -> Listed {
    let node = |number, state| ListedNode {
        node: number,
        incarnation: 77,
        state,
        since_ms: 1234,
        round_trip_ns: 56_000,
        address: address("tcp:127.0.0.1:7700"),
    };
    let nodes = [(1, MemberState::Here), (2, MemberState::Joined), (9, MemberState::Left)];
    let nodes = nodes.into_iter().map(|(number, state)| node(number, state)).collect();
    let registry = ListedRegistry { kind: ETCD, members: 3, lease_ms: 4_000 };
    Listed { own: 1, epoch: 5, registry, nodes, next: 10 }
}

#[test]
fn a_list_is_read_back_as_it_is_written() {
    let reply = ClusterReply::Listed(listed());
    assert_eq!(ClusterReply::decode(&reply.encode()), Ok(reply));
}

#[test]
fn a_list_with_a_wrong_count_or_state_is_none() {
    let good = ClusterReply::Listed(listed()).encode();
    for (at, byte) in
        [(24, 5), (28, 1), (18, 1), (35, 1), (48 + 32, 6), (48 + 36, 1), (REPLY_BODY_BYTES - 1, 1)]
    {
        let mut wrong = good;
        wrong.body[at] = byte;
        assert!(ClusterReply::decode(&wrong).is_err(), "byte {at}");
    }
}
