//! Nodes whose registry is one of them: the others ask it over their links.

use std::time::Instant;

use crate::support::await_that;
use crate::support::cluster::{free_ports, incarnation, joined_count, list, state, SecretFile};
use crate::support::registry::{await_all_joined, is_one_epoch, told, LEASE};
use crate::support::Daemon;

/// Node 1 and on of these ports; all have node 1 on their list, and nobody else.
fn config(at: usize, ports: &[u16], secret: &SecretFile) -> String {
    let mut text = format!(
        "[cluster]\nnode = {}\nlisten = \"tcp:127.0.0.1:{}\"\nsecret = \"{}\"\n\
         registry = \"node:1\"\nlease_s = {}\n",
        at + 1,
        ports[at],
        secret.0.display(),
        LEASE.as_secs()
    );
    if at > 0 {
        let address = format!("tcp:127.0.0.1:{}", ports[0]);
        text += &format!("[[cluster.peer]]\nnode = 1\naddress = \"{address}\"\n");
    }
    text
}

fn nodes<const COUNT: usize>(secret: &SecretFile) -> [Daemon; COUNT] {
    let ports = free_ports::<COUNT>();
    let mut at = 0;
    let daemons = [(); COUNT].map(|()| {
        at += 1;
        Daemon::with(&config(at - 1, &ports, secret), &[])
    });
    await_all_joined(&daemons.each_ref());
    daemons
}

#[test]
fn nodes_that_know_only_the_registrys_node_join_each_other_and_are_declared_dead() {
    let secret = SecretFile::new("registry-node-1", "c1");
    let mut daemons = nodes::<3>(&secret);
    let listed = list(&daemons[1]);
    assert_eq!((listed.registry.kind, listed.registry.members), (1, 3));
    let before = [0, 1].map(|at| incarnation(&daemons[at], 2 - at as u64));
    std::thread::sleep(LEASE * 2);
    assert_eq!(list(&daemons[2]).epoch, listed.epoch, "leases are kept");
    let start = Instant::now();
    daemons[2].kill();
    await_that("it is declared dead", || {
        daemons[..2].iter().all(|it| list(it).registry.members == 2)
    });
    assert!(start.elapsed() < LEASE * 4, "{:?}", start.elapsed());
    let others = [&daemons[0], &daemons[1]];
    await_that("the two have one epoch", || is_one_epoch(&others));
    assert_eq!(state(&daemons[1], 3), None);
    daemons[2].restart();
    await_all_joined(&daemons.each_ref());
    let after = [0, 1].map(|at| incarnation(&daemons[at], 2 - at as u64));
    assert_eq!(after, before, "the others went on");
}

#[test]
fn without_the_registrys_node_leases_run_out_and_with_it_all_come_back() {
    let secret = SecretFile::new("registry-node-2", "c2");
    let mut daemons = nodes::<3>(&secret);
    let epoch = list(&daemons[1]).epoch;
    daemons[0].kill();
    await_that("the others have stopped", || {
        daemons[1..].iter().all(|it| told(it)["is_member"] == false && joined_count(it) == 0)
    });
    daemons[0].restart();
    await_all_joined(&daemons.each_ref());
    assert!(list(&daemons[1]).epoch > epoch, "epochs go on after the registry's restart");
}

#[test]
fn a_node_that_keeps_no_registry_is_said_to_keep_none() {
    let secret = SecretFile::new("registry-node-3", "c3");
    let ports = free_ports::<2>();
    let other = config(0, &ports, &secret).replace("registry = \"node:1\"\n", "");
    let one = Daemon::with(&other, &[]);
    let two = Daemon::with(&config(1, &ports, &secret), &[]);
    await_that("it says why", || {
        told(&two)["why"].as_str().is_some_and(|why| why.contains("node 1"))
    });
    assert_eq!(told(&two)["is_member"], false);
    assert_eq!(told(&one), serde_json::Value::Null);
}
