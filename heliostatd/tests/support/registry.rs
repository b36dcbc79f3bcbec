//! Daemons that know each other by a registry alone.

#![allow(dead_code)]

#[path = "../../../backend/registry/tests/support/etcd_server.rs"]
mod etcd_server;

use std::time::Duration;

pub use etcd_server::EtcdServer;
use serde_json::Value;

use super::cluster::{joined_count, list, SecretFile};
use super::{await_that, Daemon};

/// Seconds of the lease in these tests: the shortest.
pub const LEASE: Duration = Duration::from_secs(2);

/// The configuration of a node that knows nobody.
pub fn config(node: usize, secret: &SecretFile, registry: &str) -> String {
    format!(
        "[cluster]\nnode = {node}\nlisten = \"tcp:127.0.0.1:0\"\nsecret = \"{}\"\n\
         registry = \"{registry}\"\nlease_s = {}\n",
        secret.0.display(),
        LEASE.as_secs()
    )
}

/// Nodes 1 and on, which find each other in etcd.
pub fn nodes<const COUNT: usize>(secret: &SecretFile, server: &EtcdServer) -> [Daemon; COUNT] {
    let registry = format!("etcd:{}", server.endpoint());
    let mut node = 0;
    let daemons = [(); COUNT].map(|()| {
        node += 1;
        Daemon::with(&config(node, secret, &registry), &[])
    });
    await_all_joined(&daemons.each_ref());
    daemons
}

/// Until all have joined each other, in one epoch.
pub fn await_all_joined(daemons: &[&Daemon]) {
    await_that("all are joined", || daemons.iter().all(|it| joined_count(it) == daemons.len() - 1));
    await_that("all have one epoch", || is_one_epoch(daemons));
}

/// Whether all say the same epoch, twice.
pub fn is_one_epoch(daemons: &[&Daemon]) -> bool {
    let epochs = || daemons.iter().map(|it| list(it).epoch).collect::<Vec<_>>();
    let (first, second) = (epochs(), epochs());
    first == second && first.iter().all(|epoch| *epoch == first[0] && *epoch > 0)
}

/// What the daemon says of the registry.
pub fn told(daemon: &Daemon) -> Value {
    daemon.status()["cluster"]["registry"].clone()
}
