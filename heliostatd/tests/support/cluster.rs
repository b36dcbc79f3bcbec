//! Daemons that are nodes of one cluster on loopback.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use heliostat_abi::cluster::{ClusterReply, ClusterRequest, Listed, MemberAddress, MemberState};
use heliostat_abi::session::record::{Reply, Request};

use super::{await_that, networks, Daemon};

/// How many files and folders this program has made.
static MADE: AtomicU32 = AtomicU32::new(0);
/// How many ports it has tried.
static PORTS_TRIED: AtomicU32 = AtomicU32::new(0);

/// A cluster's secret, in a file that only its owner may read.
pub struct SecretFile(pub PathBuf);

impl SecretFile {
    pub fn new(name: &str, digits: &str) -> SecretFile {
        use std::os::unix::fs::PermissionsExt;
        // Two tests of one program may choose the same name.
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("heliostat-secret-{name}-{number}-{}", std::process::id());
        let path = super::place().join(name);
        std::fs::write(&path, digits.repeat(32)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        SecretFile(path)
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Below the ports that the kernel gives out (source: ip_local_port_range, 32768 and more): nobody who
/// connects meanwhile is given one of these.
const PORTS: std::ops::Range<u32> = 12_000..32_000;

/// Ports that nobody has now, and that no other test of this program is given.
pub fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    let mut free = std::iter::repeat_with(next_port)
        .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    [(); COUNT].map(|()| free.next().unwrap())
}

/// The next port; programs begin at places of their own.
fn next_port() -> u16 {
    let number = std::process::id().wrapping_mul(97) + PORTS_TRIED.fetch_add(1, Ordering::Relaxed);
    (PORTS.start + number % PORTS.len() as u32) as u16
}

/// The configuration of node `ports[at]`, numbered from 1, that knows all others.
pub fn config(at: usize, ports: &[u16], secret: &SecretFile) -> String {
    config_by(&networks::transport(), at, ports, secret)
}

/// The same by some transport.
pub fn config_by(transport: &str, at: usize, ports: &[u16], secret: &SecretFile) -> String {
    let mut text = format!(
        "[cluster]\nnode = {}\nlisten = \"{transport}:{}:{}\"\nsecret = \"{}\"\n",
        at + 1,
        networks::host(at),
        ports[at],
        secret.0.display()
    );
    for (other, port) in ports.iter().enumerate().filter(|(other, _)| *other != at) {
        let (node, address) = (other + 1, format!("{transport}:{}:{port}", networks::host(other)));
        text += &format!("[[cluster.peer]]\nnode = {node}\naddress = \"{address}\"\n");
    }
    text
}

/// Nodes 1 and on, which are joined.
pub fn nodes<const COUNT: usize>(secret: &SecretFile) -> [Daemon; COUNT] {
    nodes_by(&networks::transport(), secret)
}

/// The same by some transport.
pub fn nodes_by<const COUNT: usize>(transport: &str, secret: &SecretFile) -> [Daemon; COUNT] {
    nodes_with(transport, "", secret)
}

/// The same, with more in the configuration of each.
pub fn nodes_with<const COUNT: usize>(
    transport: &str,
    more: &str,
    secret: &SecretFile,
) -> [Daemon; COUNT] {
    let ports = free_ports::<COUNT>();
    let mut at = 0;
    let daemons = [(); COUNT].map(|()| {
        at += 1;
        Daemon::with(&format!("{}{more}", config_by(transport, at - 1, &ports, secret)), &[])
    });
    for daemon in &daemons {
        await_that("all are joined", || joined_count(daemon) == COUNT - 1);
    }
    daemons
}

/// A figure of a class on the way from a daemon to a node.
pub fn figure(daemon: &Daemon, node: u64, class: &str, what: &str) -> u64 {
    let status = daemon.status();
    status["cluster"]["quality"]["ways"][node.to_string()][class][what].as_u64().unwrap_or(0)
}

pub fn ask(daemon: &Daemon, request: &ClusterRequest) -> Reply {
    daemon.visit().ask(&Request::Own(request.encode())).0
}

pub fn list_as(daemon: &Daemon, request: &ClusterRequest) -> Listed {
    let Reply::Own(own) = ask(daemon, request) else { panic!("no list") };
    let ClusterReply::Listed(listed) = ClusterReply::decode(&own).unwrap();
    listed
}

pub fn list(daemon: &Daemon) -> Listed {
    list_as(daemon, &ClusterRequest::Nodes { from: 0 })
}

pub fn state(daemon: &Daemon, node: u64) -> Option<MemberState> {
    list(daemon).nodes.iter().find(|it| it.node == node).map(|it| it.state)
}

pub fn incarnation(daemon: &Daemon, node: u64) -> u64 {
    list(daemon).nodes.iter().find(|it| it.node == node).map_or(0, |it| it.incarnation)
}

pub fn joined_count(daemon: &Daemon) -> usize {
    list(daemon).nodes.iter().filter(|it| it.state == MemberState::Joined).count()
}

pub fn join(node: u64) -> ClusterRequest {
    ClusterRequest::Join { node, address: MemberAddress::NONE }
}

/// What a daemon says that does not start with a configuration.
pub fn words_of_failed_start(config: &str) -> String {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let folder = super::place().join(format!("heliostatd-fails-{number}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), config).unwrap();
    let ended = std::process::Command::new(super::program())
        .arg("--socket")
        .arg(folder.join("control.sock"))
        .arg("--config")
        .arg(folder.join("config.toml"))
        .output()
        .unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    assert!(!ended.status.success());
    String::from_utf8_lossy(&ended.stderr).into_owned()
}
