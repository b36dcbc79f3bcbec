"""Children of a server on a shared address, and its epoll sets: nobody's change makes another one deaf."""

from __future__ import annotations

import collections
import os
import signal

import kernel_view
import pytest
import shared_port
from heliostat_run import Harness
from shared_port import ANSWER, LISTEN, ask, shared, start_worker

pytestmark = pytest.mark.heliostat

SERVES_BY_EPOLL = """
def serve_all(epoll):
    epoll.poll()
    try:
        while True:
            connection = listener.accept()[0]
            connection.setblocking(True)
            serve(connection)
    except BlockingIOError:
        pass
"""
WATCHES = ANSWER + LISTEN + SERVES_BY_EPOLL + """
import select
listener.setblocking(False)
os.set_inheritable(listener.fileno(), True)
epoll = select.epoll()
epoll.register(listener, select.EPOLLIN)
"""
# After each connection, another program is executed that inherits the listening descriptor.
SPAWNS = WATCHES + """
import subprocess
true = ["/bin/true"]
def fork_and_exec():
    pid = os.fork()
    if pid == 0:
        os.execv(true[0], true)
    os.waitpid(pid, 0)
spawn = {
    "fork": fork_and_exec,
    "vfork": lambda: subprocess.run(true, close_fds=False),
    "posix_spawn": lambda: os.waitpid(os.posix_spawn(true[0], true, os.environ), 0),
    "system": lambda: os.system("true"),
}[sys.argv[3]]
while True:
    serve_all(epoll)
    spawn()
"""


@pytest.mark.parametrize("how", ["fork", "vfork", "posix_spawn", "system"])
def test_a_server_goes_on_after_it_has_started_another_program(harness, how):
    port = kernel_view.free_port()
    server = start_worker(harness, port, "round-robin", SPAWNS, "-", how)
    shared_port.wait_ready(harness, port, 1)
    pid = shared(harness, port)["workers"][0]["pids"][0]
    assert [ask(port, timeout=10) for _ in range(8)] == [pid] * 8
    assert server.process.poll() is None


FAMILY = WATCHES + """
for _ in range(2):
    if os.fork() == 0:
        hello = b"%d\\n" % os.getpid()
        while True:
            serve_all(epoll)
while True:
    time.sleep(1)
"""


def test_processes_that_share_a_set_go_on_without_the_control_plane():
    with Harness() as harness:
        port = kernel_view.free_port()
        parent = start_worker(harness, port, "round-robin", FAMILY)
        shared_port.wait_ready(harness, port, 1)
        before = {ask(port, timeout=10) for _ in range(10)}
        os.kill(harness.control_plane(), signal.SIGKILL)
        after = {ask(port, timeout=10) for _ in range(10)}
        assert parent.pid not in before | after


# They close the set that they inherit, and so take from no queue of their parent's.
PARTED = WATCHES + """
listener.setblocking(True)
for _ in range(3):
    if os.fork() == 0:
        hello = b"%d\\n" % os.getpid()
        epoll.close()
        while True:
            serve(listener.accept()[0])
listener.close()
while True:
    time.sleep(1)
"""


def test_forked_workers_that_close_the_inherited_set_have_queues_of_their_own(harness):
    port = kernel_view.free_port()
    start_worker(harness, port, "round-robin", PARTED)
    shared_port.wait_ready(harness, port, 3)
    served = collections.Counter(ask(port, timeout=10) for _ in range(30))
    assert sorted(served.values()) == [10, 10, 10]


REUSES = ANSWER + LISTEN + """
import select
first = select.epoll()
first.register(listener, select.EPOLLIN)
number = first.fileno()
first.close()
second = select.epoll()
assert second.fileno() == number
while True:
    serve(listener.accept()[0])
    with open(f"/proc/self/fdinfo/{number}") as held:
        print("holds", held.read().count("tfd:"), flush=True)
"""


def test_a_set_that_has_the_number_of_a_closed_one_gets_nothing_of_it():
    with Harness() as harness:
        port = kernel_view.free_port()
        server = start_worker(harness, port, "round-robin", REUSES)
        shared_port.wait_ready(harness, port, 1)
        os.kill(harness.control_plane(), signal.SIGKILL)
        ask(port, timeout=10)
        kernel_view.wait_until(lambda: "holds" in server.output(), 20, "a look at the set")
        assert server.output().split() == ["holds", "0"]


# The kernel refuses the second place in the set, whose events are none.
REFUSED = WATCHES + """
try:
    epoll.register(listener, 0)
    sys.exit("registered twice")
except FileExistsError:
    pass
while True:
    serve_all(epoll)
"""


def test_what_the_kernel_refuses_of_a_set_is_not_remembered():
    with Harness() as harness:
        port = kernel_view.free_port()
        start_worker(harness, port, "round-robin", REFUSED)
        shared_port.wait_ready(harness, port, 1)
        pid = ask(port, timeout=10)
        os.kill(harness.control_plane(), signal.SIGKILL)
        assert [ask(port, timeout=10) for _ in range(5)] == [pid] * 5


LATE = """
import os, sys, time
print("started", flush=True)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.02)
""" + REFUSED


def test_a_set_that_was_filled_without_the_control_plane_has_the_queue_later(tmp_path):
    with Harness() as harness:
        port, go = kernel_view.free_port(), tmp_path / "go"
        server = start_worker(harness, port, "round-robin", LATE, "-", str(go))
        kernel_view.wait_until(lambda: "started" in server.output(), 30, "a program")
        os.kill(harness.control_plane(), signal.SIGKILL)
        go.touch()
        kernel_view.wait_listening(port)
        pid = ask(port, timeout=10)
        harness.call("run", "--", "/bin/true")
        kernel_view.wait_until(lambda: ask(port, timeout=10) == pid and shared(harness, port)["workers"], 30, "a worker")
        assert [ask(port, timeout=10) for _ in range(10)] == [pid] * 10


# Hidden is a high number that listens on the same address.
OVERWRITES = ANSWER + LISTEN + """
def is_hidden(number):
    try:
        with socket.socket(fileno=os.dup(number)) as one:
            return number >= 900 and one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    except OSError:
        return False
hidden = [number for number in map(int, os.listdir("/proc/self/fd")) if is_hidden(number)]
assert len(hidden) == 1, hidden
null = os.open("/dev/null", os.O_RDONLY)
os.dup2(null, hidden[0])
assert os.path.sameopenfile(null, hidden[0])
assert listener.getsockname() == ("127.0.0.1", port)
os.close(hidden[0])
print("closed", flush=True)
while True:
    serve(listener.accept()[0])
"""


def test_a_program_may_put_a_file_where_the_listening_socket_is_hidden():
    with Harness() as harness:
        port = kernel_view.free_port()
        server = start_worker(harness, port, "round-robin", OVERWRITES)
        shared_port.wait_ready(harness, port, 1)
        assert server.output() == "closed\n", server.errors()
        pid = ask(port, timeout=10)
        os.kill(harness.control_plane(), signal.SIGKILL)
        assert ask(port, timeout=10) == pid
