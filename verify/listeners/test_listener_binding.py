"""What a program says of its socket before it listens on a shared address holds, and holds for that socket alone."""

from __future__ import annotations

import os
import signal

import kernel_view
import pytest
import shared_port
from heliostat_run import BINARY, Harness, Program, Side
from shared_port import ANSWER, KINDS, ask, start_worker, start_workers

pytestmark = pytest.mark.heliostat

BINDS = ANSWER + """
import fcntl, struct
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
def bind():
    listener.bind(("127.0.0.1", port))
def is_nonblocking(fd):
    return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK != 0
"""
# The number of a socket that was bound is another file's.
REUSES = BINDS + """
bind()
number = listener.fileno()
ends = os.pipe()
if sys.argv[3] == "dup2":
    os.dup2(ends[0], number)
elif sys.argv[3] == "close":
    listener.close()
    fcntl.fcntl(ends[0], fcntl.F_DUPFD, number)
else:
    os.closerange(number, number + 1)
    fcntl.fcntl(ends[0], fcntl.F_DUPFD, number)
assert os.path.sameopenfile(number, ends[0])
fcntl.fcntl(number, fcntl.F_SETFL, os.O_NONBLOCK)
assert is_nonblocking(number)
os.set_blocking(number, True)
assert not is_nonblocking(number)
print("held", flush=True)
"""


@pytest.mark.parametrize("how", ["close", "closerange", "dup2"])
def test_a_number_that_was_bound_is_nothing_special_later(harness, how):
    port, _ = start_workers(harness, 1)
    program = start_worker(harness, port, "round-robin", REUSES, "-", how)
    program.wait()
    assert program.output() == "held\n", program.errors()


MODES = BINDS + """
def wants(nonblocking):
    os.set_blocking(listener.fileno(), not nonblocking)
    assert is_nonblocking(listener.fileno()) == nonblocking
bind()
wants(True)
wants(sys.argv[3] == "nonblocking")
print("bound", flush=True)
while len(sys.argv) > 4 and not os.path.exists(sys.argv[4]):
    time.sleep(0.02)
listener.listen(64)
assert is_nonblocking(listener.fileno()) == (sys.argv[3] == "nonblocking")
print("held", flush=True)
while sys.argv[3] == "blocking":
    serve(listener.accept()[0])
"""


def assert_held(program: Program) -> None:
    kernel_view.wait_until(lambda: "held" in program.output() or program.process.poll() is not None, 30, "a listener")
    assert program.output() == "bound\nheld\n", program.errors()
    shared_port.settle()
    assert not program.errors()


@pytest.mark.parametrize("mode", ["blocking", "nonblocking"])
def test_a_worker_too_many_waits_as_it_wants(mode):
    port = kernel_view.free_port()
    configuration = f'[[listener]]\naddress = "127.0.0.1:{port}"\nrule = "round-robin"\nworkers = 1\n'
    with Harness(configuration=configuration) as harness:
        plain = [BINARY, "run", "--", "python3", "-c"]
        first = harness.start(Side.PLAIN, [*plain, KINDS["blocking"][0], port], name="worker")
        shared_port.wait_ready(harness, port, 1)
        assert_held(harness.start(Side.PLAIN, [*plain, MODES, port, "-", mode], name="worker"))
        assert len(shared_port.shared(harness, port)["workers"]) == 1
        assert first.process.poll() is None
        assert all(ask(port, timeout=10) for _ in range(5))


@pytest.mark.parametrize("mode", ["blocking", "nonblocking"])
def test_a_program_that_listens_without_the_control_plane_waits_as_it_wants(tmp_path, mode):
    with Harness() as harness:
        port, workers = start_workers(harness, 1)
        # The listening socket is its as well: it must not be the one that lets it block.
        os.kill(workers[0].pid, signal.SIGSTOP)
        go = tmp_path / "go"
        program = start_worker(harness, port, "round-robin", MODES, "-", mode, str(go))
        kernel_view.wait_until(lambda: "bound" in program.output(), 30, "a bound socket")
        os.kill(harness.control_plane(), signal.SIGKILL)
        go.touch()
        assert_held(program)


TIMED = BINDS + """
listener.settimeout(None)
def set_timeout():
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 300_000))
when = sys.argv[3]
if when != "between" and when != "never":
    set_timeout()
bind()
if when == "between":
    set_timeout()
listener.listen(64)
if when == "forked" and os.fork() > 0:
    os.wait()
while True:
    try:
        serve(listener.accept()[0])
    except BlockingIOError:
        print("timed out", flush=True)
"""


@pytest.mark.parametrize("when", ["before", "between", "forked"])
@pytest.mark.parametrize("others", [0, 1])
def test_accept_waits_no_longer_than_the_socket_says(harness, when, others):
    port = kernel_view.free_port()
    for _ in range(others):
        start_worker(harness, port, "round-robin", KINDS["blocking"][0])
        shared_port.wait_ready(harness, port, 1)
    timed = start_worker(harness, port, "round-robin", TIMED, "-", when)
    shared_port.wait_ready(harness, port, others + 1)
    kernel_view.wait_until(lambda: timed.output().count("timed out") >= 2, 30, "accept(2) to time out")
    assert all(ask(port, timeout=10) for _ in range(4))


def test_a_timeout_is_one_programs_alone(harness):
    port = kernel_view.free_port()
    timed = start_worker(harness, port, "round-robin", TIMED, "-", "before")
    shared_port.wait_ready(harness, port, 1)
    patient = start_worker(harness, port, "round-robin", TIMED, "-", "never")
    shared_port.wait_ready(harness, port, 2)
    seen = timed.output().count("timed out")
    kernel_view.wait_until(lambda: timed.output().count("timed out") >= seen + 3, 30, "accept(2) to time out")
    assert patient.output() == "" and len({ask(port, timeout=10) for _ in range(4)}) == 2


# It goes on at each step when it is told to, by a file.
STEPS = ANSWER + """
listener = socket.socket()
if sys.argv[3] == "reuseaddr":
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", port))
print("bound", flush=True)
while not os.path.exists(sys.argv[4]):
    time.sleep(0.02)
listener.listen(512)
while True:
    serve(listener.accept()[0])
"""


def test_who_has_bound_before_another_listens_takes_part(harness, tmp_path):
    """With SO_REUSEADDR both may bind, and the kernel lets one listen."""
    port, go = kernel_view.free_port(), tmp_path / "go"
    late = start_worker(harness, port, "round-robin", STEPS, "-", "reuseaddr", str(go))
    kernel_view.wait_until(lambda: "bound" in late.output(), 30, "a bound socket")
    first = start_worker(harness, port, "round-robin", KINDS["blocking"][0])
    shared_port.wait_ready(harness, port, 1)
    go.touch()
    shared_port.wait_ready(harness, port, 2)
    assert {ask(port, timeout=10) for _ in range(4)} == {late.pid, first.pid}


def test_who_listens_late_is_waited_for(harness, tmp_path):
    """As one that gets no core between bind(2) and listen(2)."""
    port, go = kernel_view.free_port(), tmp_path / "go"
    first = start_worker(harness, port, "round-robin", STEPS, "-", "plain", str(go))
    kernel_view.wait_until(lambda: "bound" in first.output(), 30, "a bound socket")
    second = start_worker(harness, port, "round-robin", STEPS, "-", "plain", str(go))
    shared_port.settle(1.5)
    assert second.output() == "" and second.process.poll() is None, second.errors()
    go.touch()
    shared_port.wait_ready(harness, port, 2)
    assert {ask(port, timeout=10) for _ in range(4)} == {first.pid, second.pid}
