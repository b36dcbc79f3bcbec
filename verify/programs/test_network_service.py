"""Connections to remote peers that a loop of the network service carries: what programs and peers see is TCP's.

The peer is a plain program (here: the test itself), so that every connection is one that the service
takes over; the server or client under Heliostat is unmodified.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import struct
import subprocess
import sys

import kernel_view
import nginx_server
import pytest
from heliostat_run import Harness, Side
from network_peers import (
    ALWAYS,
    BOTH_WAYS,
    ECHO,
    EPOLL_ECHO,
    ask,
    connect,
    exchange_megabytes,
    paths,
    sent_by_server,
    start_server,
)

pytestmark = pytest.mark.heliostat

MEGABYTES = 24
# A server has at most 64 channels with the service (`channels_per_pair`), of 64 connections each; the loop may have more.
CARRIED_MOST = 64 * 64


@pytest.fixture(scope="module")
def harness(request):
    with Harness(configuration=ALWAYS) as one:
        yield one


def test_an_accepted_connection_is_carried_and_echoes(harness):
    port, server = start_server(harness, ECHO)
    with connect(port) as client:
        for number in range(200):
            message = b"%6d" % number
            assert ask(client, message) == message
        [entry] = harness.explain(server.pid)
        assert (entry["path"], entry["peer"]) == ("delegated", "127.0.0.1:%d" % client.getsockname()[1])
        assert (entry["received"], entry["sent"]) == (1200, 1200)


def test_large_transfers_both_ways_at_once_are_byte_for_byte(harness):
    reading, writing = os.pipe()
    port, server = start_server(harness, BOTH_WAYS, str(MEGABYTES), stdin=reading)
    with connect(port) as client:
        sent, received = exchange_megabytes(client, MEGABYTES)
    kernel_view.wait_until(lambda: server.output().strip(), 60, "the server's sum")
    os.close(writing)
    assert (server.output().strip(), received) == (sent, sent_by_server(MEGABYTES))


def test_a_half_closed_peer_still_gets_its_answer(harness):
    program = ECHO.replace("while part := connection.recv(65536): connection.sendall(part)", "got = b''\n        while part := connection.recv(65536): got += part\n        connection.sendall(got + b'!')")
    port, _ = start_server(harness, program)
    with connect(port) as client:
        client.sendall(b"all of it")
        client.shutdown(socket.SHUT_WR)
        assert client.makefile("rb").read() == b"all of it!"


def test_a_peers_reset_is_told_and_the_next_connection_works(harness):
    port, server = start_server(harness, ECHO)
    client = connect(port)
    assert ask(client, b"x") == b"x"
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    kernel_view.wait_until(lambda: "ConnectionResetError" in server.output(), 60, "the reset")
    with connect(port) as client:
        assert ask(client, b"next") == b"next"


def test_what_is_written_before_the_end_arrives_whether_closed_exited_or_killed(harness):
    program = """
import os, signal, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
connection.recv(1)
connection.sendall(b"y" * 50000)
if sys.argv[2] == "close": connection.close(); sys.stdin.read()
if sys.argv[2] == "exit": sys.exit()
os.kill(os.getpid(), signal.SIGKILL)
"""
    for how in ("close", "exit", "kill"):
        port, _ = start_server(harness, program, how)
        with connect(port) as client:
            client.sendall(b"x")
            assert len(client.makefile("rb").read()) == 50000, how


def test_unread_bytes_at_a_close_are_a_reset_for_the_peer(harness):
    program = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
connection.recv(1)
while len(connection.recv(100, socket.MSG_PEEK)) < 3: pass
connection.close()
sys.stdin.read()
"""
    port, _ = start_server(harness, program)
    with connect(port) as client:
        client.sendall(b"1")
        client.sendall(b"234")
        with pytest.raises(ConnectionResetError):
            while client.recv(100):
                pass
            client.recv(100)
            raise ConnectionResetError if not client.recv(1) else AssertionError


def test_an_answer_that_is_written_before_a_close_with_unread_bytes_arrives(harness):
    program = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
connection.recv(1)
while len(connection.recv(100, socket.MSG_PEEK)) < 3: pass
connection.sendall(b"answer")
connection.close()
sys.stdin.read()
"""
    for _ in range(10):
        port, _ = start_server(harness, program)
        with connect(port) as client:
            client.sendall(b"1")
            client.sendall(b"234")
            assert client.recv(6, socket.MSG_WAITALL) == b"answer"
            with pytest.raises(ConnectionResetError):
                client.recv(1)


def test_names_and_options_are_the_real_sockets(harness):
    program = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
connection.recv(1)
print(connection.getsockname(), connection.getpeername(), flush=True)
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
for level, name in ((socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), (socket.SOL_SOCKET, socket.SO_DOMAIN)):
    print(connection.getsockopt(level, name), flush=True)
connection.settimeout(0.2)
try: connection.recv(1)
except TimeoutError: print("timeout", flush=True)
sys.stdin.read()
"""
    reading, writing = os.pipe()
    port, server = start_server(harness, program, stdin=reading)
    with connect(port) as client:
        client.sendall(b"x")
        kernel_view.wait_until(lambda: "timeout" in server.output(), 60, "the last line")
        lines = server.output().splitlines()
        assert lines[0] == f"('127.0.0.1', {port}) {client.getsockname()}"
        assert lines[1:] == ["1", "1", "77", "2", "timeout"]
    os.close(writing)


def test_a_connecting_client_is_carried_too(harness):
    listener = socket.create_server(("127.0.0.1", 0))
    program = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.sendall(b"hello")
print(connection.recv(100), flush=True)
sys.stdin.read()
"""
    reading, writing = os.pipe()
    client = harness.start(Side.HELIOSTAT, [sys.executable, "-c", program, str(listener.getsockname()[1])], stdin=reading)
    accepted = listener.accept()[0]
    assert accepted.recv(5, socket.MSG_WAITALL) == b"hello"
    accepted.sendall(b"answer")
    kernel_view.wait_until(lambda: "answer" in client.output(), 60, "the answer")
    assert paths(harness, client.pid) == ["delegated"]
    os.close(writing)


@pytest.mark.parametrize("count", [500, 10_000])
def test_as_many_connections_as_may_be_are_carried_and_all_answer(harness, count):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < count + 1000:
        pytest.skip(f"no more than {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port, server = start_server(harness, EPOLL_ECHO)
    clients = [connect(port) for _ in range(count)]
    for message in (b"first", b"again"):
        for client in clients:
            client.sendall(message)
        assert all(client.recv(5, socket.MSG_WAITALL) == message for client in clients)
    told = paths(harness, server.pid)
    assert len(told) == count and set(told) <= {"delegated", "native"}
    assert told.count("delegated") == min(count, CARRIED_MOST)
    for client in clients:
        client.close()
    with connect(port) as client:
        assert ask(client, b"after") == b"after"


def test_a_peer_that_takes_nothing_holds_up_nobody_else(harness):
    port, _ = start_server(harness, EPOLL_ECHO)
    with connect(port) as slow, connect(port) as quick:
        slow.setblocking(False)
        # Its own echo fills lanes and sockets; a blocking server would stop, so only until it would.
        slow.sendall(b"z" * 20_000)
        for number in range(300):
            message = b"%8d" % number
            assert ask(quick, message) == message


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and ip(8)")
def test_a_peer_in_another_network_namespace_is_carried(harness):
    port, server = start_server(harness, EPOLL_ECHO)
    holder = subprocess.Popen(["unshare", "--net", "sleep", "1000"])
    name, here, there = f"hv{os.getpid() % 100000}", "10.211.7.1", "10.211.7.2"
    inside = ["nsenter", "--target", str(holder.pid), "--net"]
    try:
        own = os.readlink("/proc/self/ns/net")
        kernel_view.wait_until(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own, 60, "the namespace")
        for words in (
            ["ip", "link", "add", name, "type", "veth", "peer", "name", "peer0", "netns", str(holder.pid)],
            ["ip", "address", "add", f"{here}/30", "dev", name],
            ["ip", "link", "set", name, "up"],
            [*inside, "ip", "address", "add", f"{there}/30", "dev", "peer0"],
            [*inside, "ip", "link", "set", "peer0", "up"],
        ):
            subprocess.run(words, check=True, timeout=60)
        client = (
            "import hashlib, socket, sys, time\n"
            f"connection = socket.create_connection(('{here}', {port}), timeout=60)\n"
            "data = bytes(range(256)) * 2000\n"
            "connection.sendall(data)\n"
            "print(connection.makefile('rb').read(len(data)) == data, flush=True)\n"
            "sys.stdin.read()\n"
        )
        peer = subprocess.Popen(
            [*inside, sys.executable, "-c", client], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert peer.stdout.readline() == "True\n"
        [entry] = harness.explain(server.pid)
        assert (entry["path"], entry["peer"].split(":")[0]) == ("delegated", there)
        peer.communicate(timeout=60)
    finally:
        holder.kill()
        holder.wait()


@pytest.mark.skipif(not shutil.which("nginx") or not shutil.which("curl"), reason="no nginx or no curl")
def test_nginx_serves_plain_clients(harness, tmp_path):
    port, master = nginx_server.start_nginx(harness, Side.HELIOSTAT, tmp_path)
    url = f"http://127.0.0.1:{port}"
    for _ in range(3):
        got = subprocess.run(["curl", "-s", f"{url}/small.txt", f"{url}/large.bin"], capture_output=True, timeout=60)
        large = bytes(range(251)) * (nginx_server.LARGE_BYTES // 251 + 1)
        assert got.stdout == nginx_server.SMALL + large[: nginx_server.LARGE_BYTES]
    if shutil.which("wrk"):
        done = subprocess.run(
            ["wrk", "-t1", "-c20", "-d2s", f"{url}/small.txt"], capture_output=True, text=True, timeout=60
        )
        assert "Requests/sec" in done.stdout and "Socket errors" not in done.stdout, done.stdout
    [loop] = harness.status()["network"]["loops"]
    assert loop["corrupt"] == 0


@pytest.mark.skipif(not shutil.which("redis-server"), reason="no redis-server")
def test_redis_serves_a_plain_redis_benchmark(harness):
    port = kernel_view.free_port()
    server = harness.start(Side.HELIOSTAT, ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no"])
    kernel_view.wait_listening(port, server.process)
    words = ["redis-benchmark", "-p", str(port), "-t", "set,get", "-n", "20000", "-c", "50", "-q"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=True)
    assert "GET" in done.stdout and "Error" not in done.stdout + done.stderr
    [loop] = harness.status()["network"]["loops"]
    assert loop["handed"] >= 50 and loop["corrupt"] == loop["refused"] == 0
    with connect(port) as client:
        assert ask(client, b"PING\r\n" * 2)[:7] == b"+PONG\r\n"
        assert "delegated" in paths(harness, server.pid)
