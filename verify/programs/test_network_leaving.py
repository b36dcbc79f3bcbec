"""Carried connections that leave the network service: by an option or call, by exec, or to a child."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import socket
import threading

import kernel_view
import pytest
from heliostat_run import Harness
from network_peers import ALWAYS, ask, connect, paths, start_server

pytestmark = pytest.mark.heliostat


@pytest.fixture(scope="module")
def harness(request):
    with Harness(configuration=ALWAYS) as one:
        yield one


LEAVES = {
    "option": "connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2)",
    "linger": "connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, __import__('struct').pack('ii', 1, 5))",
    "urgent": "connection.send(b'u', socket.MSG_OOB)",
}


@pytest.mark.parametrize("how", LEAVES)
def test_a_connection_leaves_in_the_middle_of_a_transfer_without_losing_a_byte(harness, how):
    program = f"""
import hashlib, random, socket, sys, threading
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
def send():
    source = random.Random(3)
    for number in range(16):
        connection.sendall(source.randbytes(1 << 20))
        if number == 7: {LEAVES[how]}
    connection.shutdown(socket.SHUT_WR)
writer = threading.Thread(target=send); writer.start()
seen = hashlib.sha256()
while part := connection.recv(70000): seen.update(part)
writer.join()
print(seen.hexdigest(), flush=True)
sys.stdin.read()
"""
    reading, writing = os.pipe()
    port, server = start_server(harness, program, stdin=reading)
    with connect(port) as client:
        received = bytearray()

        def receive():
            while part := client.recv(1 << 16):
                received.extend(part)

        reader = threading.Thread(target=receive)
        reader.start()
        source, sent = random.Random(4), hashlib.sha256()
        for _ in range(16):
            part = source.randbytes(1 << 20)
            sent.update(part)
            client.sendall(part)
        client.shutdown(socket.SHUT_WR)
        reader.join(60)
        kernel_view.wait_until(lambda: server.output().strip(), 60, "the server's sum")
        assert paths(harness, server.pid) == ["native"]
    os.close(writing)
    again = random.Random(3)
    expected = b"".join(again.randbytes(1 << 20) for _ in range(16))
    assert hashlib.sha256(received).hexdigest() == hashlib.sha256(expected).hexdigest()
    assert server.output().strip() == sent.hexdigest()


def test_a_protocol_above_tcp_is_asked_of_the_kernel_with_all_that_is_unread_before_it(harness):
    program = """
import array, fcntl, socket, sys, termios, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
connection.sendall(connection.recv(5))
queued = array.array("i", [0])
while queued[0] < 1000:
    time.sleep(0.01)
    fcntl.ioctl(connection, termios.FIONREAD, queued)
try: connection.setsockopt(socket.IPPROTO_TCP, 31, b"no such protocol")  # TCP_ULP
except OSError as error: print(type(error).__name__, flush=True)
sys.stdin.readline()
while part := connection.recv(300): connection.sendall(part)
"""
    reading, writing = os.pipe()
    port, server = start_server(harness, program, stdin=reading)
    with connect(port) as client:
        assert ask(client, b"first") == b"first"
        assert paths(harness, server.pid) == ["delegated"]
        unread = random.Random(5).randbytes(1000)
        client.sendall(unread)
        kernel_view.wait_until(lambda: server.output(), 60, "the kernel's answer")
        assert paths(harness, server.pid) == ["native"]
        os.write(writing, b"\n")
        # With a time limit a socket of Python's waits for nothing, MSG_WAITALL or not.
        assert client.makefile("rb").read(1000) == unread
        assert ask(client, b"and then") == b"and then"
    os.close(writing)


def test_an_inherited_connection_is_the_kernels_after_exec(harness):
    program = """
import os, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
print(connection.recv(1), flush=True)
os.dup2(connection.fileno(), 0)
os.execv("/bin/cat", ["cat"])
"""
    port, server = start_server(harness, program)
    with connect(port) as client:
        client.sendall(b"x")
        kernel_view.wait_until(lambda: server.output(), 60, "the first byte")
        client.sendall(b"behind exec")
        client.shutdown(socket.SHUT_WR)
        kernel_view.wait_until(lambda: "behind exec" in server.output(), 60, "what came after exec")


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_a_child_that_gets_the_connection_serves_it(harness, way):
    program = """
import os, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    connection = listener.accept()[0]
    if sys.argv[2] == "spawn":
        subprocess.Popen(["/bin/cat"], stdin=connection, stdout=connection)
    elif os.fork() == 0:
        listener.close()
        while part := connection.recv(1000): connection.sendall(part)
        os._exit(0)
    connection.close()
"""
    port, _ = start_server(harness, program, way)
    for number in range(3):
        with connect(port) as client:
            message = b"to child %d" % number
            assert ask(client, message) == message
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""


FILLS = {
    "option": ("setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2)", "sock.close()"),
    "half_closed": ("shutdown(socket.SHUT_WR); sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2)", "sys.stdin.read()"),
    "closed": ("setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2)", "sys.exit()"),
}


@pytest.mark.parametrize("how", FILLS)
def test_what_a_peer_does_not_read_is_not_lost_when_the_connection_leaves(harness, how):
    """Lane and socket are full: the program leaves, writes on, and its peer reads only then."""
    leave, end = FILLS[how]
    program = f"""
import random, select, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
sock = listener.accept()[0]
assert sock.recv(1) == b"x"
sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2_000_000)
sock.setblocking(False)
source, sent = random.Random(8).randbytes(30_000_000), 0
while select.select([], [sock], [], 1)[1]:
    try: sent += sock.send(source[sent : sent + 65536])
    except BlockingIOError: pass
sock.{leave}
print(sent, flush=True)
sock.setblocking(True)
if {how != "half_closed"}: sock.sendall(b"behind it")
{end}
"""
    reading, writing = os.pipe()
    port, server = start_server(harness, program, stdin=reading)
    with socket.socket() as client:
        client.settimeout(60)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.connect(("127.0.0.1", port))
        client.sendall(b"x")
        kernel_view.wait_until(lambda: server.output() or server.process.poll() is not None, 60, "a connection that has left")
        assert server.output(), server.errors()
        received = client.makefile("rb").read()
    os.close(writing)
    expected = random.Random(8).randbytes(30_000_000)[: int(server.output())]
    assert received == expected + (b"" if how == "half_closed" else b"behind it")


def open_files(pid: int) -> set[str]:
    folder, found = f"/proc/{pid}/fd", set()
    for number in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"{folder}/{number}"))
    return found


def test_a_time_to_linger_that_is_set_as_a_connection_leaves_stays(harness):
    program = """
import os, socket, struct, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
print(connection.recv(1), flush=True)
sys.stdin.readline()
connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 10))
print("set", os.fstat(connection.fileno()).st_ino, flush=True)
sys.stdin.readline()
print(struct.unpack("ii", connection.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)), flush=True)
sys.stdin.readline()
"""
    reading, writing = os.pipe()
    port, server = start_server(harness, program, stdin=reading)
    with connect(port) as client:
        client.sendall(b"x")
        kernel_view.wait_until(lambda: "x" in server.output(), 60, "the first byte")
        control = harness.control_plane()
        os.kill(control, signal.SIGSTOP)
        try:
            os.write(writing, b"\n")
            kernel_view.wait_until(lambda: "set" in server.output(), 60, "the option")
        finally:
            os.kill(control, signal.SIGCONT)
        # Only now the loop's duplicate is closed.
        inode = server.output().split()[-1]
        kernel_view.wait_until(lambda: f"socket:[{inode}]" not in open_files(control), 60, "the loop lets go")
        os.write(writing, b"\n")
        kernel_view.wait_until(lambda: ")" in server.output(), 60, "the option as it is now")
        assert "(1, 10)" in server.output()
    os.close(writing)
