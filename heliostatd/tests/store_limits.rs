//! How much a user may have of a store, and what others may do with its areas.

mod support;

use std::time::Duration;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::session::restriction::Services;
use heliostat_abi::snapshot::region_scope::{NamesOf, RegionScope};
use heliostat_abi::store::{
    AreaKind, AreaRights, Creation, Spill, StoreReply, StoreRequest, Way, WayWanted, Why,
};
use support::beside::{as_user, may_become_others, ATTACKERS, NEIGHBOUR};
use support::stores::{creation, opening, sizes, StoreFile, Told, GRAIN};
use support::{full, Client, Daemon};

fn asked(client: &mut Client, request: &StoreRequest) -> Reply {
    client.ask(&Request::Own(request.encode())).0
}

#[test]
fn areas_and_their_bytes_are_limited_for_each_user() {
    let file = StoreFile::new(64 * GRAIN);
    let limits = format!("areas_per_user = 2\nbytes_per_user = {}", 8 * GRAIN);
    let daemon = Daemon::with(&file.config(&limits), &[]);
    if !may_become_others() {
        return;
    }
    let (side, path) = (Side::User, daemon.socket());
    as_user(NEIGHBOUR, || {
        let mut client = Client::connect(path.to_str().unwrap());
        client.hello();
        client.create("a", 6 * GRAIN).unwrap();
        let more = asked(&mut client, &creation("b", 3 * GRAIN));
        assert_eq!(more, full(Thing::AreaBytes, side, 8 * GRAIN));
        let b = client.create("b", GRAIN).unwrap();
        let more = asked(&mut client, &creation("c", GRAIN));
        assert_eq!(more, full(Thing::Areas, side, 2));
        let grow = StoreRequest::Resize { handle: b.handle, bytes: 3 * GRAIN };
        assert_eq!(asked(&mut client, &grow), full(Thing::AreaBytes, side, 8 * GRAIN));
        client.store_done(&StoreRequest::Delete { handle: b.handle });
        client.create("c", 2 * GRAIN).unwrap();
    });
}

#[test]
fn handles_are_limited_for_each_session() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config("handles_per_session = 3"), &[]);
    let ((mut client, _), (mut other, _)) = (daemon.session(), daemon.session());
    client.create("a", GRAIN).unwrap();
    let handles = [0; 2].map(|_| client.managed("a"));
    let more = opening(u32::MAX, "a", AreaRights::READ, WayWanted::Any);
    assert_eq!(asked(&mut client, &more), full(Thing::AreaHandles, Side::Session, 3));
    // A direct one counts as any other, and leaves nothing behind.
    assert_eq!(asked(&mut client, &more), full(Thing::AreaHandles, Side::Session, 3));
    other.managed("a");
    client.store_done(&StoreRequest::Close { handle: handles[0] });
    client.managed("a");
    assert_eq!(daemon.status()["store"]["direct"], 0);
}

#[test]
fn other_users_have_what_the_owner_gives_and_are_not_trusted_with_the_device() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config(""), &[]);
    if !may_become_others() {
        return;
    }
    let path = daemon.socket();
    let connect = || {
        let mut client = Client::connect(path.to_str().unwrap());
        client.hello();
        client
    };
    let (mut owner, _) = daemon.session();
    let own = as_user(ATTACKERS[0], || {
        let mut client = connect();
        let made = client.create("mine", GRAIN).unwrap();
        assert_eq!(made.way, Way::Emulated(Spill::NotWanted));
        let (opened, _) = client.open_area("mine", AreaRights::ALL, WayWanted::Any).unwrap();
        assert_eq!(opened.way, Way::Emulated(Spill::NotTrusted));
        (client, made.handle)
    });
    let (mut client, handle) = own.unwrap();
    let open = |rights| {
        let mut other = as_user(NEIGHBOUR, connect).unwrap();
        other.open_area_of(ATTACKERS[0], "mine", rights, WayWanted::Any).map_err(|no| no.why)
    };
    assert_eq!(open(AreaRights::READ).unwrap_err(), Why::NotFound);
    client.store_done(&StoreRequest::Appoint { handle, others: AreaRights::READ });
    assert!(open(AreaRights::READ).is_ok());
    assert_eq!(open(AreaRights::WRITE).unwrap_err(), Why::Denied);
    assert_eq!(open(AreaRights::MANAGE).unwrap_err(), Why::Denied);
    // Rates are the control plane's owner's to set; everything is his to see and to manage.
    let rate = StoreRequest::SetRate { handle, bytes_per_second: 9 };
    assert!(matches!(client.store(&rate), Told::Refused(Code::Denied)));
    let mut stranger = as_user(NEIGHBOUR, connect).unwrap();
    assert_eq!((sizes(&owner.areas()).len(), sizes(&stranger.areas()).len()), (1, 0));
    assert!(matches!(stranger.store(&StoreRequest::Detach), Told::Refused(Code::Denied)));
    let rights = AreaRights::MANAGE;
    let (managed, _) =
        owner.open_area_of(ATTACKERS[0], "mine", rights, WayWanted::Emulated).unwrap();
    owner.store_done(&StoreRequest::Delete { handle: managed.handle });
}

#[test]
fn a_rule_gives_and_takes_what_owners_do_not() {
    let file = StoreFile::new(64 * GRAIN);
    let rules = format!(
        "[[rule]]\naction = \"allow\"\nrights = [\"read\"]\nusers = [{NEIGHBOUR}]\n\
         names = [\"/store/shared/*\"]\n\
         [[rule]]\naction = \"deny\"\nrights = [\"publish\"]\nusers = [{NEIGHBOUR}]\n"
    );
    let daemon = Daemon::with(&file.config(&rules), &[]);
    if !may_become_others() {
        return;
    }
    let (mut owner, _) = daemon.session();
    let own = rustix::process::geteuid().as_raw();
    owner.create("shared/a", GRAIN).unwrap();
    owner.create("b", GRAIN).unwrap();
    let path = daemon.socket();
    as_user(NEIGHBOUR, || {
        let mut client = Client::connect(path.to_str().unwrap());
        client.hello();
        let mut why = |name, rights| {
            let opened = client.open_area_of(own, name, rights, WayWanted::Any);
            opened.map(|_| ()).map_err(|no| no.why)
        };
        assert_eq!(why("shared/a", AreaRights::READ), Ok(()));
        assert_eq!(why("shared/a", AreaRights::WRITE), Err(Why::NotFound));
        assert_eq!(why("b", AreaRights::READ), Err(Why::NotFound));
        assert!(matches!(client.store(&creation("c", GRAIN)), Told::Refused(Code::Denied)));
    });
}

#[test]
fn a_restricted_session_has_no_areas_that_were_not_allowed() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config(""), &[]);
    daemon.session().0.create("a", GRAIN).unwrap();
    let mut client = daemon.visit();
    let services = Services::MEMORY.and(Services::FILES);
    assert_eq!(client.ask(&Request::Restrict { services, pid: 4_000_000 }).0, Reply::Done);
    client.hello();
    let open = opening(u32::MAX, "a", AreaRights::READ, WayWanted::Any);
    for request in [open, creation("b", GRAIN), StoreRequest::Store, StoreRequest::Detach] {
        assert!(matches!(client.store(&request), Told::Refused(Code::Denied)), "{request:?}");
    }
}

#[test]
fn a_restricted_session_has_the_areas_that_were_allowed_by_a_loop_and_no_others() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config(""), &[]);
    let (mut free, _) = daemon.session();
    for name in ["log/1", "read", "other"] {
        free.create(name, GRAIN).unwrap();
    }
    let mut client = daemon.visit();
    for text in ["log/*", "read:read", "new/*:create"] {
        let scope = RegionScope::parse_of(NamesOf::Areas, text).unwrap();
        assert_eq!(client.ask(&Request::AllowRegions { scope }).0, Reply::Done);
    }
    let restrict = Request::Restrict { services: Services::AREAS, pid: 4_000_000 };
    assert_eq!(client.ask(&restrict).0, Reply::Done);
    client.hello();
    let data = AreaRights::READ.and(AreaRights::WRITE);
    let denied = |told: Told| matches!(told, Told::Refused(Code::Denied));
    let (opened, device) = client.open_area("log/1", data, WayWanted::Any).unwrap();
    let why = Way::Emulated(Spill::Restricted);
    assert_eq!((opened.way, opened.rights, device.is_none()), (why, data, true));
    assert!(client.open_area("read", AreaRights::READ, WayWanted::Any).is_ok());
    let direct = client.open_area("log/1", data, WayWanted::Direct).unwrap_err();
    assert_eq!(direct.why, Why::NotDirect);
    for (name, rights) in [
        ("read", data),
        ("log/1", AreaRights::ALL),
        ("log/1", AreaRights::MANAGE),
        ("other", AreaRights::READ),
        ("log", AreaRights::READ),
    ] {
        let asked = opening(u32::MAX, name, rights, WayWanted::Any);
        assert!(denied(client.store(&asked)), "{name} {rights}");
    }
    assert_eq!(client.open_area("log/2", data, WayWanted::Any).unwrap_err().why, Why::NotFound);
    // What it may make it may end.
    client.create("new/a", GRAIN).unwrap();
    let handle = client.managed("new/a");
    let rate = StoreRequest::SetRate { handle, bytes_per_second: 9 };
    let list = StoreRequest::List { user: u32::MAX, from: 0, beginning: String::new() };
    for request in [creation("log/2", GRAIN), rate, list, StoreRequest::Store, StoreRequest::Detach]
    {
        assert!(denied(client.store(&request)), "{request:?}");
    }
    client.store_done(&StoreRequest::Delete { handle });
    assert_eq!(free.areas().len(), 3);
}

#[test]
fn that_a_restricted_session_may_write_a_log_is_written_down_once() {
    let file = StoreFile::new(64 * GRAIN);
    let daemon = Daemon::with(&file.config(""), &[]);
    let (mut free, _) = daemon.session();
    let StoreRequest::Create(wanted) = creation("log", GRAIN) else { panic!("a creation") };
    let log = StoreRequest::Create(Creation { kind: AreaKind::Log, ..wanted });
    assert!(matches!(free.store(&log), Told::Own(StoreReply::Opened(_), _)));
    let changes = || daemon.status()["store"]["changes"].as_u64().unwrap();
    let before = changes();
    let mut client = daemon.visit();
    let scope = RegionScope::parse_of(NamesOf::Areas, "log").unwrap();
    assert_eq!(client.ask(&Request::AllowRegions { scope }).0, Reply::Done);
    let restrict = Request::Restrict { services: Services::AREAS, pid: 4_000_000 };
    assert_eq!(client.ask(&restrict).0, Reply::Done);
    client.hello();
    let data = AreaRights::READ.and(AreaRights::WRITE);
    client.open_area("log", AreaRights::READ, WayWanted::Any).unwrap();
    for _ in 0..2 {
        client.open_area("log", data, WayWanted::Any).unwrap();
    }
    while changes() == before {
        std::thread::sleep(Duration::from_millis(5));
    }
    // It stays so whatever the owner says of others afterwards, which is one more change.
    let handle = free.managed("log");
    free.store_done(&StoreRequest::Appoint { handle, others: AreaRights::READ });
    assert_eq!(changes(), before + 2);
}
