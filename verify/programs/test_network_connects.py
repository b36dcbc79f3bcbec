"""Connections whose connect(2) did not wait are carried from when their program learns of them, whatever it waits with."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading

import kernel_view
import pytest
from heliostat_run import Harness, Side
from network_peers import ALWAYS, paths

pytestmark = pytest.mark.heliostat

BYTES = 3_000_000
BEGIN = f"""
import asyncio, errno, hashlib, os, random, select, selectors, socket, sys, threading
port, data = int(sys.argv[1]), random.Random(1).randbytes({BYTES})
connection = socket.socket(); connection.setblocking(False)
def begin():
    assert connection.connect_ex(("127.0.0.1", port)) in (0, errno.EINPROGRESS)
def ask():
    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
"""
# Sends while it reads, with the waits of one set; `register` and `wait` are the set's.
EXCHANGE = """
sent, got = 0, b""
modify(True)
while len(got) < len(data):
    readable, writable = wait()
    if writable:
        sent += connection.send(data[sent : sent + 100000])
        if sent == len(data): modify(False)
    while readable:
        try: part = connection.recv(100000)
        except BlockingIOError: break
        assert part
        got += part
print(got == data, flush=True)
sys.stdin.read()
"""
EPOLL = """
epoll = select.epoll()
def modify(writes): epoll.modify(connection, select.EPOLLIN | EDGE | (select.EPOLLOUT if writes else 0))
def wait():
    events = 0
    while not events: events = sum(event for _, event in epoll.poll())
    return events & select.EPOLLIN, events & select.EPOLLOUT
"""
CLIENTS = {
    "poll": """
poll = select.poll()
def modify(writes): poll.register(connection, select.POLLIN | (select.POLLOUT if writes else 0))
def wait():
    events = sum(event for _, event in poll.poll())
    return events & select.POLLIN, events & select.POLLOUT
begin(); poll.register(connection, select.POLLOUT); poll.poll(); ask()
""" + EXCHANGE,
    "select": """
writes_now = True
def modify(writes): global writes_now; writes_now = writes
def wait():
    readable, writable, _ = select.select([connection], [connection] if writes_now else [], [])
    return readable, writable
begin(); select.select([], [connection], []); ask()
""" + EXCHANGE,
    "epoll_after": "EDGE = 0" + EPOLL + "begin(); epoll.register(connection, select.EPOLLOUT); epoll.poll(); ask()" + EXCHANGE,
    "epoll_before": "EDGE = 0" + EPOLL + "epoll.register(connection, select.EPOLLOUT); epoll.poll(0); begin(); epoll.poll(); ask()" + EXCHANGE,
    # It never asks how connect(2) went: the first send tells.
    "epoll_unasked": "EDGE = 0" + EPOLL + "begin(); epoll.register(connection, select.EPOLLOUT); epoll.poll()" + EXCHANGE,
    # Never written or asked before it is read.
    "read_first": "EDGE = 0" + EPOLL + "begin(); epoll.register(connection, select.EPOLLIN); epoll.poll(); assert connection.recv(5) == b'hello'" + EXCHANGE,
}
ASYNCIO = """
async def main():
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async def send():
        writer.write(data); await writer.drain()
    sending = asyncio.ensure_future(send())
    print(await reader.readexactly(len(data)) == data, flush=True)
    await sending
    await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""
CLIENTS["asyncio"] = ASYNCIO


@pytest.fixture(scope="module")
def harness(request):
    with Harness(configuration=ALWAYS) as one:
        yield one


def echo(listener: socket.socket, greeting: bytes) -> None:
    accepted = listener.accept()[0]
    accepted.sendall(greeting)
    with accepted:
        while part := accepted.recv(1 << 16):
            accepted.sendall(part)


@pytest.mark.parametrize("how", CLIENTS)
def test_a_connection_that_was_not_waited_for_is_carried_byte_for_byte(harness, how):
    listener = socket.create_server(("127.0.0.1", 0))
    greeting = b"hello" if how == "read_first" else b""
    peer = threading.Thread(target=echo, args=(listener, greeting), daemon=True)
    peer.start()
    reading, writing = os.pipe()
    words = [sys.executable, "-c", BEGIN + CLIENTS[how], str(listener.getsockname()[1])]
    client = harness.start(Side.HELIOSTAT, words, stdin=reading)
    kernel_view.wait_until(lambda: "\n" in client.output() or client.process.poll() is not None, 60, "the echo")
    assert client.output() == "True\n", client.errors()
    assert paths(harness, client.pid) == ["delegated"]
    os.close(writing)
    assert client.wait(30) == 0, client.errors()
    peer.join(30)


FAR = """
import errno, select, socket, sys
connection = socket.socket(); connection.setblocking(False)
epoll = select.epoll()
began = connection.connect_ex((sys.argv[1], int(sys.argv[2])))
epoll.register(connection, select.EPOLLOUT)
print(began == errno.EINPROGRESS, epoll.poll(0) == [], flush=True)
try: connection.send(b"too early"); print("sent")
except BlockingIOError: print("early", flush=True)
epoll.poll()
print(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0, connection.send(b"hello"), flush=True)
epoll.modify(connection, select.EPOLLIN); epoll.poll()
print(connection.recv(100), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0 or not kernel_view.makes_networks(), reason="needs root and network namespaces")
def test_a_handshake_that_takes_its_time_is_the_kernels_until_it_ends(harness):
    """The wire is down at first: the program sees EINPROGRESS, waits, and is told by SO_ERROR."""
    name, here, there = f"hc{os.getpid() % 100000}", "10.212.7.1", "10.212.7.2"
    holder = subprocess.Popen(["unshare", "--net", "sleep", "1000"])
    inside = ["nsenter", "--target", str(holder.pid), "--net"]
    reading, writing = os.pipe()
    try:
        own = os.readlink("/proc/self/ns/net")
        kernel_view.wait_until(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own, 60, "the namespace")
        for words in (
            ["ip", "link", "add", name, "type", "veth", "peer", "name", "peer0", "netns", str(holder.pid)],
            ["ip", "address", "add", f"{here}/30", "dev", name],
            ["ip", "link", "set", name, "up"],
            [*inside, "ip", "address", "add", f"{there}/30", "dev", "peer0"],
        ):
            subprocess.run(words, check=True, timeout=60)
        script = "import socket; s = socket.create_server(('0.0.0.0', 4242)); print('up', flush=True); c = s.accept()[0]; c.sendall(c.recv(5, socket.MSG_WAITALL)[::-1]); c.recv(1)"
        peer = subprocess.Popen([*inside, sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        assert peer.stdout.readline() == "up\n"
        client = harness.start(Side.HELIOSTAT, [sys.executable, "-c", FAR, there, "4242"], stdin=reading)
        kernel_view.wait_until(lambda: "early" in client.output() or client.process.poll() is not None, 60, "a send before it")
        # Only now the other end of the wire is up: the handshake's next packet gets through.
        subprocess.run([*inside, "ip", "link", "set", "peer0", "up"], check=True, timeout=60)
        kernel_view.wait_until(lambda: "olleh" in client.output() or client.process.poll() is not None, 60, "the answer")
        assert client.output().splitlines() == ["True True", "early", "True 5", "b'olleh'"], client.errors()
        [entry] = harness.explain(client.pid)
        assert (entry["path"], entry["peer"]) == ("delegated", f"{there}:4242")
        peer.kill()
    finally:
        os.close(writing)
        holder.kill()
        holder.wait()


def test_a_connect_that_is_refused_or_given_to_a_child_is_the_kernels(harness):
    listener = socket.create_server(("127.0.0.1", 0))
    program = """
import errno, os, select, socket, subprocess, sys
def begin(port):
    connection = socket.socket(); connection.setblocking(False)
    return connection, connection.connect_ex(("127.0.0.1", port))
refused, _ = begin(int(sys.argv[2]))
select.select([], [refused], [])
print(refused.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in (0, errno.ECONNREFUSED))
given, _ = begin(int(sys.argv[1]))
select.select([], [given], [])
subprocess.run(["/bin/echo", "by a child"], stdout=given, check=True)
given.setblocking(True)
print(given.recv(3, socket.MSG_WAITALL), flush=True)
"""
    words = [sys.executable, "-c", program, str(listener.getsockname()[1]), str(kernel_view.free_port())]
    client = harness.start(Side.HELIOSTAT, words)
    with listener.accept()[0] as accepted:
        assert accepted.recv(11, socket.MSG_WAITALL) == b"by a child\n"
        accepted.sendall(b"yes")
        assert client.wait(60) == 0, client.errors()
    assert client.output().splitlines() == ["True", "b'yes'"]
