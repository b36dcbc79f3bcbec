//! Locks and functions of connections that were restricted: by name, by right, by user, on this node only.

use crate::support::{Client, Daemon};
use heliostat_abi::code::Code;
use heliostat_abi::lock::{Claim, LockName, LockReply, LockRequest, Shape};
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::name::THIS_NODE;
use heliostat_abi::rpc::{FunctionName, Publication, RpcReply, RpcRequest};
use heliostat_abi::session::record::{OwnReply, OwnRequest, Reply, Request};
use heliostat_abi::session::restriction::Services;
use heliostat_abi::snapshot::region::OWN_USER;
use heliostat_abi::snapshot::region_scope::{NamesOf, RegionScope};

/// A session that may use names of these scopes and nothing else.
fn restricted(daemon: &Daemon, scopes: &[(NamesOf, &str)], services: Services) -> Client {
    let mut client = daemon.visit();
    for (names, text) in scopes {
        let scope = RegionScope::parse_of(*names, text).unwrap();
        assert_eq!(client.ask(&Request::AllowRegions { scope }).0, Reply::Done);
    }
    let restrict = Request::Restrict { services, pid: 4_000_000 };
    assert_eq!(client.ask(&restrict).0, Reply::Done);
    client.hello();
    client
}

/// The service's own reply, or `None` for Done, or why not.
fn own(client: &mut Client, request: OwnRequest) -> Result<Option<Box<OwnReply>>, Code> {
    match client.ask(&Request::Own(request)).0 {
        Reply::Own(reply) => Ok(Some(reply)),
        Reply::Done => Ok(None),
        Reply::Refused { code, .. } => Err(code),
        other => panic!("{other:?}"),
    }
}

fn lock(client: &mut Client, request: &LockRequest) -> Result<Option<LockReply>, Code> {
    let reply = own(client, request.encode())?;
    Ok(reply.map(|reply| LockReply::decode(&reply).unwrap()))
}

fn open(client: &mut Client, name: &str, user: u32) -> Result<ObjectId, Code> {
    let name = LockName::parse(name).unwrap();
    match lock(client, &LockRequest::Open { user, name, shape: Shape::LOCK })? {
        Some(LockReply::Opened { handle, .. }) => Ok(handle),
        other => panic!("{other:?}"),
    }
}

fn function(client: &mut Client, request: &RpcRequest) -> Result<ObjectId, Code> {
    match own(client, request.encode())?.map(|reply| RpcReply::decode(&reply).unwrap()) {
        Some(RpcReply::Granted(info)) => Ok(info.function),
        other => panic!("{other:?}"),
    }
}

fn serve(client: &mut Client, name: &str) -> Result<ObjectId, Code> {
    let name = FunctionName::parse(name).unwrap();
    let wanted = Publication { name, others: true, request_bytes: 8, reply_bytes: 8, queue: 1 };
    function(client, &RpcRequest::Publish(wanted))
}

fn find(client: &mut Client, name: &str, user: u32, node: u32) -> Result<ObjectId, Code> {
    let name = FunctionName::parse(name).unwrap();
    function(client, &RpcRequest::Find { user, node, name })
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

const LOCKS: NamesOf = NamesOf::Locks;
const FUNCTIONS: NamesOf = NamesOf::Functions;

#[test]
fn a_restricted_session_opens_the_locks_of_its_scopes_and_no_others() {
    let daemon = Daemon::start();
    let scopes = [(LOCKS, "one:acquire"), (LOCKS, "jobs/*:acquire")];
    let mut client = restricted(&daemon, &scopes, Services::LOCKS);
    let handle = open(&mut client, "one", OWN_USER).unwrap();
    assert!(open(&mut client, "jobs/7", OWN_USER).is_ok());
    assert!(open(&mut client, "one", own_user()).is_ok(), "its own user by number");
    for name in ["two", "one/a", "jobs", "jobsx"] {
        assert_eq!(open(&mut client, name, OWN_USER), Err(Code::Denied), "{name}");
    }
    assert_eq!(open(&mut client, "one", own_user() + 1), Err(Code::Denied));
    // What it has opened it uses as any session, beside one that is not restricted.
    let acquire = LockRequest::Acquire { handle, claim: Claim::Exclusive, wait: false };
    let taken = lock(&mut client, &acquire).unwrap();
    let Some(LockReply::Outcome(event)) = taken else { panic!("{taken:?}") };
    let (mut free, _) = daemon.session();
    let other = open(&mut free, "one", OWN_USER).unwrap();
    let try_it = LockRequest::Acquire { handle: other, claim: Claim::Exclusive, wait: false };
    let busy = format!("{:?}", lock(&mut free, &try_it).unwrap());
    assert!(busy.contains("Busy"), "{busy}");
    let release = LockRequest::Release { ticket: event.ticket, untouched: false };
    assert_eq!(lock(&mut client, &release), Ok(None));
    let granted = format!("{:?}", lock(&mut free, &try_it).unwrap());
    assert!(granted.contains("Granted"), "{granted}");
}

#[test]
fn a_restricted_session_sees_no_list_and_no_other_node_and_no_handles_of_others() {
    let daemon = Daemon::start();
    let all = [(LOCKS, "*:acquire:*"), (FUNCTIONS, "*:call:*"), (FUNCTIONS, "*:serve")];
    let services = Services::LOCKS.and(Services::CALLS);
    let mut client = restricted(&daemon, &all, services);
    let (mut free, _) = daemon.session();
    let handle = open(&mut free, "kept", OWN_USER).unwrap();
    serve(&mut free, "kept").unwrap();
    let beginning = String::new;
    let list = LockRequest::List { user: OWN_USER, from: 0, beginning: beginning() };
    assert_eq!(lock(&mut client, &list), Err(Code::Denied));
    let on = LockRequest::On { node: 2, request: Box::new(list) };
    assert_eq!(lock(&mut client, &on), Err(Code::Denied));
    for request in [
        RpcRequest::List { user: OWN_USER, from: 0, beginning: beginning() },
        RpcRequest::ListOn { node: 2, user: OWN_USER, from: 0, beginning: beginning() },
    ] {
        assert_eq!(own(&mut client, request.encode()).unwrap_err(), Code::Denied, "{request:?}");
    }
    assert_eq!(find(&mut client, "kept", OWN_USER, 2), Err(Code::Denied), "another node");
    let acquire = LockRequest::Acquire { handle, claim: Claim::Exclusive, wait: false };
    assert_eq!(lock(&mut client, &acquire), Err(Code::NotFound));
    let close = LockRequest::Close { handle };
    assert_eq!(lock(&mut client, &close), Err(Code::NotFound));
}

#[test]
fn functions_are_called_and_served_by_the_names_and_rights_of_its_scopes() {
    let daemon = Daemon::start();
    let (mut free, _) = daemon.session();
    serve(&mut free, "resize").unwrap();
    serve(&mut free, "secret").unwrap();
    let scopes = [(FUNCTIONS, "resize:call"), (FUNCTIONS, "own/*:serve")];
    let mut client = restricted(&daemon, &scopes, Services::CALLS);
    assert!(find(&mut client, "resize", OWN_USER, THIS_NODE).is_ok());
    assert!(serve(&mut client, "own/a").is_ok());
    for name in ["secret", "nowhere", "own/a"] {
        assert_eq!(find(&mut client, name, OWN_USER, THIS_NODE), Err(Code::Denied), "{name}");
    }
    assert_eq!(find(&mut client, "resize", own_user() + 1, THIS_NODE), Err(Code::Denied));
    for name in ["resize", "other", "own"] {
        assert_eq!(serve(&mut client, name), Err(Code::Denied), "{name}");
    }
    // Others call what it serves.
    assert!(find(&mut free, "own/a", OWN_USER, THIS_NODE).is_ok());
}

#[test]
fn another_users_functions_are_no_more_open_to_roots_sealed_program_than_to_anybody() {
    let daemon = Daemon::start();
    let mut client = restricted(&daemon, &[(FUNCTIONS, "*:call:*")], Services::CALLS);
    // Root itself would hear that there is none.
    let code = find(&mut client, "f", own_user() + 1, THIS_NODE);
    assert_eq!(code, Err(Code::Denied));
}

#[test]
fn without_the_service_scopes_give_nothing_and_scopes_of_one_service_nothing_of_another() {
    let daemon = Daemon::start();
    let mut without = restricted(&daemon, &[(LOCKS, "*:acquire")], Services::MEMORY);
    assert_eq!(open(&mut without, "a", OWN_USER), Err(Code::Denied));
    let others = [(NamesOf::Memory, "*:allocate"), (NamesOf::Snapshots, "*:publish")];
    let services = Services::LOCKS.and(Services::CALLS);
    let mut other = restricted(&daemon, &others, services);
    assert_eq!(open(&mut other, "a", OWN_USER), Err(Code::Denied));
    assert_eq!(serve(&mut other, "a"), Err(Code::Denied));
    assert_eq!(find(&mut other, "a", OWN_USER, THIS_NODE), Err(Code::Denied));
}
