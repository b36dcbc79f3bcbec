//! Users who take all they can get: another user and root, beside them all the time, miss nothing.
//!
//! The daemon has the rights and descriptors of the shipped unit, and no more.

mod support;

use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::fs::chown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use heliostat_abi::code::{Side, Thing, Unmapped};
use heliostat_abi::limits::{CHANNELS_PER_PAIR_MAX, FDS_PER_REPLY_MAX, PORTS_MAX, SESSIONS_MAX};
use heliostat_abi::name::NetAddress;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::session::restriction::Services;
use heliostat_abi::snapshot::memory::Shape;
use heliostat_abi::snapshot::region::RegionName;
use heliostat_base::mapping::{SharedMapping, Writers};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use serde_json::Value;
use support::beside::*;
use support::ends::Ends;
use support::files::lease;
use support::*;

/// Each user's connections are part of the storm, not how fast they come.
const FAST: &str = "[limits]\nconnects_per_second = 1000000\nconnects_burst = 1000000\n";
/// Channels that cost no address space.
const SMALL: &str = "[channel]\nslots = 1\nring_bytes = 16384\n";

/// This process holds what several users would.
fn raise_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// A session, or why there is none.
fn try_session(daemon: &Daemon) -> Result<Client, Option<Reply>> {
    let Ok(socket) = daemon.try_connect() else { return Err(None) };
    let mut client = Client::on(socket);
    client.socket.send(&Request::Hello { program: "x".into() }.encode(1), &[]).map_err(|_| None)?;
    match client.receive() {
        Ok((Reply::Welcome { .. }, ..)) => Ok(client),
        Ok((reply, ..)) => Err(Some(reply)),
        Err(_) => Err(None),
    }
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn address_of(socket: &TcpListener) -> NetAddress {
    NetAddress::new(socket.local_addr().unwrap())
}

/// Everything that two users can get of what `take` takes, which says whether it got one more.
fn plunder(daemon: &Daemon, take: impl Fn(&Daemon) -> Vec<Client> + Sync) -> Vec<Client> {
    ATTACKERS.into_iter().flat_map(|uid| as_user(uid, || take(daemon)).unwrap()).collect()
}

/// Two users take whatever they can get and go on trying, until `meanwhile` is over, which begins when
/// they were refused a hundred times.
fn besiege(take: impl Fn() -> Option<Client> + Sync, meanwhile: impl FnOnce()) {
    let (goes_on, refused) = (AtomicBool::new(true), AtomicUsize::new(0));
    let grab = || {
        let mut all = Vec::new();
        while goes_on.load(Ordering::Relaxed) {
            // Each may be a connection that is refused before long.
            let next = if all.len() < SESSIONS_MAX { take() } else { None };
            match next {
                Some(one) => all.push(one),
                None => {
                    refused.fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let _ends = Ends(&goes_on);
        let grab = &grab;
        let attackers = ATTACKERS.map(|uid| scope.spawn(move || as_user(uid, grab).unwrap()));
        let has_begun = || refused.load(Ordering::Relaxed) >= 100;
        await_that("they have all", || has_begun() || attackers.iter().any(|it| it.is_finished()));
        meanwhile();
    });
}

fn used(daemon: &Daemon, thing: &str, uid: u32) -> u64 {
    let users = daemon.status()["quotas"][thing]["users"].as_array().cloned().unwrap_or_default();
    let of_user = users.iter().find(|user| user["uid"] == uid);
    of_user.map_or(0, |user| user["used"].as_u64().unwrap())
}

#[test]
fn two_users_who_take_every_session_leave_some() {
    if !may_become_others() {
        return;
    }
    raise_descriptors();
    let daemon = Daemon::as_unit(FAST);
    let beside = Beside::start(&daemon);
    besiege(|| try_session(&daemon).ok(), || (0..20).for_each(|_| beside.await_turn()));
    beside.finish(&daemon);
}

#[test]
fn connections_that_never_greet_leave_some() {
    if !may_become_others() {
        return;
    }
    raise_descriptors();
    let daemon = Daemon::as_unit(FAST);
    let beside = Beside::start(&daemon);
    let visit = || daemon.try_connect().ok().map(Client::on);
    besiege(visit, || (0..20).for_each(|_| beside.await_turn()));
    beside.finish(&daemon);
}

#[test]
fn users_who_take_every_address_leave_some() {
    if !may_become_others() {
        return;
    }
    raise_descriptors();
    let daemon = Daemon::as_unit(FAST);
    let beside = Beside::start(&daemon);
    let sockets: Vec<_> = (0..PORTS_MAX).map(|_| listener()).collect();
    let held = plunder(&daemon, |daemon| {
        let each = sockets.chunks(256).map(|some| {
            let (mut client, _) = daemon.session();
            for socket in some {
                client.ask_with(&Request::Listen, &[socket.as_raw_fd()]);
            }
            client
        });
        each.collect()
    });
    beside.await_turn();
    let (half, reserve) = (PORTS_MAX as u64 / 2, PORTS_MAX as u64 * 12 / 100);
    let taken = ATTACKERS.map(|uid| used(&daemon, "Ports", uid));
    // The second takes the address of the first over, whose socket it shows.
    assert!(taken[0] <= half && taken[0] + taken[1] <= PORTS_MAX as u64 - reserve, "{taken:?}");
    let refused = as_user(ATTACKERS[0], || {
        let (mut client, _) = daemon.session();
        let more: Vec<_> = (0..PORTS_MAX).map(|_| listener()).collect();
        let answers = more.iter().map(|it| client.ask_with(&Request::Listen, &[it.as_raw_fd()]).0);
        answers.filter(|reply| matches!(reply, Reply::Refused { .. })).last()
    });
    assert_eq!(refused, Some(Some(full(Thing::Ports, Side::User, half))));
    beside.finish(&daemon);
    drop(held);
}

#[test]
fn users_who_take_every_channel_leave_some() {
    if !may_become_others() {
        return;
    }
    raise_descriptors();
    let daemon = Daemon::as_unit(&format!("{FAST}channels_per_session = 16384\n{SMALL}"));
    let beside = Beside::start(&daemon);
    let held = plunder(&daemon, |daemon| {
        let (mut server, _) = daemon.session();
        let sockets: Vec<_> = (0..64).map(|_| listener()).collect();
        for socket in &sockets {
            server.listen(socket);
        }
        let clients = (0..3).map(|_| {
            let (mut client, _) = daemon.session();
            for socket in &sockets {
                let address = address_of(socket);
                (0..CHANNELS_PER_PAIR_MAX).for_each(|_| drop(client.open(address)));
            }
            client
        });
        clients.chain([server]).collect()
    });
    beside.await_turn();
    let taken = ATTACKERS.map(|uid| used(&daemon, "Channels", uid));
    // A new socket of the second may have an address of the first's, whose channels then go.
    assert!(taken.iter().all(|it| *it <= 8192) && taken[0] + taken[1] > 8192, "{taken:?}");
    beside.finish(&daemon);
    drop(held);
}

#[test]
fn users_who_take_every_region_leave_some() {
    if !may_become_others() {
        return;
    }
    raise_descriptors();
    let daemon = Daemon::as_unit(FAST);
    let beside = Beside::start(&daemon);
    let shape = Shape::new(1, 5000, 0, 2).unwrap();
    let own = Writers::CreatorOnly;
    let table = SharedMapping::create_for(c"table", shape.table_bytes(), own).unwrap();
    let pool = SharedMapping::create_for(c"pool", shape.pool_bytes(), own).unwrap();
    table.1.copy_in(0, &shape.encode()).unwrap();
    let fds = [table.0.as_raw_fd(), pool.0.as_raw_fd()];
    let held = plunder(&daemon, |daemon| {
        let each = (0..16).map(|session| {
            let (mut client, _) = daemon.session();
            for number in 0..64 {
                let name = RegionName::parse(&format!("{session}/{number}")).unwrap();
                client.ask_with(&Request::Publish { name }, &fds);
            }
            client
        });
        each.collect()
    });
    beside.await_turn();
    assert_eq!(used(&daemon, "Regions", ATTACKERS[0]), 512, "a user's share");
    beside.finish(&daemon);
    drop(held);
}

#[test]
fn users_who_take_every_lease_leave_some() {
    if !may_become_others() {
        return;
    }
    if !may_lease_others_files() {
        return eprintln!("skipped: no CAP_LEASE here, so that users get no lease of root's");
    }
    raise_descriptors();
    let daemon = Daemon::as_unit(&format!("{FAST}leases_per_session = 4096\n"));
    let beside = Beside::start(&daemon);
    let folder = daemon.folder().join("many");
    std::fs::create_dir_all(&folder).unwrap();
    // The files are made by root, for each of the two.
    for uid in ATTACKERS {
        for number in 0..2200 {
            let path = folder.join(format!("{uid}-{number}"));
            write_file(&path, &[7; 100]);
            chown(&path, Some(uid), Some(uid)).unwrap();
        }
    }
    let held = ATTACKERS.map(|uid| {
        as_user(uid, || {
            let (mut client, _) = daemon.session();
            let open =
                |number| std::fs::File::open(folder.join(format!("{uid}-{number}"))).unwrap();
            let answers = (0..2200).map(|number| lease(&mut client, &open(number)).err());
            let refused = answers.flatten().collect::<Vec<_>>();
            assert!(refused.iter().all(|reason| *reason == Unmapped::Full), "{refused:?}");
            client
        })
    });
    beside.await_turn();
    assert_eq!(used(&daemon, "Leases", ATTACKERS[0]), 2048, "a user's share");
    beside.finish(&daemon);
    drop(held);
}

#[test]
fn a_sealed_program_leaves_its_user_sessions() {
    if !may_become_others() {
        return;
    }
    raise_descriptors();
    let daemon = Daemon::as_unit(FAST);
    let beside = Beside::start(&daemon);
    as_user(ATTACKERS[0], || {
        let sealed = |number| {
            let mut client = daemon.visit();
            let restrict = Request::Restrict { services: Services::STREAMS, pid: 1 };
            match client.ask(&restrict).0 {
                Reply::Done => {}
                reply => return Err(reply),
            }
            // At once: who has not greeted is ended after a while, and the others take theirs.
            if number < 512 {
                client.hello();
            }
            Ok(client)
        };
        let mut held = Vec::new();
        let refused = (0..2048).map(sealed).find_map(|it| it.map(|it| held.push(it)).err());
        let limit = (2048 + 64) * 25 / 100;
        assert_eq!(refused, Some(full(Thing::Connections, Side::SealedProgram, limit)));
        let reply = held[513].ask(&Request::Hello { program: "x".into() }).0;
        assert_eq!(reply, full(Thing::Sessions, Side::SealedProgram, 512));
        let own: Vec<_> = (0..1000).map(|_| daemon.session()).collect();
        assert_eq!(own.len(), 1000);
    })
    .unwrap();
    beside.finish(&daemon);
}

/// Sessions whose answers bring more descriptors than the kernel lets one user send.
fn leave_unread(daemon: &Daemon) -> Vec<Client> {
    let (mut server, _) = daemon.session();
    let socket = listener();
    let (port, address) = server.listen(&socket);
    let mut clients: Vec<_> = (0..3).map(|_| daemon.session().0).collect();
    for client in &mut clients {
        (0..CHANNELS_PER_PAIR_MAX).for_each(|_| drop(client.open(address).unwrap()));
    }
    let attaches = 3 * CHANNELS_PER_PAIR_MAX / FDS_PER_REPLY_MAX;
    let sessions = unit::descriptors() as usize / (attaches * FDS_PER_REPLY_MAX) + 20;
    for _ in 0..sessions {
        let Ok(mut deaf) = try_session(daemon) else { continue };
        // It may have been ended for the sake of its user's others.
        let shown = deaf.socket.send(&Request::Listen.encode(1), &[socket.as_raw_fd()]);
        if shown.is_err() || deaf.receive().is_err() {
            continue;
        }
        for _ in 0..attaches {
            let _ = deaf.socket.send(&Request::Attach { port }.encode(2), &[]);
        }
        clients.push(deaf);
    }
    clients.push(server);
    clients
}

#[test]
fn answers_that_nobody_reads_use_up_their_users_share_and_their_sender_is_ended() {
    if !may_become_others() {
        return;
    }
    raise_descriptors();
    let daemon = Daemon::as_unit(&format!("{FAST}{SMALL}"));
    let beside = Beside::start(&daemon);
    let held = as_user(ATTACKERS[0], || leave_unread(&daemon)).unwrap();
    beside.await_turn();
    assert!(used(&daemon, "Unread", ATTACKERS[0]) <= 2048);
    let metrics = daemon.visit().text(&Request::Metrics);
    assert!(!metrics.contains("heliostat_connections_unread_total 0\n"), "{metrics}");
    let is_told = |denial: &Value| denial["by"] == "it does not read its answers";
    assert!(daemon.status()["denials"].as_array().unwrap().iter().any(is_told));
    beside.finish(&daemon);
    drop(held);
}

#[test]
fn texts_that_nobody_reads_are_bounded() {
    let daemon = Daemon::with("[limits]\nunread_bytes_per_user = 1048576\n", &[]);
    let mut deaf: Vec<_> = (0..40).map(|_| daemon.session().0).collect();
    // Each is long for the sessions it tells of, and nobody reads one but the first.
    for client in &deaf {
        for _ in 0..8 {
            let _ = client.socket.send(&Request::Status.encode(2), &[]);
        }
    }
    assert!(daemon.status()["pid"].is_number());
    deaf.iter_mut().for_each(|client| drop(client.receive()));
}

#[test]
fn a_refusal_names_what_and_whose() {
    let daemon = Daemon::with("[limits]\nports_per_session = 1\n", &[]);
    let (mut client, _) = daemon.session();
    client.listen(&listener());
    let socket = listener();
    let reply = client.ask_with(&Request::Listen, &[socket.as_raw_fd()]).0;
    assert_eq!(reply, full(Thing::Ports, Side::Session, 1));
    let denial = &daemon.status()["denials"][0];
    assert_eq!(denial["name"], "listening addresses");
    assert_eq!(denial["by"], "this session has no more than 1");
}
