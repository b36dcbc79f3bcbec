"""The control plane is killed while its loop carries connections to remote peers: each goes on where it was."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import kernel_view
import pytest
from heliostat_run import Harness
from network_peers import ALWAYS, BOTH_WAYS, EPOLL_ECHO, ask, connect, exchange_megabytes, sent_by_server, start_server

pytestmark = pytest.mark.heliostat

MEGABYTES = 40


@pytest.fixture
def harness():
    with Harness(configuration=ALWAYS) as one:
        yield one


@pytest.mark.parametrize("delay", [0.02, 0.05, 0.11, 0.23])
def test_a_transfer_both_ways_goes_on_byte_for_byte(harness, delay):
    reading, writing = os.pipe()
    port, server = start_server(harness, BOTH_WAYS, str(MEGABYTES), stdin=reading)
    with connect(port) as client:
        killer = threading.Timer(delay, os.kill, (harness.control_plane(), signal.SIGKILL))
        killer.start()
        sent, received = exchange_megabytes(client, MEGABYTES)
        killer.join()
        kernel_view.wait_until(lambda: server.output().strip(), 60, "the server's sum")
    os.close(writing)
    assert (server.output().strip(), received) == (sent, sent_by_server(MEGABYTES))


def test_connections_in_an_epoll_set_answer_after_it(harness):
    port, server = start_server(harness, EPOLL_ECHO)
    clients = [connect(port) for _ in range(30)]

    def all_answer(message: bytes) -> bool:
        for client in clients:
            client.sendall(message)
        return all(client.recv(len(message), socket.MSG_WAITALL) == message for client in clients)

    assert all_answer(b"before")
    assert {entry["path"] for entry in harness.explain(server.pid)} == {"delegated"}
    os.kill(harness.control_plane(), signal.SIGKILL)
    assert all_answer(b"after it")
    time.sleep(0.3)
    assert all_answer(b"and later")
    with connect(port) as new:
        assert ask(new, b"new") == b"new"
