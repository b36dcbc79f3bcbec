"""Two users at one network service: each has its share of what is carried, and the other's is left alone."""

from __future__ import annotations

import os
import socket

import kernel_view
import pytest
from heliostat_run import Harness, Side
from network_peers import ALWAYS, EPOLL_ECHO, ask, connect, paths

pytestmark = [
    pytest.mark.heliostat,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root starts programs of two users"),
]

# A user has half of them; root, whose control plane it is, may have all.
CARRIED_ALL, CARRIED_BY_USER = 8, 4
USER, OTHER = 54321, 54322


@pytest.fixture(scope="module")
def harness():
    with Harness(configuration=f"{ALWAYS}connections = {CARRIED_ALL}\n") as one:
        # Its sockets are for every user; the folder they are in is root's.
        os.chmod(one.folder, 0o755)
        yield one


def server_of(harness: Harness, user: int) -> tuple[int, object]:
    """A server that echoes, of this user."""
    port = kernel_view.free_port()
    change = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
    environment = {"HOME": "/nonexistent", "XDG_CACHE_HOME": ""}
    words = [*change, "/usr/bin/python3", "-c", EPOLL_ECHO, str(port)]
    server = harness.start(Side.HELIOSTAT, words, env=environment, cwd="/")
    kernel_view.wait_listening(port, server.process)
    return port, server


def connected(port: int, count: int) -> list[socket.socket]:
    """Clients, each of which has been answered."""
    clients = []
    for number in range(count):
        clients.append(connect(port))
        message = b"%8d" % number
        assert ask(clients[-1], message) == message
    return clients


def test_a_user_at_its_limit_goes_on_and_takes_nothing_of_others(harness):
    (port, server), (other_port, other) = server_of(harness, USER), server_of(harness, OTHER)
    clients = connected(port, CARRIED_BY_USER + 3)
    assert paths(harness, server.pid).count("delegated") == CARRIED_BY_USER
    others = connected(other_port, 2)
    assert paths(harness, other.pid) == ["delegated"] * 2
    # What has come back to the kernel is as good, and room that is left is the user's again.
    for client in [*clients, *others]:
        assert ask(client, b"still here") == b"still here"
    for client in clients:
        client.close()
    kernel_view.wait_until(lambda: not paths(harness, server.pid), 60, "the ends of all")
    kernel_view.wait_until(lambda: is_carried(harness, port, server), 60, "a connection that is carried again")


def is_carried(harness: Harness, port: int, server) -> bool:
    """Whether a new connection is: the loop counts one until its peer has all, a little longer than it is shown, and
    who was told of a limit does not ask again at once."""
    [client] = connected(port, 1)
    with client:
        return paths(harness, server.pid) == ["delegated"]
