//! Every record round-trips, and no foreign bytes do worse than an error.

use super::*;
use crate::code::{Side, Thing};
use crate::file::delegated::joint::MEMBERS_MAX;
use crate::limits::CHANNELS_MAX;
use crate::snapshot::region::Presence;

fn region_name() -> RegionName {
    RegionName::parse("model/weights-1.0").unwrap()
}

fn address() -> NetAddress {
    NetAddress::new("127.0.0.1:6379".parse().unwrap())
}

#[test]
fn every_request_round_trips() {
    let port = ObjectId { index: 3, generation: 9 };
    let requests = [
        Request::Hello { program: "redis-server".into() },
        Request::Listen,
        Request::Unlisten { port },
        Request::Open { address: address() },
        Request::Attach { port },
        Request::Status,
        Request::Explain { pid: 77 },
        Request::Metrics,
        Request::Revoke { pid: 78 },
        Request::Stop,
        Request::Publish { name: region_name() },
        Request::AttachRegion { name: region_name(), owner: 1000 },
        Request::Consumers { region: port },
        Request::Unpublish { region: port },
        Request::Detach { region: port, consumer: port },
        Request::Lease,
        Request::EndLease { lease: port },
        Request::Delegate { members: 0 },
        Request::Delegate { members: 16 },
        Request::EndDelegate,
        Request::ShowFile { tag: u64::MAX, direct: true, buffered: false },
        Request::ShowFile { tag: 0, direct: false, buffered: true },
        Request::Allow { destination: Destination { host: None, ports: (1, 9) } },
        Request::Allow { destination: Destination { host: Some(address().ip), ports: (7, 7) } },
        Request::AllowRegions { scope: RegionScope::parse("a/*:attach:1000").unwrap() },
        Request::Restrict { services: Services::STREAMS.and(Services::FILES), pid: 9 },
        Request::Own(Own { number: FIRST_OWN, body: [7; REQUEST_BODY_BYTES] }),
    ];
    for request in requests {
        assert_eq!(Request::decode(&request.encode(5)), Ok((request, 5)));
    }
}

#[test]
fn a_session_of_more_members_than_there_may_be_is_no_request() {
    let bytes = Request::Delegate { members: MEMBERS_MAX + 1 }.encode(5);
    let found = u64::from(MEMBERS_MAX + 1);
    assert_eq!(Request::decode(&bytes), Err(WireError::Field { name: "members", found }));
}

#[test]
fn every_reply_round_trips() {
    let id = ObjectId { index: 1, generation: 2 };
    let entry = ChannelEntry { id, client: id, peer_uid: 1000, slots: 64, ring_bytes: 65536 };
    let replies = [
        Reply::Welcome { session: id, boot: 99 },
        Reply::Listening { port: id, address: address() },
        Reply::Channels { port: id, entries: vec![entry; FDS_PER_REPLY_MAX], more: true },
        Reply::Text { bytes: 4096 },
        Reply::Done,
        Reply::Own(Box::new(Own { number: FIRST_OWN + 128, body: [7; REPLY_BODY_BYTES] })),
        Reply::Delegated { depth: 256, objects: 256, lends: true, shows_only: false },
        Reply::Delegated { depth: 256, objects: 256, lends: false, shows_only: true },
        Reply::Published { region: id, generation: 7 },
        Reply::Region { region: id, consumer: id, generation: 7 },
        Reply::Consumers {
            region: id,
            entries: vec![
                Change { consumer: id, state: Presence::Left },
                Change { consumer: id, state: Presence::Joined },
                Change { consumer: id, state: Presence::JoinedWithBell },
            ],
            more: true,
        },
        Reply::Leased { lease: id, bytes: 1 << 40 },
        Reply::NotLeased { reason: Unmapped::Written },
        Reply::Refused { code: Code::Denied, limit: 0, bound: Bound::NONE },
        Reply::Refused {
            code: Code::Full,
            limit: 64,
            bound: Bound { thing: Thing::Ports, side: Side::SealedProgram },
        },
    ];
    for reply in replies {
        assert_eq!(Reply::decode(&reply.encode(6)), Ok((reply, 6)));
    }
}

#[test]
fn a_long_program_name_is_cut_not_refused() {
    let request = Request::Hello { program: "x".repeat(500) };
    let (decoded, _) = Request::decode(&request.encode(0)).unwrap();
    assert_eq!(decoded, Request::Hello { program: "x".repeat(PROGRAM_BYTES) });
}

#[test]
fn any_single_changed_byte_is_decoded_or_refused_without_panic() {
    let request = Request::Open { address: address() }.encode(1);
    let reply = Reply::Done.encode(1);
    for at in 0..REQUEST_BYTES {
        for value in 0..=255 {
            let mut bytes = request;
            bytes[at] = value;
            let _ = Request::decode(&bytes);
        }
    }
    for at in 0..REPLY_BYTES {
        let mut bytes = reply;
        bytes[at] = 0xff;
        let _ = Reply::decode(&bytes);
    }
}

#[test]
fn a_file_is_not_shown_for_two_ways() {
    let both = Request::ShowFile { tag: 1, direct: true, buffered: true };
    assert!(matches!(Request::decode(&both.encode(5)), Err(WireError::Field { .. })));
}

#[test]
fn wrong_length_names_both_lengths() {
    let wanted = WireError::Length { wanted: REQUEST_BYTES, found: 3 };
    assert_eq!(Request::decode(&[1, 2, 3]), Err(wanted));
}

#[test]
fn an_object_beyond_the_node_page_is_refused_where_its_word_would_be_looked_up() {
    let id = |index| ObjectId { index, generation: 1 };
    let entry = |id, client| ChannelEntry { id, client, peer_uid: 0, slots: 1, ring_bytes: 16384 };
    let channels = |port, entry| Reply::Channels { port, entries: vec![entry], more: false };
    let (port, channel, session) = (PORTS_MAX as u32, CHANNELS_MAX as u32, SESSIONS_MAX as u32);
    let (region, consumer) = (REGIONS_MAX as u32, ATTACHMENTS_MAX as u32);
    let joined = |region, consumer| Reply::Region { region, consumer, generation: 1 };
    let changed = |consumer| Reply::Consumers {
        region: id(0),
        entries: vec![Change { consumer, state: Presence::Left }],
        more: false,
    };
    let last = entry(id(channel - 1), id(session - 1));
    let beyond = [
        (Reply::Welcome { session: id(session), boot: 1 }, "session index", session),
        (Reply::Listening { port: id(port), address: address() }, "port index", port),
        (channels(id(port), last), "port index", port),
        (channels(id(port - 1), entry(id(channel), id(0))), "channel index", channel),
        (channels(id(port - 1), entry(id(0), id(u32::MAX))), "client index", u32::MAX),
        (Reply::Published { region: id(region), generation: 1 }, "region index", region),
        (joined(id(region), id(0)), "region index", region),
        (joined(id(0), id(consumer)), "consumer index", consumer),
        (
            Reply::Consumers { region: id(region), entries: vec![], more: false },
            "region index",
            region,
        ),
        (changed(id(consumer)), "consumer index", consumer),
    ];
    for (reply, name, found) in beyond {
        let wanted = WireError::Field { name, found: u64::from(found) };
        assert_eq!(Reply::decode(&reply.encode(1)), Err(wanted));
    }
    let reply = channels(id(port - 1), last);
    assert_eq!(Reply::decode(&reply.encode(1)), Ok((reply, 1)));
}

#[test]
fn a_change_says_joined_or_left_and_nothing_else() {
    let id = ObjectId { index: 1, generation: 2 };
    let entries = vec![Change { consumer: id, state: Presence::Joined }];
    let bytes = Reply::Consumers { region: id, entries, more: false }.encode(1);
    // Offsets of count, more, state, and the reserved word after it.
    for (at, value) in [(24, 17), (28, 2), (40, 0), (40, 4), (44, 1), (48, 1)] {
        let mut changed = bytes;
        changed[at] = value;
        assert!(Reply::decode(&changed).is_err(), "byte {at} = {value}");
    }
}

#[test]
fn a_region_name_is_checked_where_it_is_read() {
    let bytes = Request::Publish { name: region_name() }.encode(1);
    for (at, value) in [(16, 0), (16, 65), (16, 5), (20, b'/'), (20, b' '), (25, b',')] {
        let mut changed = bytes;
        changed[at] = value;
        assert!(Request::decode(&changed).is_err(), "byte {at} = {value}");
    }
}
