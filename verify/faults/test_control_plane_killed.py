"""The control plane is killed, stopped or ended: what is open goes on, what is new still works."""

from __future__ import annotations

import os
import signal
import sys

import kernel_view
import pytest
from fault_pairs import start_pair, start_transfer, transfer_result
from heliostat_run import Harness, Side

pytestmark = pytest.mark.heliostat

SERVE_FOR_EVER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    connection, _ = listener.accept()
    while part := connection.recv(100): connection.sendall(part)
    connection.close()
"""
ASK_ONCE = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    for number in range(100):
        connection.sendall(b"%3d" % number)
        assert connection.recv(3, socket.MSG_WAITALL) == b"%3d" % number
print("answered")
"""
HOLD_ONE = ASK_ONCE.replace('print("answered")', '    print("answered", flush=True); connection.recv(1)')


# Accepts one client at once, if it shall know the channel, and the next one when it is told to.
ACCEPT_LATE = """
import pathlib, socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
for is_late in [False, True][sys.argv[3] == "unknown":]:
    while is_late and not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.005)
    connection = listener.accept()[0]
    got = b""
    while part := connection.recv(100): got += part
    connection.sendall(got)
    connection.close()
"""
SEND_EARLY = """
import pathlib, socket, sys, time
for is_early in [False, True][sys.argv[3] == "unknown":]:
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    connection.sendall(b"early, ")
    if sys.argv[4] == "half": connection.shutdown(socket.SHUT_WR)
    if is_early: print("sent", flush=True)
    while is_early and not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.005)
    if sys.argv[4] != "half":
        time.sleep(0.2 * (sys.argv[4] == "late"))
        connection.sendall(b"late")
        connection.shutdown(socket.SHUT_WR)
    print(connection.recv(100, socket.MSG_WAITALL), flush=True)
"""


@pytest.fixture
def harness():
    """A harness of the test's own: these tests end its control plane."""
    with Harness() as one:
        yield one


def start_server(harness: Harness) -> tuple[int, object]:
    """A server that answers clients one after the other."""
    port = kernel_view.free_port()
    program = harness.start(Side.HELIOSTAT, [sys.executable, "-c", SERVE_FOR_EVER, port], name="server")
    kernel_view.wait_listening(port, program.process)
    return port, program


def ask(harness: Harness, port: int, side: Side = Side.HELIOSTAT) -> str:
    """One client's whole conversation."""
    program = harness.run(side, [sys.executable, "-c", ASK_ONCE, port], name="client")
    return program.output().strip() or program.errors()


def end_control_plane(harness: Harness) -> None:
    """Kills the control plane and waits until it is gone."""
    pid = harness.control_plane()
    os.kill(pid, signal.SIGKILL)
    # Until then its socket takes connections, and whoever starts believes that one runs.
    kernel_view.wait_until(lambda: kernel_view.has_ended(pid), 60, "the control plane's end")


def test_open_transfer_is_whole_when_the_control_plane_is_killed(harness):
    programs = start_transfer(harness, Side.HELIOSTAT, 2)
    end_control_plane(harness)
    sent, taken = transfer_result(*programs)
    assert sent == taken and int(sent) > 0


def test_peer_killed_while_no_control_plane_runs_is_still_noticed(harness):
    pair = start_pair(harness, Side.HELIOSTAT, "accept", "recv", "epoll")
    end_control_plane(harness)
    pair.kill_victim(signal.SIGKILL)
    assert pair.survivor_ended()[0] in ("end", "ECONNRESET")


def test_server_answers_new_clients_while_no_control_plane_runs(harness):
    port, _ = start_server(harness)
    assert ask(harness, port) == "answered"
    end_control_plane(harness)
    assert ask(harness, port, Side.PLAIN) == "answered"


@pytest.mark.parametrize("goes_on", ["half", "at once", "late"])
@pytest.mark.parametrize("channel", ["known", "unknown"])
def test_what_was_sent_arrives_when_the_control_plane_is_killed_before_the_accept(harness, channel, goes_on):
    port, killed = kernel_view.free_port(), harness.folder / "killed"
    server = harness.start(Side.HELIOSTAT, [sys.executable, "-c", ACCEPT_LATE, port, killed, channel], name="server")
    kernel_view.wait_listening(port, server.process)
    words = [sys.executable, "-c", SEND_EARLY, port, killed, channel, goes_on]
    client = harness.start(Side.HELIOSTAT, words, name="client")
    kernel_view.wait_until(lambda: "sent" in client.output(), 20, "what is sent early")
    end_control_plane(harness)
    killed.touch()
    assert [client.wait(30), server.wait(30)] == [0, 0], client.errors() + server.errors()
    answer = repr(b"early, " if goes_on == "half" else b"early, late")
    assert client.output().split("sent\n") == [f"{answer}\n" * (channel == "known"), f"{answer}\n"]


def test_next_run_starts_a_new_control_plane_and_old_servers_answer(harness):
    port, _ = start_server(harness)
    old = harness.control_plane()
    end_control_plane(harness)
    assert ask(harness, port) == "answered"
    assert harness.control_plane() != old


def test_old_server_is_reached_directly_again_after_a_restart(harness):
    port, server = start_server(harness)
    assert ask(harness, port) == "answered"
    end_control_plane(harness)
    harness.call("run", "--", "/bin/true")
    kernel_view.wait_until(lambda: ask_and_look(harness, port, server.pid) == {"direct"}, 60, "direct again")


def ask_and_look(harness: Harness, port: int, server: int) -> set[str]:
    """The paths of the server's connections while one client holds one."""
    client = harness.start(Side.HELIOSTAT, [sys.executable, "-c", HOLD_ONE, port], name="client")
    try:
        kernel_view.wait_until(lambda: "answered" in client.output(), 60, "answered")
        try:
            return {one["path"] for one in harness.explain(server)}
        except RuntimeError:
            return set()
    finally:
        client.kill()
        client.process.wait()


def test_stopped_control_plane_delays_no_open_stream_and_lets_new_ones_work(harness):
    programs = start_transfer(harness, Side.HELIOSTAT, 2)
    port, _ = start_server(harness)
    pid = harness.control_plane()
    os.kill(pid, signal.SIGSTOP)
    try:
        sent, taken = transfer_result(*programs)
        assert sent == taken and int(sent) > 0
        assert ask(harness, port, Side.PLAIN) == "answered"
    finally:
        os.kill(pid, signal.SIGCONT)
    assert ask(harness, port) == "answered"


def test_program_starts_although_the_control_plane_is_stopped(harness):
    pid = harness.control_plane()
    os.kill(pid, signal.SIGSTOP)
    try:
        program = harness.run(Side.HELIOSTAT, ["echo", "hello"], seconds=60)
        assert program.output() == "hello\n"
    finally:
        os.kill(pid, signal.SIGCONT)


def test_stop_command_ends_the_control_plane_and_streams_go_on(harness):
    programs = start_transfer(harness, Side.HELIOSTAT, 2)
    pid = harness.control_plane()
    harness.call("stop")
    kernel_view.wait_until(lambda: pid not in harness.processes(), 60, "the control plane's end")
    sent, taken = transfer_result(*programs)
    assert sent == taken and int(sent) > 0
