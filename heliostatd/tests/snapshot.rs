//! Named snapshot regions: who gets what, who is told of whom, and how all of it ends.

mod support;

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Acquire;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::node;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::snapshot::memory::{Shape, CONSUMERS_MAX, PINS_BYTES};
use heliostat_abi::snapshot::region::{Change, Presence, RegionName, OWN_USER};
use heliostat_base::bell::Bell;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, SharedMapping, Writers};
use support::*;

/// Table and pool of a small region, with the mappings that may write them.
struct Memory {
    table: (OwnedFd, SharedMapping),
    pool: (OwnedFd, SharedMapping),
}

impl Memory {
    fn new(writers: Writers) -> Memory {
        let shape = Shape::new(1, 5000, 0, 2).unwrap();
        let table = SharedMapping::create_for(c"table", shape.table_bytes(), writers).unwrap();
        let pool = SharedMapping::create_for(c"pool", shape.pool_bytes(), writers).unwrap();
        table.1.copy_in(0, &shape.encode()).unwrap();
        Memory { table, pool }
    }

    fn fds(&self) -> [i32; 2] {
        [self.table.0.as_raw_fd(), self.pool.0.as_raw_fd()]
    }
}

fn name(text: &str) -> RegionName {
    RegionName::parse(text).unwrap()
}

fn publish_request(text: &str) -> Request {
    Request::Publish { name: name(text) }
}

fn attach_request(text: &str) -> Request {
    Request::AttachRegion { name: name(text), owner: OWN_USER }
}

/// Names a region; its id and the count of its name's producers.
fn publish(client: &mut Client, text: &str, memory: &Memory) -> (ObjectId, u64) {
    match client.ask_with(&publish_request(text), &memory.fds()).0 {
        Reply::Published { region, generation } => (region, generation),
        reply => panic!("{reply:?}"),
    }
}

/// Attaches; the consumer's id and the descriptors.
fn attach(client: &mut Client, text: &str) -> (ObjectId, Vec<OwnedFd>) {
    let (page, _mapped) = SharedMapping::create(c"pins", PINS_BYTES).unwrap();
    match client.ask_with(&attach_request(text), &[page.as_raw_fd()]) {
        (Reply::Region { consumer, .. }, fds) => (consumer, fds),
        (reply, _) => panic!("{reply:?}"),
    }
}

fn changes(client: &mut Client, region: ObjectId) -> (Vec<Change>, usize, bool) {
    match client.ask(&Request::Consumers { region }) {
        (Reply::Consumers { entries, more, .. }, fds) => (entries, fds.len(), more),
        (reply, _) => panic!("{reply:?}"),
    }
}

fn word(welcome: &Welcome, region: ObjectId) -> u32 {
    welcome.node.atomic_u32(node::region_word(region.index)).load(Acquire)
}

fn region_count(daemon: &Daemon) -> usize {
    daemon.status()["regions"].as_array().unwrap().len()
}

#[test]
fn a_region_is_found_by_name_and_its_producer_learns_who_came() {
    let daemon = Daemon::start();
    let (mut producer, welcome) = daemon.session();
    let (mut consumer, _) = daemon.session();
    let memory = Memory::new(Writers::CreatorOnly);
    let (region, generation) = publish(&mut producer, "model/a", &memory);
    assert_eq!(generation, 1);
    let before = word(&welcome, region);
    memory.pool.1.copy_in(0, b"bytes").unwrap();
    let (id, fds) = attach(&mut consumer, "model/a");
    assert_ne!(word(&welcome, region), before, "the answer came before the word");
    let seen = SharedMapping::from_fd(fds[1].as_raw_fd(), 4096, Access::Read).unwrap();
    let mut bytes = [0; 5];
    seen.copy_out(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"bytes");
    let joined = Change { consumer: id, state: Presence::Joined };
    assert_eq!(changes(&mut producer, region), (vec![joined], 1, false));
    let status = daemon.status();
    let shown = &status["regions"][0];
    assert_eq!((&shown["name"], &shown["bytes"]), (&"/snapshot/model/a".into(), &5000.into()));
    assert_eq!(shown["pid"], std::process::id());
    assert_eq!(shown["consumers"][0]["id"], id.to_string());
    let metrics = daemon.visit().text(&Request::Metrics);
    assert!(metrics.contains("heliostat_regions 1\n"), "{metrics}");
    assert!(metrics.contains("heliostat_region_consumers 1\n"), "{metrics}");
}

#[test]
fn a_consumer_cannot_write_what_it_gets() {
    let daemon = Daemon::start();
    let (mut producer, _) = daemon.session();
    let (mut consumer, _) = daemon.session();
    publish(&mut producer, "a", &Memory::new(Writers::CreatorOnly));
    for fd in attach(&mut consumer, "a").1 {
        let raw = fd.as_raw_fd();
        assert!(SharedMapping::from_fd(raw, 4096, Access::ReadWrite).is_err());
        // SAFETY: one byte of a live buffer, and a descriptor that is open.
        let written = unsafe { libc::pwrite(raw, b"x".as_ptr().cast(), 1, 0) };
        assert_eq!(written, -1);
        // SAFETY: ftruncate takes no pointer.
        assert_eq!(unsafe { libc::ftruncate(raw, 0) }, -1);
    }
}

#[test]
fn a_consumer_that_ends_is_told_of_and_its_place_is_free() {
    let daemon = Daemon::start();
    let (mut producer, welcome) = daemon.session();
    let (region, _) = publish(&mut producer, "a", &Memory::new(Writers::CreatorOnly));
    let (mut consumer, _) = daemon.session();
    let (id, _fds) = attach(&mut consumer, "a");
    changes(&mut producer, region);
    let before = word(&welcome, region);
    drop(consumer);
    await_that("the word changes", || word(&welcome, region) != before);
    let left = Change { consumer: id, state: Presence::Left };
    assert_eq!(changes(&mut producer, region), (vec![left], 0, false));
    let (mut consumer, _) = daemon.session();
    let (id, _fds) = attach(&mut consumer, "a");
    assert_eq!(consumer.ask(&Request::Detach { region, consumer: id }).0, Reply::Done);
    assert_eq!(changes(&mut producer, region), (vec![], 0, false));
    let again = Request::Detach { region, consumer: id };
    assert_eq!(consumer.refusal(&again, &[]), Code::Denied);
}

#[test]
fn a_producer_that_ends_frees_its_name_and_the_next_counts_on() {
    let daemon = Daemon::start();
    let (mut producer, _) = daemon.session();
    let (mut other, _) = daemon.session();
    let memory = Memory::new(Writers::CreatorOnly);
    let (region, _) = publish(&mut producer, "a", &memory);
    assert_eq!(other.refusal(&publish_request("a"), &memory.fds()), Code::BadState);
    assert_eq!(other.refusal(&Request::Unpublish { region }, &[]), Code::Denied);
    assert_eq!(other.refusal(&Request::Consumers { region }, &[]), Code::Denied);
    drop(producer);
    await_that("the name is free", || region_count(&daemon) == 0);
    let (region, generation) = publish(&mut other, "a", &memory);
    assert_eq!(generation, 2);
    assert_eq!(other.ask(&Request::Unpublish { region }).0, Reply::Done);
    let (page, _mapped) = SharedMapping::create(c"pins", PINS_BYTES).unwrap();
    let nobody = other.refusal(&attach_request("a"), &[page.as_raw_fd()]);
    assert_eq!(nobody, Code::NotFound);
}

#[test]
fn consumers_of_a_region_and_of_a_session_are_limited() {
    let config = "[limits]\nregions_per_session = 1\nattachments_per_session = 65\n";
    let daemon = Daemon::with(config, &[]);
    let (mut producer, _) = daemon.session();
    let (mut consumer, _) = daemon.session();
    let memory = Memory::new(Writers::CreatorOnly);
    let (region, _) = publish(&mut producer, "a", &memory);
    let second = producer.ask_with(&publish_request("b"), &memory.fds()).0;
    assert_eq!(second, full(Thing::Regions, Side::Session, 1));
    (0..CONSUMERS_MAX).for_each(|_| drop(attach(&mut consumer, "a")));
    let (page, _mapped) = SharedMapping::create(c"pins", PINS_BYTES).unwrap();
    let page = [page.as_raw_fd()];
    let reply = consumer.ask_with(&attach_request("a"), &page).0;
    assert_eq!(reply, full(Thing::Attachments, Side::Object, 64));
    let (mut told, mut more) = (0, true);
    while more {
        let (entries, fds, goes_on) = changes(&mut producer, region);
        assert_eq!(entries.len(), fds);
        (told, more) = (told + fds, goes_on);
    }
    assert_eq!(told, CONSUMERS_MAX);
}

#[test]
fn what_is_no_region_is_refused() {
    let daemon = Daemon::start();
    let (mut client, _) = daemon.session();
    let (good, open) = (Memory::new(Writers::CreatorOnly), Memory::new(Writers::Everyone));
    let null = std::fs::File::open("/dev/null").unwrap();
    let [table, pool] = good.fds();
    let wrong = [&open.fds()[..], &[table, null.as_raw_fd()], &[pool, table], &[table], &[]];
    for fds in wrong {
        assert_eq!(client.refusal(&publish_request("a"), fds), Code::BadRecord, "{fds:?}");
    }
    publish(&mut client, "a", &good);
    let page = [null.as_raw_fd()];
    assert_eq!(client.refusal(&attach_request("a"), &page), Code::BadRecord);
    // A bell that could make its producer wait, and more than a bell.
    let (page, _mapped) = SharedMapping::create(c"pins", PINS_BYTES).unwrap();
    let (bell, tcp) = (Bell::pair().unwrap().0, std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    let (page, bell) = (page.as_raw_fd(), bell.as_raw_fd());
    for fds in [&[page, tcp.as_raw_fd()][..], &[page, null.as_raw_fd()], &[page, bell, bell]] {
        assert_eq!(client.refusal(&attach_request("a"), fds), Code::BadRecord, "{fds:?}");
    }
    assert_eq!(daemon.visit().refusal(&publish_request("b"), &good.fds()), Code::BadState);
}

#[test]
fn rules_decide_who_publishes_and_who_attaches() {
    let config =
        "[[rule]]\naction = \"deny\"\nrights = [\"publish\"]\nnames = [\"/snapshot/x/*\"]\n\
                  [[rule]]\naction = \"deny\"\nrights = [\"attach\"]\nnames = [\"/snapshot/y\"]\n";
    let daemon = Daemon::with(config, &[]);
    let (mut client, _) = daemon.session();
    let memory = Memory::new(Writers::CreatorOnly);
    assert_eq!(client.refusal(&publish_request("x/a"), &memory.fds()), Code::Denied);
    publish(&mut client, "y", &memory);
    publish(&mut client, "z", &memory);
    let (page, _mapped) = SharedMapping::create(c"pins", PINS_BYTES).unwrap();
    let page = [page.as_raw_fd()];
    assert_eq!(client.refusal(&attach_request("y"), &page), Code::Denied);
    // Another user's regions need a rule, whether they exist or not.
    let foreign = Request::AttachRegion { name: name("z"), owner: 12345 };
    assert_eq!(client.refusal(&foreign, &page), Code::Denied);
    attach(&mut client, "z");
}

#[test]
fn revoking_a_process_ends_its_regions() {
    let daemon = Daemon::start();
    let (mut client, _) = daemon.session();
    let memory = Memory::new(Writers::CreatorOnly);
    publish(&mut client, "a", &memory);
    attach(&mut client, "a");
    let pid = std::process::id();
    assert_eq!(daemon.visit().ask(&Request::Revoke { pid }).0, Reply::Done);
    assert_eq!(region_count(&daemon), 0);
    assert_eq!(client.refusal(&publish_request("a"), &memory.fds()), Code::Revoked);
}
