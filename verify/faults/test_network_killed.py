"""The control plane is killed while its loop carries connections to remote peers: each goes on where it was."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
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


def test_a_program_that_is_started_after_it_reads_on_behind_what_was_unread(harness):
    """The loop is gone, what it has left lies in the ring, and the connection lives: all of it is the new program's."""
    program = """
import os, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
assert connection.recv(1) == b"1"
while len(connection.recv(1 << 20, socket.MSG_PEEK)) < 50_000: pass
print("there", flush=True)
sys.stdin.readline()
connection.sendall(b"2")
os.dup2(connection.fileno(), 0); os.dup2(connection.fileno(), 1)
os.execv("/bin/cat", ["cat"])
"""
    reading, writing = os.pipe()
    port, server = start_server(harness, program, stdin=reading)
    unread = random.Random(3).randbytes(50_000)
    with connect(port) as client:
        client.sendall(b"1" + unread)
        kernel_view.wait_until(lambda: "there" in server.output(), 60, "the unread bytes")
        os.kill(harness.control_plane(), signal.SIGKILL)
        os.write(writing, b"\n")
        assert client.recv(1) == b"2"
        assert client.recv(len(unread), socket.MSG_WAITALL) == unread, server.errors()
        assert ask(client, b"what follows") == b"what follows"
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    os.close(writing)


# Its reading is paused while it waits; what comes in lies in the ring, and the loop is killed then.
PAUSED = """
import select, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
assert connection.recv(1) == b"1"
while len(connection.recv(1 << 20, socket.MSG_PEEK)) < 50_000: pass
connection.setblocking(False)
waits = select.poll() if sys.argv[2] == "poll" else select.epoll()
asked = select.EPOLLIN | select.EPOLLOUT | select.EPOLLET if sys.argv[2] == "edge" else select.EPOLLOUT
waits.register(connection, asked)
second = 1000 if sys.argv[2] == "poll" else 1
waits.poll(second)
def say(what): print(what, flush=True); sys.stdin.readline()
def fill():
    try:
        while connection.send(bytes(65536)): pass
    except BlockingIOError: pass
say("there")
"""
ROOM = f"""{PAUSED}
fill()
say("full" if sys.argv[2] == "edge" or waits.poll(0.2 * second) == [] else "spins")
while True:
    found = waits.poll(30 * second)
    if not found: say("never")
    if found[0][1] & select.EPOLLOUT:
        try: connection.send(b"more"); break
        except BlockingIOError: pass
say("room")
"""
RESET = f"""{PAUSED}
connection.send(b"2")
say("left")
while not waits.poll(30 * second)[0][1] & select.EPOLLERR: pass
seen = 0
while seen < 50_000: seen += len(connection.recv(1000))
try: say("end" if connection.recv(1) == b"" else "bytes")
except ConnectionResetError: say("reset")
"""


def start_paused(harness: Harness, program: str, how: str):
    """A server with 50,000 bytes unread whose loop is gone; how to await its words, and its client."""
    reading, writing = os.pipe()
    port, server = start_server(harness, program, how, stdin=reading)
    os.close(reading)
    client = connect(port)
    client.sendall(b"1" + bytes(50_000))

    def await_word(*words: str) -> str:
        kernel_view.wait_until(lambda: server.output().split()[-1:] != [] and server.output().split()[-1] in words, 60, f"one of {words}: {server.errors()}")
        os.write(writing, b"\n")
        return server.output().split()[-1]

    kernel_view.wait_until(lambda: "there" in server.output(), 60, "the unread bytes")
    os.kill(harness.control_plane(), signal.SIGKILL)
    await_word("there")
    return await_word, client


@pytest.mark.parametrize("how", ["edge", "level", "poll"])
def test_who_waits_for_room_with_bytes_unread_is_told_of_it_after_it_and_not_before(harness, how):
    await_word, client = start_paused(harness, ROOM, how)
    with client:
        assert await_word("full", "spins") == "full"
        time.sleep(0.3)  # it sleeps by then
        client.settimeout(5)
        try:
            while client.recv(1 << 20):
                client.settimeout(1)
        except TimeoutError:
            pass
        assert await_word("room", "never") == "room"


@pytest.mark.parametrize("how", ["edge", "level", "poll"])
def test_a_reset_that_comes_after_it_is_told_behind_the_unread_bytes(harness, how):
    await_word, client = start_paused(harness, RESET, how)
    assert client.recv(1) == b"2"
    await_word("left")
    time.sleep(0.3)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert await_word("reset", "end", "bytes") == "reset"
