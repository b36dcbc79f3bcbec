//! Snapshot regions of connections that were restricted: by name, by right, by user.

use std::os::fd::AsRawFd;

use crate::support::*;
use heliostat_abi::code::Code;
use heliostat_abi::limits::REGION_SCOPES_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::session::restriction::Services;
use heliostat_abi::snapshot::memory::{Shape, PINS_BYTES};
use heliostat_abi::snapshot::region::{RegionName, OWN_USER};
use heliostat_abi::snapshot::region_scope::RegionScope;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{SharedMapping, Writers};

/// Table and pool of a small region, with the mappings that may write them.
fn memory() -> [(OwnedFd, SharedMapping); 2] {
    let shape = Shape::new(1, 5000, 0, 2).unwrap();
    let create = |bytes| SharedMapping::create_for(c"region", bytes, Writers::CreatorOnly).unwrap();
    let table = create(shape.table_bytes());
    table.1.copy_in(0, &shape.encode()).unwrap();
    [table, create(shape.pool_bytes())]
}

fn allow(client: &mut Client, scope: &str) -> Reply {
    client.ask(&Request::AllowRegions { scope: RegionScope::parse(scope).unwrap() }).0
}

/// A session that may use snapshot regions of these scopes and nothing else.
fn restricted(daemon: &Daemon, scopes: &[&str]) -> Client {
    let mut client = daemon.visit();
    scopes.iter().for_each(|scope| assert_eq!(allow(&mut client, scope), Reply::Done));
    let restrict = Request::Restrict { services: Services::SNAPSHOTS, pid: 4_000_000 };
    assert_eq!(client.ask(&restrict).0, Reply::Done);
    client.hello();
    client
}

/// The region's id, or why there is none.
fn publish(client: &mut Client, name: &str) -> Result<ObjectId, Code> {
    let memory = memory();
    let fds = memory.each_ref().map(|(fd, _)| fd.as_raw_fd());
    let request = Request::Publish { name: RegionName::parse(name).unwrap() };
    match client.ask_with(&request, &fds).0 {
        Reply::Published { region, .. } => Ok(region),
        Reply::Refused { code, .. } => Err(code),
        reply => panic!("{reply:?}"),
    }
}

/// Region and consumer, or why there is none.
fn attach(client: &mut Client, name: &str, owner: u32) -> Result<(ObjectId, ObjectId), Code> {
    let (page, _mapped) = SharedMapping::create(c"pins", PINS_BYTES).unwrap();
    let request = Request::AttachRegion { name: RegionName::parse(name).unwrap(), owner };
    match client.ask_with(&request, &[page.as_raw_fd()]).0 {
        Reply::Region { region, consumer, .. } => Ok((region, consumer)),
        Reply::Refused { code, .. } => Err(code),
        reply => panic!("{reply:?}"),
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[test]
fn a_name_is_had_exactly_or_by_its_beginning_and_with_its_right() {
    let daemon = Daemon::start();
    let mut client = restricted(&daemon, &["one:publish", "out/*:publish", "in/*:attach"]);
    for name in ["one", "out/a", "out/a/b"] {
        assert!(publish(&mut client, name).is_ok(), "{name}");
    }
    for name in ["one/a", "on", "outer", "in/a", "two"] {
        assert_eq!(publish(&mut client, name), Err(Code::Denied), "{name}");
    }
    let (mut free, _) = daemon.session();
    publish(&mut free, "in/a").unwrap();
    publish(&mut free, "inner").unwrap();
    assert!(attach(&mut client, "in/a", OWN_USER).is_ok());
    assert_eq!(attach(&mut client, "in/none", OWN_USER), Err(Code::NotFound));
    // Who may not read a region is not told whether it is there.
    for name in ["inner", "out/a", "nowhere"] {
        assert_eq!(attach(&mut client, name, OWN_USER), Err(Code::Denied), "{name}");
    }
}

#[test]
fn another_users_regions_are_had_only_where_the_scope_names_that_user() {
    let daemon = Daemon::start();
    let (own, other) = (own_user(), own_user() + 1);
    let mut client = restricted(&daemon, &["a:attach", &format!("b:attach:{other}")]);
    let (mut free, _) = daemon.session();
    publish(&mut free, "a").unwrap();
    publish(&mut free, "b").unwrap();
    assert!(attach(&mut client, "a", own).is_ok(), "the own user by number");
    assert_eq!(attach(&mut client, "a", other), Err(Code::Denied));
    assert_eq!(attach(&mut client, "b", OWN_USER), Err(Code::Denied));
    // The rules are asked besides: another user's region is there for none of them.
    let mut everybodys = restricted(&daemon, &["*:attach:*"]);
    for client in [&mut client, &mut everybodys] {
        let code = attach(client, "b", other).unwrap_err();
        assert!(matches!(code, Code::Denied | Code::NotFound), "{code:?}");
    }
    assert!(attach(&mut everybodys, "b", OWN_USER).is_ok());
}

#[test]
fn what_others_have_published_or_attached_to_is_not_its_to_end() {
    let daemon = Daemon::start();
    let mut client = restricted(&daemon, &["*:publish", "*:attach:*"]);
    let (mut free, _) = daemon.session();
    let region = publish(&mut free, "a").unwrap();
    let (_, consumer) = attach(&mut free, "a", OWN_USER).unwrap();
    let asked = [
        Request::Consumers { region },
        Request::Unpublish { region },
        Request::Detach { region, consumer },
    ];
    for request in asked {
        assert_eq!(client.refusal(&request, &[]), Code::Denied, "{request:?}");
    }
    assert_eq!(publish(&mut client, "a"), Err(Code::BadState), "the name is taken");
    let own = publish(&mut client, "b").unwrap();
    assert!(matches!(client.ask(&Request::Consumers { region: own }).0, Reply::Consumers { .. }));
    assert_eq!(client.ask(&Request::Unpublish { region: own }).0, Reply::Done);
}

#[test]
fn scopes_are_added_before_the_restriction_only_and_within_a_limit() {
    let daemon = Daemon::start();
    let mut client = restricted(&daemon, &[]);
    let refused = |reply| matches!(reply, Reply::Refused { code: Code::Denied, .. });
    assert!(refused(allow(&mut client, "a:publish")));
    assert_eq!(publish(&mut client, "a"), Err(Code::Denied));
    let mut waiting = daemon.visit();
    for _ in 0..REGION_SCOPES_MAX {
        assert_eq!(allow(&mut waiting, "a:publish"), Reply::Done);
    }
    let full = allow(&mut waiting, "a:publish");
    assert!(matches!(full, Reply::Refused { code: Code::Full, limit: 64, .. }), "{full:?}");
    // Allowed regions without the service give nothing.
    let mut without = daemon.visit();
    assert_eq!(allow(&mut without, "*:publish"), Reply::Done);
    let restrict = Request::Restrict { services: Services::FILES, pid: 1 };
    assert_eq!(without.ask(&restrict).0, Reply::Done);
    without.hello();
    assert_eq!(publish(&mut without, "a"), Err(Code::Denied));
}
