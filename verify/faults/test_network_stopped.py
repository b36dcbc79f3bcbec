"""Connections leave the network service at the moment at which the control plane ends or stops: each goes on, byte for byte."""

from __future__ import annotations

import functools
import hashlib
import os
import random
import signal
import socket
import threading
import time

import kernel_view
import pytest
from heliostat_run import Harness
from network_peers import ALWAYS, Receiver, ask, start_server

pytestmark = pytest.mark.heliostat

MOMENTS, CONNECTIONS, BYTES, PIECE = 20, 6, 3_000_000, 50_000
# Seconds without a byte, however slow the machine is.
SILENCE = 90
# Connection n leaves when it has sent its share of n: whenever the moment is, some are about to.
SERVER = f"""
import hashlib, random, socket, sys, threading
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
def serve(number, connection):
    source, seen = random.Random(100 + number), hashlib.sha256()
    def send():
        for sent in range(0, {BYTES}, {PIECE}):
            if sent // {PIECE} == (number + 1) * {BYTES // PIECE} // ({CONNECTIONS} + 1):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2)
            connection.sendall(source.randbytes({PIECE}))
        connection.shutdown(socket.SHUT_WR)
    writer = threading.Thread(target=send); writer.start()
    while part := connection.recv({PIECE}): seen.update(part)
    writer.join()
    sys.stdout.write("%d %s\\n" % (number, seen.hexdigest())); sys.stdout.flush()
for number in range({CONNECTIONS}):
    threading.Thread(target=serve, args=(number, listener.accept()[0])).start()
"""
IDLE = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
print(connection.recv(5), flush=True)
sys.stdin.readline()
connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2)
connection.sendall(b"left")
while part := connection.recv(1000): connection.sendall(part)
"""

# One thread reads all the time, and is asleep when the other makes the connection leave.
ASLEEP = """
import socket, sys, threading
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
def echo():
    while part := connection.recv(1000): connection.sendall(part)
threading.Thread(target=echo).start()
sys.stdin.readline()
connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2)
connection.sendall(b"left")
"""

# Leaves, and ends in one of several ways, all while the control plane is stopped.
ENDS = """
import os, socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
connection.sendall(connection.recv(5))
if sys.argv[2] == "unread":
    while len(connection.recv(10, socket.MSG_PEEK)) < 4: pass
sys.stdin.readline()
connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
connection.sendall(b"left")
if sys.argv[2] == "fork" and os.fork() == 0:
    time.sleep(1)
    connection.sendall(b"child")
    os._exit(0)
if sys.argv[2] == "exit": sys.exit()
connection.close()
print("closed", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def harness():
    with Harness(configuration=ALWAYS) as one:
        yield one


@functools.cache
def made(seed: int) -> bytes:
    source = random.Random(seed)
    return b"".join(source.randbytes(PIECE) for _ in range(0, BYTES, PIECE))


def exchange(client: socket.socket, number: int, found: dict[int, str]) -> None:
    """Sends and reads to the end at once; how what came differs from what the server has sent."""
    receiver, sent, refused = Receiver(client, made(100 + number)), made(number), ""
    try:
        for at in range(0, BYTES, PIECE):
            client.sendall(sent[at : at + PIECE])
        client.shutdown(socket.SHUT_WR)
    except OSError as error:
        refused = f"from byte {at} on not sent: {error!r}; "
    found[number] = refused + receiver.difference(SILENCE)


def disturb(control: int, how: signal.Signals, moment: int) -> None:
    """Ends the control plane, or stops it for a while: in one thread, so that it goes on after it was stopped."""
    time.sleep(0.01 + 0.012 * moment)
    os.kill(control, how)
    if how == signal.SIGSTOP:
        time.sleep(0.3)
        # What was stopped within a turn is waited for.
        os.kill(control, signal.SIGCONT)


@pytest.mark.parametrize("moment", range(MOMENTS))
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_connections_that_leave_when_it_ends_or_stops_lose_no_byte(harness, how, moment):
    harness.call("run", *harness.configured(), "--", "/bin/true")
    control = harness.control_plane()
    _ = [made(number) + made(100 + number) for number in range(CONNECTIONS)]  # not beside the exchange
    port, server = start_server(harness, SERVER)
    clients = [socket.create_connection(("127.0.0.1", port), timeout=SILENCE) for _ in range(CONNECTIONS)]
    found: dict[int, str] = {}
    threads = [threading.Thread(target=exchange, args=(client, number, found)) for number, client in enumerate(clients)]
    threads.append(threading.Thread(target=disturb, args=(control, how, moment)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(CONNECTIONS), ""), server.errors()
    assert server.wait(60) == 0, server.errors()
    expected = {f"{number} {hashlib.sha256(made(number)).hexdigest()}" for number in range(CONNECTIONS)}
    assert set(server.output().splitlines()) == expected, server.errors()
    if how != signal.SIGSTOP:
        kernel_view.wait_until(lambda: kernel_view.has_ended(control), 60, "the control plane's end")


def test_a_connection_between_two_turns_leaves_while_the_control_plane_is_stopped(harness):
    harness.call("run", *harness.configured(), "--", "/bin/true")
    reading, writing = os.pipe()
    port, server = start_server(harness, IDLE, stdin=reading)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        received = client.makefile("rb")
        client.sendall(b"first")
        kernel_view.wait_until(lambda: "first" in server.output(), 60, "the first bytes")
        assert [entry["path"] for entry in harness.explain(server.pid)] == ["delegated"]
        control = harness.control_plane()
        os.kill(control, signal.SIGSTOP)
        try:
            client.sendall(b"more")
            os.write(writing, b"\n")
            assert received.read(8) == b"leftmore"
        finally:
            os.kill(control, signal.SIGCONT)
        client.sendall(b"and then")
        assert received.read(8) == b"and then"
    os.close(writing)


def test_a_thread_asleep_on_a_connection_that_leaves_a_stopped_control_plane_reads_what_comes(harness):
    harness.call("run", *harness.configured(), "--", "/bin/true")
    reading, writing = os.pipe()
    port, server = start_server(harness, ASLEEP, stdin=reading)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        assert ask(client, b"first") == b"first"
        assert [entry["path"] for entry in harness.explain(server.pid)] == ["delegated"]
        control = harness.control_plane()
        time.sleep(0.2)  # it sleeps, and the loop
        os.kill(control, signal.SIGSTOP)
        try:
            os.write(writing, b"\n")
            assert client.recv(4, socket.MSG_WAITALL) == b"left"
            assert ask(client, b"more") == b"more"
        finally:
            os.kill(control, signal.SIGCONT)
        assert ask(client, b"and then") == b"and then"
    os.close(writing)
    assert server.wait(60) == 0, server.errors()


@pytest.mark.parametrize("how", ["close", "exit", "unread", "fork"])
def test_the_end_of_a_connection_that_has_left_a_stopped_control_plane_is_told(harness, how):
    harness.call("run", *harness.configured(), "--", "/bin/true")
    reading, writing = os.pipe()
    port, server = start_server(harness, ENDS, how, stdin=reading)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        assert ask(client, b"first") == b"first"
        assert [entry["path"] for entry in harness.explain(server.pid)] == ["delegated"]
        control = harness.control_plane()
        if how == "unread":
            client.sendall(b"more")
        time.sleep(0.3)
        os.kill(control, signal.SIGSTOP)
        try:
            os.write(writing, b"\n")
            if how != "unread":
                assert client.recv(4, socket.MSG_WAITALL) == b"left"
            if how == "fork":  # its child goes on with it
                kernel_view.wait_until(lambda: "closed" in server.output(), 60, "the parent's close")
                assert client.recv(5, socket.MSG_WAITALL) == b"child"
            elif how == "unread":
                with pytest.raises(ConnectionResetError):
                    while client.recv(4):
                        pass
            else:
                assert client.recv(1) == b""
        finally:
            os.kill(control, signal.SIGCONT)
    os.close(writing)
