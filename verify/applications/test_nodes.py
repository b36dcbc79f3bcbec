"""The environment of several nodes itself: both of its modes, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import kernel_view
import pytest
from heliostat_run import ROOT
from nodes import ETCD, LIST, LOOPBACK, NETWORKS, Cluster, modes, registries

pytestmark = pytest.mark.heliostat


@pytest.fixture(params=[LOOPBACK, NETWORKS])
def mode(request):
    if request.param not in modes():
        pytest.skip("no right to make network namespaces here")
    return request.param


def namespaces() -> set[str]:
    """The network namespaces of all processes."""
    found = set()
    for pid in kernel_view.processes():
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/net"))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("registry", [LIST, ETCD])
def test_nodes_are_joined_killed_and_started_again(mode, registry):
    if registry not in registries():
        pytest.skip("no etcd here")
    with Cluster(3, mode, registry=registry) as cluster:
        assert cluster.states(1) == {1: "here", 2: "joined", 3: "joined"}
        sleeper = cluster.start(3, ["sleep", "infinity"])
        cluster.kill(3)
        assert sleeper.process.returncode == -signal.SIGKILL
        # Of one that the registry has declared dead the others know nothing any more.
        gone = lambda: cluster.states(1).get(3, "lost") == "lost"  # noqa: E731
        kernel_view.wait_until(gone, what="node 1 has lost node 3")
        cluster.restart(3)
        assert cluster.states(2)[3] == "joined"


def test_a_node_that_is_cut_off_is_lost_until_it_is_mended():
    if NETWORKS not in modes():
        pytest.skip("no right to make network namespaces here")
    with Cluster(2, NETWORKS) as cluster:
        cluster.cut(2)
        kernel_view.wait_until(lambda: cluster.states(1)[2] == "lost", what="node 1 has lost node 2")
        cluster.mend(2)
        cluster.wait_joined()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_suite_that_is_ended(mode, number):
    script = f"""
import sys, time
sys.path.insert(0, {str(ROOT / "verify")!r})
from nodes import Cluster
with Cluster(2, {mode!r}) as cluster:
    program = cluster.start(2, ["sleep", "infinity"])
    # One that has not yet said that it dies with its parent does not.
    while open("/proc/%d/comm" % program.pid).read().strip() != "sleep":
        time.sleep(0.01)
    pids = [node.daemon.pid for node in cluster.nodes.values()] + [holder.pid for holder in cluster.holders]
    print(cluster.folder, *pids, flush=True)
    time.sleep(600)
"""
    suite = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    folder, *pids = suite.stdout.readline().split()
    own = os.readlink("/proc/self/ns/net")
    networks = {os.readlink(f"/proc/{pid}/ns/net") for pid in pids} - {own}
    assert len(networks) == (3 if mode == NETWORKS else 0)
    suite.send_signal(number)
    suite.wait(60)
    for pid in pids:
        gone = lambda pid=pid: not os.path.exists(f"/proc/{pid}") or "Z" in kernel_view_state(pid)  # noqa: E731
        kernel_view.wait_until(gone, what=f"process {pid} has ended")
    kernel_view.wait_until(lambda: not networks & namespaces(), what="its networks are gone")
    if number == signal.SIGINT:
        assert not os.path.exists(folder)


def kernel_view_state(pid: str) -> str:
    """The state letter of a process; nothing of one that is gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""
