//! The rules of the net service, one by one.

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::limits::FDS_PER_REPLY_MAX;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_service_grant::{Full, Holder, Shares};

use crate::*;

const LIMITS: Limits = Limits {
    ports_per_session: 2,
    channels_per_session: 40,
    channels_per_pair: 20,
    bytes_per_session: 1 << 20,
    ports: Shares { user: 3, ..Shares::whole(10) },
    channels: Shares::whole(1000),
    bytes: Shares { user: 1 << 20, ..Shares::whole(1 << 30) },
};

const USER: Holder = Holder::user(7);

fn session(index: u32) -> ObjectId {
    ObjectId { index, generation: 1 }
}

fn endpoint(address: &str) -> Endpoint {
    Endpoint { namespace: Namespace(1), address: NetAddress::new(address.parse().unwrap()) }
}

fn proof(address: &str, owner_uid: u32, socket: u64) -> Proof {
    Proof { endpoint: endpoint(address), v6_only: false, owner_uid, socket }
}

fn opening(client: u32, port: ObjectId) -> Opening {
    Opening { client: session(client), holder: USER, port, bytes: 100 }
}

/// A service where session 0 of user 7 listens on 127.0.0.1:80.
fn listening() -> (Net, ObjectId, Vec<Effect>) {
    let (mut net, mut effects) = (Net::new(LIMITS), Vec::new());
    let port = net.register(session(0), USER, proof("127.0.0.1:80", 7, 1), &mut effects).unwrap();
    effects.clear();
    (net, port, effects)
}

#[test]
fn registering_an_address_again_gives_the_same_object() {
    let (mut net, port, mut effects) = listening();
    let again = net.register(session(0), USER, proof("127.0.0.1:80", 7, 2), &mut effects);
    assert_eq!((again, effects), (Ok(port), vec![]));
}

#[test]
fn workers_share_one_object_until_the_last_leaves() {
    let (mut net, port, mut effects) = listening();
    assert_eq!(net.register(session(1), USER, proof("127.0.0.1:80", 7, 2), &mut effects), Ok(port));
    net.end(session(0), &mut effects);
    assert_eq!((net.resolve(endpoint("127.0.0.1:80")), effects.len()), (Some(port), 0));
    net.end(session(1), &mut effects);
    assert_eq!((net.resolve(endpoint("127.0.0.1:80")), net.port_count()), (None, 0));
    assert_eq!(effects, [Effect::RegistryChanged]);
}

#[test]
fn an_inherited_socket_is_shared_whoever_the_worker_is() {
    let (mut net, port, mut effects) = listening();
    assert_eq!(net.register(session(1), USER, proof("127.0.0.1:80", 9, 1), &mut effects), Ok(port));
}

#[test]
fn a_proof_by_another_user_replaces_the_stale_registration() {
    let (mut net, port, mut effects) = listening();
    let channel = net.open(opening(5, port), &mut effects).unwrap();
    effects.clear();
    let new = net.register(session(1), USER, proof("127.0.0.1:80", 9, 3), &mut effects).unwrap();
    assert_ne!(new, port);
    assert_eq!(net.attach(session(0), port), Err(Reason::NotRegistered { port }.into()));
    assert_eq!(net.holding(session(0)).ports, 0);
    assert!(effects.contains(&Effect::ChannelFreed(channel)));
}

#[test]
fn resolution_prefers_the_exact_address_and_respects_ipv6_only() {
    let (mut net, exact, mut effects) = listening();
    let any = proof("[::]:80", 7, 2);
    let any_id = net.register(session(0), USER, any, &mut effects).unwrap();
    assert_eq!(net.resolve(endpoint("127.0.0.1:80")), Some(exact));
    assert_eq!(net.resolve(endpoint("127.0.0.2:80")), Some(any_id));
    let only = Proof { v6_only: true, ..proof("[::]:81", 7, 3) };
    net.register(session(1), USER, only, &mut effects).unwrap();
    assert_eq!(net.resolve(endpoint("127.0.0.1:81")), None);
    assert!(net.resolve(endpoint("[::1]:81")).is_some());
}

#[test]
fn another_namespace_does_not_resolve() {
    let (net, _, _) = listening();
    let elsewhere = Endpoint { namespace: Namespace(2), ..endpoint("127.0.0.1:80") };
    assert_eq!(net.resolve(elsewhere), None);
}

#[test]
fn attach_brings_each_channel_once_in_batches() {
    let (mut net, port, mut effects) = listening();
    let opened: Vec<_> =
        (0..20).map(|_| net.open(opening(5, port), &mut effects).unwrap()).collect();
    let first = net.attach(session(0), port).unwrap();
    assert_eq!((&first.channels[..], first.more), (&opened[..FDS_PER_REPLY_MAX], true));
    let second = net.attach(session(0), port).unwrap();
    assert_eq!((&second.channels[..], second.more), (&opened[FDS_PER_REPLY_MAX..], false));
    assert_eq!(net.attach(session(0), port).unwrap().channels, []);
}

#[test]
fn only_registered_sessions_attach() {
    let (mut net, port, _) = listening();
    assert_eq!(net.attach(session(3), port), Err(Reason::NotRegistered { port }.into()));
    let reborn = ObjectId { index: 0, generation: 2 };
    assert_eq!(net.attach(reborn, port), Err(Reason::NotRegistered { port }.into()));
}

#[test]
fn a_channel_to_the_network_service_leads_to_no_port_and_ends_with_its_session() {
    let (mut net, port, mut effects) = listening();
    let id = net.open_delegated(session(5), USER, 100, &mut effects).unwrap();
    assert_eq!(effects, [Effect::ChannelActive(id)]);
    assert_eq!(net.attach(session(0), port).unwrap().channels, []);
    assert_eq!(net.holding(session(5)).bytes, 100);
    effects.clear();
    assert_eq!(net.revoke(&[session(5)], &mut effects), 1);
    net.end(session(5), &mut effects);
    assert_eq!(effects, [Effect::ChannelRevoked(id), Effect::ChannelFreed(id)]);
    assert_eq!((net.holding(session(5)).bytes, net.channel_count()), (0, 0));
}

#[test]
fn each_limit_answers_with_its_name() {
    let (mut net, port, mut effects) = listening();
    (0..20).for_each(|_| assert!(net.open(opening(5, port), &mut effects).is_ok()));
    let full = |thing, side, limit| Refusal::Full(Full::of(thing, side, limit));
    let pair = full(Thing::Channels, Side::Object, 20);
    assert_eq!(net.open(opening(5, port), &mut effects), Err(pair));
    let big = Opening { bytes: 1 << 21, ..opening(6, port) };
    let bytes = full(Thing::ChannelBytes, Side::Session, 1 << 20);
    assert_eq!(net.open(big, &mut effects), Err(bytes));
    let rest = Opening { bytes: (1 << 20) - 1000, ..opening(6, port) };
    let user = full(Thing::ChannelBytes, Side::User, 1 << 20);
    assert_eq!(net.open(rest, &mut effects), Err(user));
    net.register(session(0), USER, proof("127.0.0.1:81", 7, 2), &mut effects).unwrap();
    let ports = full(Thing::Ports, Side::Session, 2);
    assert_eq!(
        net.register(session(0), USER, proof("127.0.0.1:82", 7, 2), &mut effects),
        Err(ports)
    );
}

#[test]
fn a_session_that_ends_gives_its_channels_and_bytes_back() {
    let (mut net, port, mut effects) = listening();
    let channel = net.open(opening(5, port), &mut effects).unwrap();
    effects.clear();
    net.end(session(5), &mut effects);
    assert_eq!(effects, [Effect::ChannelFreed(channel)]);
    assert_eq!((net.channel_count(), net.holding(session(5))), (0, Holding::default()));
    assert_eq!(net.attach(session(0), port).unwrap().channels, []);
    assert_eq!(net.bytes.quota().1.used_by_all(), 0);
}

#[test]
fn a_revoked_session_gets_nothing_new_and_its_channels_say_so() {
    let (mut net, port, mut effects) = listening();
    let channel = net.open(opening(5, port), &mut effects).unwrap();
    effects.clear();
    assert_eq!(net.revoke(&[session(5)], &mut effects), 1);
    assert_eq!(effects, [Effect::ChannelRevoked(channel)]);
    assert_eq!(net.open(opening(5, port), &mut effects), Err(Refusal::Revoked));
    assert_eq!(net.attach(session(0), port).unwrap().channels, []);
    net.end(session(5), &mut effects);
    assert_eq!(effects.last(), Some(&Effect::ChannelFreed(channel)));
}

#[test]
fn revoking_a_listener_revokes_what_it_was_sent_and_frees_its_port() {
    let (mut net, port, mut effects) = listening();
    let sent = net.open(opening(5, port), &mut effects).unwrap();
    net.attach(session(0), port).unwrap();
    let unsent = net.open(opening(5, port), &mut effects).unwrap();
    effects.clear();
    assert_eq!(net.revoke(&[session(0)], &mut effects), 1);
    let wanted =
        [Effect::ChannelRevoked(sent), Effect::ChannelFreed(unsent), Effect::RegistryChanged];
    assert_eq!(effects, wanted);
}

#[test]
fn addresses_of_a_user_are_limited_however_many_sessions_it_has() {
    let mut net = Net::new(LIMITS);
    let mut effects = Vec::new();
    let mut listen = |net: &mut Net, holder, number: u32| {
        let proof = proof(&format!("127.0.0.1:{}", 80 + number), 7, number.into());
        net.register(session(number), holder, proof, &mut effects)
    };
    for number in 0..3 {
        listen(&mut net, USER, number).unwrap();
    }
    let full = Refusal::Full(Full::of(Thing::Ports, Side::User, 3));
    assert_eq!(listen(&mut net, USER, 3), Err(full));
    assert!(listen(&mut net, Holder::user(8), 4).is_ok());
    net.end(session(1), &mut Vec::new());
    assert!(listen(&mut net, USER, 3).is_ok());
}
