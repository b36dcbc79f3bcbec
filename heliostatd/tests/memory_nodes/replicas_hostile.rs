//! A node that has the cluster's secret and lies about regions on several nodes.

use crate::support::await_that;
use crate::support::cluster::{nodes, SecretFile};
use crate::support::liar::{own_user, Liar};
use crate::support::programs::Program;
use crate::support::Daemon;
use heliostat_server_replica::SERVICE;

const DIGITS: &str = "7b";
const FORGET: u8 = 3;
const READ: u8 = 4;
const WRITE: u8 = 5;
const FREE: u8 = 6;

fn replicas(daemon: &Daemon) -> usize {
    daemon.status()["replicas"].as_array().map_or(0, Vec::len)
}

/// What the node that keeps the records says of a key: revision and record.
fn record(liar: &Liar, key: &str) -> (u64, Vec<u8>) {
    let reply = liar.ask(&[&[READ], key.as_bytes()].concat(), Vec::new()).unwrap();
    let revision = u64::from_le_bytes(reply.payload[8..16].try_into().unwrap());
    (revision, reply.payload[16..].to_vec())
}

#[test]
fn records_that_are_none_are_not_kept_and_no_stranger_ends_a_region() {
    let secret = SecretFile::new("replicas-liar", DIGITS);
    let [one, two] = nodes::<2>(&secret);
    let mut maker = Program::start(&two);
    assert_eq!(maker.say("allocate kv 4096 name=kv replicas=2"), "on 2");
    await_that("both have it", || replicas(&one) + replicas(&two) == 2);
    // Node 1 keeps the records and has the backup, node 2 the primary.
    let liar = Liar::join(&one, 77, DIGITS, SERVICE);
    let other = format!("{}/other", own_user());
    let garbage = [vec![0; 8], vec![7; 100_000]].concat();
    assert!(liar.ask(&[&[WRITE], other.as_bytes()].concat(), garbage).is_err());
    assert_eq!(record(&liar, &other), (0, Vec::new()));

    let (_, placement) = record(&liar, &format!("{}/kv", own_user()));
    let named = |epoch: u64| [&placement[..24], &epoch.to_le_bytes()].concat();
    assert!(liar.ask(&[FORGET], named(u64::MAX)).is_ok(), "it is heard");
    record(&liar, &other);
    assert_eq!(replicas(&one), 1, "and not obeyed");

    let liar = Liar::join(&two, 78, DIGITS, SERVICE);
    let free = |user: u32| [&[FREE], &user.to_le_bytes()[..]].concat();
    let told = liar.ask(&free(own_user() + 1), named(0)).unwrap();
    assert_eq!(told.payload, [2], "another user");
    maker.does("write kv 0 all-here");
    assert_eq!(maker.say("read kv 0 8"), "read all-here");
    maker.does("free kv");
    await_that("it is gone", || replicas(&one) + replicas(&two) == 0);
}
