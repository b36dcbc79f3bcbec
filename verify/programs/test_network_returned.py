"""Connections that have come back with bytes unread: epoll(7), poll(2) and errors are those of plain Linux."""

from __future__ import annotations

import os
import socket
import struct
import time

import kernel_view
import pytest
from heliostat_run import Harness, Side
from network_peers import ALWAYS, connect, paths, start_server

pytestmark = pytest.mark.heliostat

UNREAD = 1000
# Tells what is ready while its peer reads nothing, and once it has read, or reset; then reads what lay there.
PROGRAM = f"""
import array, fcntl, select, socket, sys, termios, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
how, asked, what = sys.argv[2:]
connection = listener.accept()[0]
connection.sendall(connection.recv(5))
queued = array.array("i", [0])
while queued[0] < {UNREAD}:
    time.sleep(0.01)
    fcntl.ioctl(connection, termios.FIONREAD, queued)
events = {{"out": select.EPOLLOUT, "both": select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP}}[asked]
waiter = select.poll() if how == "poll" else select.epoll()
waiter.register(connection, events | (select.EPOLLET if how == "edge" else 0))
def ready(seconds): return [hex(told) for _, told in waiter.poll(seconds * (1000 if how == "poll" else 1))]
def tell(*words): print(*words, flush=True)
tell("at first", ready(5))
connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
connection.setblocking(False)
if what == "room":
    for _ in range(10):
        try:
            while True: connection.send(b"z" * 65536)
        except BlockingIOError: time.sleep(0.05)
    tell("full", ready(0.5))
else:
    tell("left", "as told")
sys.stdin.readline()
tell("then", ready(5))
if what == "room": sys.stdin.readline()
seen = b""
while len(seen) < {UNREAD}: seen += connection.recv(min(300, {UNREAD} - len(seen)))
tell("bytes", len(seen))
for _ in range(2):
    try: tell("behind them", connection.recv(10))
    except OSError as error: tell("behind them", type(error).__name__)
"""


@pytest.fixture(scope="module")
def harness():
    with Harness(configuration=ALWAYS) as one:
        yield one


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def read_all_there(client: socket.socket) -> None:
    client.settimeout(0.5)
    try:
        while client.recv(1 << 20):
            pass
    except TimeoutError:
        client.settimeout(60)


def told(harness: Harness, side: Side, words: tuple[str, str, str]) -> list[str]:
    """What the program says, whose peer does what the last word is."""
    reading, writing = os.pipe()
    port, server = start_server(harness, PROGRAM, *words, side=side, stdin=reading)
    said = lambda count: kernel_view.wait_until(lambda: server.output().count("\n") >= count, 60, "its lines")  # noqa: E731
    client = socket.socket()
    client.settimeout(60)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    client.connect(("127.0.0.1", port))
    client.sendall(b"first")
    assert client.recv(5, socket.MSG_WAITALL) == b"first"
    if side is Side.HELIOSTAT:
        assert paths(harness, server.pid) == ["delegated"]
    client.sendall(b"u" * UNREAD)
    said(2)
    if words[2] == "room":
        read_all_there(client)
        os.write(writing, b"\n")
        said(3)
        client.sendall(b"more")
    else:
        reset(client)
    os.write(writing, b"\n")
    kernel_view.wait_until(lambda: server.process.poll() is not None, 60, "the program's end")
    client.close()
    os.close(writing), os.close(reading)
    assert not server.errors(), server.errors()
    # A wake for room may find bytes, which lie unread here, and no room any more: an edge of the kernel's own.
    return [line.replace("full ['0x1']", "full []") if words[0] == "edge" else line for line in server.output().splitlines()]


@pytest.mark.parametrize("what", ["room", "reset"])
@pytest.mark.parametrize("asked", ["out", "both"])
@pytest.mark.parametrize("how", ["level", "edge", "poll"])
def test_what_is_ready_is_what_plain_linux_says(harness, how, asked, what):
    words = (how, asked, what)
    plain = told(harness, Side.PLAIN, words)
    assert told(harness, Side.HELIOSTAT, words) == plain


def test_a_thread_that_waits_for_room_is_told_at_once_and_sleeps_until_then(harness):
    program = f"""
import array, fcntl, select, socket, sys, termios, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
connection.sendall(connection.recv(5))
queued = array.array("i", [0])
while queued[0] < {UNREAD}:
    time.sleep(0.01)
    fcntl.ioctl(connection, termios.FIONREAD, queued)
epoll = select.epoll()
epoll.register(connection, select.EPOLLOUT)
connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
connection.setblocking(False)
for _ in range(10):
    try:
        while True: connection.send(b"z" * 65536)
    except BlockingIOError: time.sleep(0.05)
print("full", flush=True)
began = time.process_time()
found = epoll.poll(30)
print(hex(found[0][1]), time.process_time() - began < 0.2, time.monotonic(), flush=True)
sys.stdin.read()
"""
    reading, writing = os.pipe()
    port, server = start_server(harness, program, stdin=reading)
    with connect(port) as client:
        client.sendall(b"first")
        assert client.recv(5, socket.MSG_WAITALL) == b"first"
        client.sendall(b"u" * UNREAD)
        kernel_view.wait_until(lambda: "full" in server.output(), 60, "a full socket")
        time.sleep(0.5)
        began = time.monotonic()
        read_all_there(client)
        kernel_view.wait_until(lambda: "0x" in server.output(), 60, "room")
        events, slept, at = server.output().split()[1:]
        assert (events, slept) == ("0x4", "True")
        assert 0 <= float(at) - began < 1
    os.close(writing)
