"""Resets with bytes on their way, and urgent data, of connections that are carried: the peer's view is plain Linux's."""

from __future__ import annotations

import os
import signal
import socket
import time

import kernel_view
import pytest
from heliostat_run import Harness, Side
from network_peers import ALWAYS, ask, connect, paths, start_server

pytestmark = pytest.mark.heliostat

WRITTEN = 30_000
LINGER = f"""
import socket, struct, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
connection.sendall(connection.recv(1))
connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
sys.stdin.readline()
connection.sendall(b"y" * {WRITTEN})
connection.close()
print("closed", flush=True)
sys.stdin.read()
"""
URGENT = """
import array, fcntl, select, socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    connection = listener.accept()[0]
    for _ in range(6): connection.sendall(connection.recv(1))
    told = [select.select([], [], [connection], 10)[2] != []]
    time.sleep(0.05)  # all is there
    def at_mark():
        mark = array.array("i", [7])
        fcntl.ioctl(connection, 0x8905, mark)  # SIOCATMARK
        return mark[0]
    told.append(at_mark())
    if sys.argv[2] == "before": told.append(connection.recv(100))
    told.append(at_mark())
    told.append(connection.recv(1, socket.MSG_OOB))
    while part := connection.recv(100): told.append(part)
    print(told, flush=True)
"""


@pytest.fixture(scope="module")
def harness():
    with Harness(configuration=ALWAYS) as one:
        yield one


def is_carried(harness: Harness, side: Side, pid: int) -> bool:
    return side is Side.PLAIN or paths(harness, pid)[-1:] == ["delegated"]


def read_to_end(client: socket.socket) -> tuple[int, str]:
    count = 0
    try:
        while part := client.recv(1 << 16):
            count += len(part)
    except ConnectionError as error:
        return count, type(error).__name__
    return count, "end"


def after_linger(harness: Harness, side: Side) -> tuple[int, str]:
    """What a peer gets of what was written just before a close with SO_LINGER of zero seconds."""
    reading, writing = os.pipe()
    port, server = start_server(harness, LINGER, side=side, stdin=reading)
    control = harness.control_plane()
    with connect(port) as client:
        assert ask(client, b"x") == b"x"
        assert is_carried(harness, side, server.pid)
        os.kill(control, signal.SIGSTOP)  # so that it lies in the lane
        try:
            os.write(writing, b"\n")
            kernel_view.wait_until(lambda: "closed" in server.output(), 60, "the close")
        finally:
            os.kill(control, signal.SIGCONT)
        time.sleep(0.3)
        found = read_to_end(client)
    os.close(writing), os.close(reading)
    return found


def test_a_reset_by_linger_loses_nothing_that_plain_linux_would_have_sent(harness):
    plain = after_linger(harness, Side.PLAIN)
    assert plain == (WRITTEN, "ConnectionResetError")
    assert after_linger(harness, Side.HELIOSTAT) == plain


def after_urgent(harness: Harness, side: Side, before: str, count: int) -> list[str]:
    """What a program says of an urgent byte, with other bytes before it or not, on so many connections."""
    port, server = start_server(harness, URGENT, before, side=side)
    for number in range(count):
        with connect(port) as client:
            for _ in range(6):
                assert ask(client, b"x") == b"x"
            assert is_carried(harness, side, server.pid)
            if before == "before":
                client.sendall(b"abc")
            time.sleep(number % 4 * 0.0005)
            client.send(b"u", socket.MSG_OOB)
            client.sendall(b"def")
            client.shutdown(socket.SHUT_WR)
            kernel_view.wait_until(lambda: server.output().count("\n") > number, 30, "its answer")  # noqa: B023
    return server.output().splitlines()


@pytest.mark.parametrize("before", ["before", "alone"])
def test_an_urgent_byte_is_received_as_such_with_its_mark_in_place(harness, before):
    [plain] = set(after_urgent(harness, Side.PLAIN, before, 2))
    assert after_urgent(harness, Side.HELIOSTAT, before, 20) == [plain] * 20


def test_an_urgent_byte_that_is_sent_stands_behind_what_was_written_before(harness):
    program = f"""
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
connection.sendall(connection.recv(1))
connection.sendall(b"b" * {WRITTEN})
connection.send(b"u", socket.MSG_OOB)
connection.sendall(b"after")
connection.shutdown(socket.SHUT_WR)
sys.stdin.read()
"""
    for side in (Side.PLAIN, Side.HELIOSTAT):
        reading, writing = os.pipe()
        port, _ = start_server(harness, program, side=side, stdin=reading)
        with connect(port) as client:
            assert ask(client, b"x") == b"x"
            received = bytearray()
            time.sleep(0.3)
            while len(received) < WRITTEN:
                received += client.recv(WRITTEN)
            assert client.recv(1, socket.MSG_OOB) == b"u"
            assert client.makefile("rb").read() == b"after", side
            assert bytes(received) == b"b" * WRITTEN
        os.close(writing), os.close(reading)
