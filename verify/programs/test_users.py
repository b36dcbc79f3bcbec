"""Servers that listen as root and serve as another user: direct with root's clients, and at once.

nginx, HAProxy, squid and php-fpm do so: some in one process, some in workers that a fork left with
the listening socket.
"""

from __future__ import annotations

import os
import sys

import kernel_view
import pytest
from heliostat_run import Harness, Side

NOBODY = 65534
SERVER = f"""
import os, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
if sys.argv[2] == "worker" and os.fork():
    os.wait()
    sys.exit()
os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
while True:
    connection = listener.accept()[0]
    while part := connection.recv(100):
        connection.sendall(part)
"""
CLIENT = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for word in (b"one", b"two", b"three"):
    connection.sendall(word)
    print(connection.recv(100), flush=True)
sys.stdin.read()
"""


@pytest.mark.heliostat
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize("where", ["same process", "worker"])
def test_a_server_that_gave_root_up_is_direct_with_roots_clients(harness: Harness, where):
    port = kernel_view.free_port()
    server = harness.start(Side.HELIOSTAT, [sys.executable, "-c", SERVER, str(port), where])
    kernel_view.wait_listening(port, server.process)
    reading, writing = os.pipe()
    client = harness.start(Side.HELIOSTAT, [sys.executable, "-c", CLIENT, str(port)], stdin=reading)
    kernel_view.wait_until(lambda: "three" in client.output(), 60, "the last answer")
    [connection] = harness.explain(client.pid)
    os.close(writing)
    assert (connection["path"], client.output().split()) == ("direct", ["b'one'", "b'two'", "b'three'"])
