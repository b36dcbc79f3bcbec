"""Programs that come to a listening socket through exec, and programs whose environment was cleared.

inetd, socket activation and servers that execute themselves anew hand a listening socket on; login
servers, cron and sshd give their programs an environment of their own.
"""

from __future__ import annotations

import json
import os
import socket
import sys

import kernel_view
import pytest
from heliostat_run import BINARY, Harness, Side
from test_users import CLIENT

pytestmark = pytest.mark.heliostat

# Listens, and becomes the words behind the port, with the listening socket as descriptor 3.
ACTIVATOR = """
import json, os, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.execve(sys.argv[3], sys.argv[3:], dict(os.environ, **json.loads(sys.argv[2])))
"""
SERVER = """
import json, os, select, socket, sys
listener = socket.socket(fileno=3)
how = sys.argv[1]
if how == "poll":
    watch = select.poll()
    watch.register(listener, select.POLLIN)
    watch.poll()
elif how == "select":
    select.select([listener], [], [])
elif how == "epoll":
    watch = select.epoll()
    watch.register(listener, select.EPOLLIN)
    watch.poll()
connection = listener.accept()[0]
while part := connection.recv(100):
    connection.sendall(part)
"""
# What arrives by a message is a listening socket that nobody has seen coming either.
RECEIVER = """
import os, select, socket, sys
passing = socket.socket(fileno=3)
listener = socket.socket(fileno=socket.recv_fds(passing, 1, 1)[1][0])
print("received", flush=True)
if sys.argv[1] == "epoll":
    watch = select.epoll()
    watch.register(listener, select.EPOLLIN)
    watch.poll()
connection = listener.accept()[0]
while part := connection.recv(100):
    connection.sendall(part)
"""
PRINTS = "import json, os; print(json.dumps(dict(os.environ)))"


def covered(words: list[str]) -> list[str]:
    return [str(BINARY), "run", "--", *words]


def talk(harness: Harness, port: int) -> dict:
    """What becomes of the first connection to `port`, of a client that has got its answers."""
    reading, writing = os.pipe()
    client = harness.start(Side.HELIOSTAT, [sys.executable, "-c", CLIENT, str(port)], stdin=reading)
    kernel_view.wait_until(lambda: "three" in client.output(), 60, "the last answer")
    [connection] = harness.explain(client.pid)
    os.close(writing)
    assert client.wait() == 0 and client.output().split() == ["b'one'", "b'two'", "b'three'"]
    return connection


def await_listener(harness: Harness, port: int) -> None:
    """Waits until a program has registered the port: it is about to wait for its first client."""

    def registered() -> bool:
        return f'127.0.0.1:{port}"' in json.dumps(harness.status())

    kernel_view.wait_until(registered, 60, f"registration of port {port}")


@pytest.mark.parametrize("how", ["accept", "poll", "select", "epoll"])
def test_the_first_client_of_an_inherited_listening_socket_is_direct(harness: Harness, how):
    port = kernel_view.free_port()
    server = covered([sys.executable, "-c", SERVER, how])
    harness.start(Side.PLAIN, [sys.executable, "-c", ACTIVATOR, str(port), "{}", *server])
    await_listener(harness, port)
    assert talk(harness, port)["path"] == "direct"


@pytest.mark.parametrize("how", ["accept", "epoll"])
def test_the_first_client_of_a_listening_socket_that_was_received_is_direct(harness: Harness, how):
    ours, theirs = socket.socketpair()
    port = kernel_view.free_port()
    receiver = harness.start(
        Side.PLAIN, ["sh", "-c", 'exec "$@" 3<&0', "sh", *covered([sys.executable, "-c", RECEIVER, how])], stdin=theirs
    )
    with socket.create_server(("127.0.0.1", port)) as listener:
        socket.send_fds(ours, [b"x"], [listener.fileno()])
    kernel_view.wait_until(lambda: "received" in receiver.output(), 60, "the listening socket")
    await_listener(harness, port)
    assert talk(harness, port)["path"] == "direct"


# Begins a program with nothing in its environment but one variable, in each way that there is.
CLEARED = """
import os, sys
how, words, left = sys.argv[1], sys.argv[2:], {"LEFT": "1"}
if how == "exec":
    os.execve(words[0], words, left)
if how == "fork" and os.fork() == 0:
    os.execve(words[0], words, left)
if how == "spawn":
    os.posix_spawn(words[0], words, left)
os.wait()
"""


@pytest.mark.parametrize("how", ["exec", "fork", "spawn"])
def test_a_program_with_a_cleared_environment_is_covered_and_finds_it_cleared(harness: Harness, how):
    printing = [sys.executable, "-c", CLEARED, how, sys.executable, "-c", PRINTS]
    printed = {}
    for side in Side:
        program = harness.start(side, printing)
        assert program.wait() == 0
        printed[side] = json.loads(program.output())
    assert printed[Side.HELIOSTAT] == printed[Side.PLAIN]
    port = kernel_view.free_port()
    server = f"import socket; import os; s = socket.create_server(('127.0.0.1', {port})); os.dup2(s.fileno(), 3)\n{SERVER}"
    # Two of them: what was put back is handed on by a program that does not see it.
    twice = [sys.executable, "-c", CLEARED, how, sys.executable, "-c", CLEARED, how]
    harness.start(Side.HELIOSTAT, [*twice, sys.executable, "-c", server, "accept"])
    kernel_view.wait_listening(port)
    assert talk(harness, port)["path"] == "direct"


def test_who_takes_the_stub_out_of_the_environment_is_without_it(harness: Harness):
    printing = ["env", "-u", "LD_PRELOAD", sys.executable, "-c", "print('heliostat_posix' in open('/proc/self/maps').read())"]
    program = harness.start(Side.HELIOSTAT, printing)
    assert (program.wait(), program.output()) == (0, "False\n")


def test_a_bad_environment_is_refused_as_plainly(harness: Harness):
    script = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
arguments = (ctypes.c_char_p * 2)(b"true", None)
for environment in (1, 0x7fff00000000):
    print(libc.execve(b"/bin/true", arguments, ctypes.c_void_p(environment)), os.strerror(ctypes.get_errno()))
"""
    said = []
    for side in Side:
        program = harness.start(side, [sys.executable, "-c", script])
        assert program.wait() == 0, program.errors()
        said.append(program.output())
    assert said[0] == said[1]
    assert "Bad address" in said[0]
