"""A carried connection is given to a program that a server starts, with bytes that it has not read: none is lost.

The ways are those in which servers of inetd's kind start programs: vfork (Python's subprocess), posix_spawn, and
fork with exec; by the standard descriptors, by another number, and by its own.
"""

from __future__ import annotations

import random
import socket
import threading

import kernel_view
import pytest
from heliostat_run import Harness
from network_peers import ALWAYS, connect, start_server

pytestmark = pytest.mark.heliostat

FIRST, UNREAD, LATER = 1000, 60_000, 200_000
# What is unread lies with this process before the program is started.
AWAIT_UNREAD = f"""
import os, socket, subprocess, sys
def await_unread(connection):
    assert connection.recv({FIRST}, socket.MSG_WAITALL)
    while len(connection.recv(1 << 20, socket.MSG_PEEK)) < {UNREAD}: pass
"""
WAYS = {
    "subprocess": "subprocess.Popen(['/bin/cat'], stdin=connection, stdout=connection)",
    "posix_spawn": "os.posix_spawn('/bin/cat', ['cat'], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, number, 0), (os.POSIX_SPAWN_DUP2, number, 1)])",
    "other_number": "os.posix_spawn('/bin/sh', ['sh', '-c', 'exec cat <&7 >&7'], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, number, 7)])",
    "own_number": "subprocess.Popen(['/bin/sh', '-c', f'exec cat <&{number} >&{number}'], pass_fds=[number])",
    # As xinetd does.
    "fork_exec": "os.fork() or (os.dup2(number, 0), os.dup2(number, 1), os.dup2(number, 2), os.closerange(3, 1000), os.execv('/bin/cat', ['cat']))",
}


@pytest.fixture(scope="module")
def harness(request):
    with Harness(configuration=ALWAYS) as one:
        yield one


def received_of(client: socket.socket, data: bytes) -> bytes:
    """Sends all of it, the last part later, and reads to the end meanwhile."""
    got = bytearray()

    def receive():
        while part := client.recv(1 << 16):
            got.extend(part)

    reader = threading.Thread(target=receive)
    reader.start()
    client.sendall(data[: FIRST + UNREAD])
    kernel_view.wait_until(lambda: len(got) >= UNREAD, 60, f"the unread bytes, of which {len(got)} came")
    client.sendall(data[FIRST + UNREAD :])
    client.shutdown(socket.SHUT_WR)
    reader.join(60)
    assert not reader.is_alive()
    return bytes(got)


@pytest.mark.parametrize("way", WAYS)
def test_a_program_gets_what_its_server_has_not_read_and_all_that_follows(harness, way):
    program = f"""{AWAIT_UNREAD}
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    connection = listener.accept()[0]
    number = connection.fileno()
    await_unread(connection)
    {WAYS[way]}
    connection.close()
"""
    port, server = start_server(harness, program)
    for seed in range(3):
        data = random.Random(seed).randbytes(FIRST + UNREAD + LATER)
        with connect(port) as client:
            assert received_of(client, data) == data[FIRST:], server.errors()


@pytest.mark.parametrize("kind", ["TCPServer", "ThreadingTCPServer", "ForkingTCPServer"])
def test_a_socketserver_that_runs_a_filter_on_its_connection_tells_all_before_the_end(harness, kind):
    """The server shuts the connection down itself when the program has ended: behind all that it has written."""
    program = f"""{AWAIT_UNREAD}
import socketserver
class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        await_unread(self.request)
        subprocess.run(["/usr/bin/head", "-c", "{UNREAD}"], stdin=self.request, stdout=self.request, check=True)
socketserver.{kind}.allow_reuse_address = True
socketserver.{kind}(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
    port, server = start_server(harness, program)
    data = [random.Random(seed).randbytes(FIRST + UNREAD) for seed in range(4)]
    clients = [connect(port) for _ in data]
    for client, sent in zip(clients, data):
        client.sendall(sent)
    for client, sent in zip(clients, data):
        assert client.makefile("rb").read() == sent[FIRST:], server.errors()
        client.close()


def test_a_server_reads_on_where_its_program_has_stopped_also_by_an_epoll_set(harness):
    program = f"""{AWAIT_UNREAD}
import select
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
epoll = select.epoll(); epoll.register(connection, select.EPOLLIN)
await_unread(connection)
for _ in range(3):
    subprocess.run(["/bin/dd", "bs=5000", "count=1", "iflag=fullblock", "status=none"], stdin=connection, stdout=connection, check=True)
    epoll.poll()
    connection.sendall(connection.recv(5000, socket.MSG_WAITALL))
while epoll.poll() and (part := connection.recv(1 << 16)): connection.sendall(part)
"""
    port, server = start_server(harness, program)
    data = random.Random(5).randbytes(FIRST + UNREAD + LATER)
    with connect(port) as client:
        assert received_of(client, data) == data[FIRST:], server.errors()


def test_a_server_whose_program_took_its_connection_has_it_at_all_its_numbers(harness, tmp_path):
    """poll, sendfile, a number that was duplicated before, and the half-close are the connection's own still."""
    (tmp_path / "file").write_bytes(b"from a file")
    program = f"""
import os, select, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
assert connection.recv(5, socket.MSG_WAITALL) == b"hello"
other = socket.socket(fileno=os.dup(connection.fileno()))
subprocess.run(["/bin/echo", "from a program"], stdin=connection, stdout=connection, check=True)
poll = select.poll(); poll.register(connection, select.POLLIN | select.POLLOUT)
print([event for _, event in poll.poll()] == [select.POLLOUT], flush=True)
with open({str(tmp_path / "file")!r}, "rb") as file: os.sendfile(connection.fileno(), file.fileno(), 0, 11)
print(other.recv(4, socket.MSG_WAITALL), flush=True)
other.sendall(b" and a copy")
connection.shutdown(socket.SHUT_WR)
print(connection.recv(5, socket.MSG_WAITALL), connection.recv(1), flush=True)
"""
    port, server = start_server(harness, program)
    with connect(port) as client:
        client.sendall(b"hello")
        received = client.makefile("rb")
        assert received.read(26) == b"from a program\nfrom a file"
        client.sendall(b"more")
        assert received.read() == b" and a copy"
        client.sendall(b"to it")
        client.shutdown(socket.SHUT_WR)
        kernel_view.wait_until(lambda: server.output().count("\n") == 3, 60, "what the server saw")
    assert server.output().splitlines() == ["True", "b'more'", "b'to it' b''"], server.errors()


def test_a_number_that_was_duplicated_before_an_exec_is_the_same_connection(harness):
    """The server itself becomes another program, by the copy of its connection, with bytes unread."""
    program = f"""{AWAIT_UNREAD}
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
await_unread(connection)
os.dup2(connection.fileno(), 0); os.dup2(connection.fileno(), 1)
os.execv("/bin/cat", ["cat"])
"""
    port, server = start_server(harness, program)
    data = random.Random(9).randbytes(FIRST + UNREAD + LATER)
    with connect(port) as client:
        assert received_of(client, data) == data[FIRST:], server.errors()
