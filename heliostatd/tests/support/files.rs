//! Files and leases on them, for the tests of the file service.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Acquire;

use heliostat_abi::code::Unmapped;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::node::{self, State};
use heliostat_abi::session::record::{Reply, Request};
use heliostat_base::fd::OwnedFd;

use super::{await_that, write_file, Client, Daemon, Welcome};

pub const BYTES: usize = 10_000;

/// A file in the daemon's folder, gone with it.
pub struct Sample(pub PathBuf);

impl Sample {
    pub fn new(daemon: &Daemon, name: &str) -> Sample {
        let path = daemon.folder().join(name);
        write_file(&path, &[7; BYTES]);
        Sample(path)
    }

    pub fn reader(&self) -> File {
        File::open(&self.0).unwrap()
    }

    pub fn writer(&self) -> File {
        OpenOptions::new().write(true).open(&self.0).unwrap()
    }
}

pub fn lease(client: &mut Client, file: &impl AsFd) -> Result<(ObjectId, u64, OwnedFd), Unmapped> {
    match client.ask_with(&Request::Lease, &[file.as_fd().as_raw_fd()]) {
        (Reply::Leased { lease, bytes }, mut fds) => {
            assert_eq!(fds.len(), 1);
            Ok((lease, bytes, fds.pop().unwrap()))
        }
        (Reply::NotLeased { reason }, _) => Err(reason),
        (reply, _) => panic!("{reply:?}"),
    }
}

/// Asks until there is a lease, past the pauses after breaks.
pub fn lease_at_last(client: &mut Client, file: &File) -> ObjectId {
    let mut found = None;
    await_that("the file is leased again", || {
        found = lease(client, file).ok().map(|(lease, _, _)| lease);
        found.is_some()
    });
    found.unwrap()
}

pub fn state(welcome: &Welcome, lease: ObjectId) -> State {
    let word = welcome.node.atomic_u32(node::lease_word(lease.index)).load(Acquire);
    node::state(word, lease.generation)
}

pub fn life(welcome: &Welcome) -> u32 {
    welcome.node.atomic_u32(node::LIFE).load(Acquire)
}
