//! Memory regions of connections that were restricted: by name and right, and by the server loop only.

use crate::support::programs::Program;
use crate::support::{Client, Daemon};
use heliostat_abi::code::Code;
use heliostat_abi::memory::name::OWN_USER;
use heliostat_abi::memory::{Allocation, MemoryName, MemoryReply, MemoryRequest, Rights};
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::session::restriction::Services;
use heliostat_abi::snapshot::region_scope::RegionScope;

/// A session that may use memory regions of these scopes and nothing else.
fn restricted(daemon: &Daemon, scopes: &[&str]) -> Client {
    let mut client = daemon.visit();
    for scope in scopes {
        let scope = RegionScope::parse_memory(scope).unwrap();
        assert_eq!(client.ask(&Request::AllowRegions { scope }).0, Reply::Done);
    }
    let restrict = Request::Restrict { services: Services::MEMORY, pid: 4_000_000 };
    assert_eq!(client.ask(&restrict).0, Reply::Done);
    client.hello();
    client
}

/// Whether the path is direct, or why there is no handle.
fn granted(client: &mut Client, request: &MemoryRequest) -> Result<bool, Code> {
    match client.ask(&Request::Own(request.encode())).0 {
        Reply::Own(own) => match MemoryReply::decode(&own).unwrap() {
            MemoryReply::Granted(granted) => Ok(granted.direct),
            other => panic!("{other:?}"),
        },
        Reply::Refused { code, .. } => Err(code),
        other => panic!("{other:?}"),
    }
}

fn map(client: &mut Client, name: &str, rights: Rights) -> Result<bool, Code> {
    let name = MemoryName::parse(name).unwrap();
    granted(client, &MemoryRequest::Map { user: OWN_USER, name, rights })
}

fn allocate(client: &mut Client, name: Option<&str>) -> Result<bool, Code> {
    let name = name.map(|name| MemoryName::parse(name).unwrap());
    let asked = Allocation { bytes: 100, lasting: false, name, others: Rights::NONE };
    granted(client, &MemoryRequest::Allocate(asked))
}

#[test]
fn a_restricted_session_maps_the_names_of_its_scopes_and_no_others() {
    let daemon = Daemon::start();
    let mut owner = Program::start(&daemon);
    for name in ["kv/read", "kv/write", "other"] {
        owner.say(&format!("allocate {name} 100 name={name}"));
    }
    let mut session = restricted(&daemon, &["kv/read:read", "kv/write:write"]);
    let (read, all) = (Rights::READ, Rights::DATA);
    assert_eq!(map(&mut session, "kv/read", read), Ok(false), "delegated, never direct");
    assert_eq!(map(&mut session, "kv/write", read), Ok(false));
    assert_eq!(map(&mut session, "kv/write", all), Ok(false));
    for (name, rights) in [
        ("kv/read", all),
        ("kv/read", Rights::ATOMIC),
        ("other", read),
        ("kv/none", read),
        ("kv/write", Rights::MANAGE),
        ("kv/write", Rights::ALL),
    ] {
        assert_eq!(map(&mut session, name, rights), Err(Code::Denied), "{name} {rights}");
    }
    let mut none = restricted(&daemon, &[]);
    assert_eq!(map(&mut none, "kv/read", read), Err(Code::Denied));
}

#[test]
fn a_restricted_session_makes_regions_under_the_names_of_its_scopes() {
    let daemon = Daemon::start();
    let mut session = restricted(&daemon, &["mine/*:allocate"]);
    assert_eq!(allocate(&mut session, Some("mine/a")), Ok(false));
    assert_eq!(allocate(&mut session, None), Ok(false));
    assert_eq!(allocate(&mut session, Some("kv")), Err(Code::Denied));
    assert_eq!(map(&mut session, "mine/a", Rights::READ), Err(Code::Denied), "it has a handle");
    let mut other = Program::start(&daemon);
    assert_eq!(other.say("map kv mine/a rw"), "direct");
}

#[test]
fn a_restricted_session_gets_no_arena_and_no_page() {
    let daemon = Daemon::start();
    let mut session = restricted(&daemon, &["*:write", "*:allocate"]);
    assert_eq!(allocate(&mut session, Some("a")), Ok(false));
    for request in [
        MemoryRequest::RegionPage,
        MemoryRequest::Arena { arena: heliostat_abi::name::ObjectId::default() },
    ] {
        let reply = session.ask(&Request::Own(request.encode()));
        assert!(matches!(reply.0, Reply::Refused { .. }) && reply.1.is_empty(), "{:?}", reply.0);
    }
}
