//! Rates of sessions and of names, kept from whoever lets go of what it has and comes again.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::delegated::*;
use crate::support::*;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Reply, Request};

const MIB: u32 = 1 << 20;

/// A daemon with one rate of everything, or of files.
fn limited(per: &str, limit: &str, names: &str) -> Daemon {
    Daemon::with(&format!("[[rate]]\nper = \"{per}\"\n{limit}\n{names}"), &[])
}

const OF_FILES: &str = "names = [\"/file/*\"]\n";

fn open(session: &mut Delegate, path: &Path) -> ObjectId {
    session.show(&File::open(path).unwrap(), false).unwrap()
}

#[test]
fn a_session_that_opens_a_file_many_times_has_its_rate_once() {
    let daemon = limited("session", "operations_per_second = 40", OF_FILES);
    let path = sample(&daemon, 4096);
    let mut session = Delegate::new(&daemon);
    let files: Vec<_> = (0..12).map(|_| open(&mut session, &path)).collect();
    let began = Instant::now();
    for file in files {
        assert_eq!(session.read(file, 0, 100).0, 100);
    }
    // Four are a burst, and each of the others 25 ms.
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(150), "{took:?}");
}

/// A megabyte that was read is a second's worth, but for the burst.
#[test]
fn a_connection_that_delegates_anew_owes_what_it_owed() {
    for (per, names) in [("session", ""), ("session", OF_FILES), ("user", OF_FILES), ("rule", "")] {
        let daemon = limited(per, "bytes_per_second = 1048576", names);
        let path = sample(&daemon, MIB as usize);
        let mut session = Delegate::new(&daemon);
        let began = Instant::now();
        for _ in 0..2 {
            let file = open(&mut session, &path);
            assert_eq!(session.read(file, 0, MIB).0, i64::from(MIB));
            let Delegate { mut client, welcome, .. } = session;
            assert_eq!(client.ask(&Request::EndDelegate).0, Reply::Done);
            session = Delegate::with(client, welcome);
        }
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(800), "{per} {names}: {took:?}");
    }
}

#[test]
fn a_user_that_connects_anew_owes_what_it_owed() {
    let daemon = limited("user", "bytes_per_second = 1048576", OF_FILES);
    let path = sample(&daemon, MIB as usize);
    let began = Instant::now();
    for _ in 0..2 {
        let mut session = Delegate::new(&daemon);
        let file = open(&mut session, &path);
        assert_eq!(session.read(file, 0, MIB).0, i64::from(MIB));
        drop(session);
        await_that("it has ended", || daemon.status()["delegated"]["sessions"] == 0);
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(800), "{took:?}");
}
