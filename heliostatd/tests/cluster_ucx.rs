//! Nodes of a cluster by UCX, where it is installed: the same as by TCP.

mod support;

use heliostat_abi::cluster::{ClusterRequest, MemberState};
use support::await_that;
use support::cluster::{incarnation, joined_count, list_as, nodes_by, state, SecretFile};

#[test]
fn nodes_join_ask_and_lose_each_other_by_ucx() {
    let (major, minor) = match heliostat_backend_ucx::version() {
        Ok(version) => version,
        Err(error) => return eprintln!("tested nothing: {error}"),
    };
    let secret = SecretFile::new("ucx", "c1");
    let mut daemons = nodes_by::<2>("ucx", &secret);
    let status = daemons[0].status();
    assert_eq!(status["cluster"]["transport"], format!("UCX {major}.{minor}"));
    let elsewhere = list_as(&daemons[0], &ClusterRequest::NodesOf { node: 2, from: 0 });
    assert_eq!((elsewhere.own, elsewhere.nodes.len()), (2, 2));
    let before = incarnation(&daemons[0], 2);
    daemons[1].kill();
    await_that("it is lost", || state(&daemons[0], 2) != Some(MemberState::Joined));
    daemons[1].restart();
    await_that("it is joined again", || daemons.iter().all(|it| joined_count(it) == 1));
    assert!(incarnation(&daemons[0], 2) > before);
}
