"""Programs with an io_uring: what its entries name leaves the direct path, everything else stays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import Harness, Program, Side

CASES = Path(__file__).resolve().parent / "cases"
GCC = "gcc -O2 -Wall -Wextra -Werror -Wno-unused-result -o".split()

# Sends back what it gets, one connection after the other has begun; says how each ended.
ECHO = """
import os, socket, sys, threading
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
def serve(connection):
    total, how = 0, "end"
    try:
        while got := connection.recv(65536):
            total += len(got)
            connection.sendall(got)
    except OSError as error:
        how = type(error).__name__
    os.write(1, f"{total} {how}\\n".encode())
    connection.close()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""

# What leaves by each form, of the three connections of the program: those that an entry names.
LEAVE = {
    **dict.fromkeys(["unnamed", "close", "close_epoll", "epoll_changed", "connect", "accept", "file"], 0),
    **dict.fromkeys(["send", "read", "vectors", "messages", "poll", "registered", "updated"], 1),
    **dict.fromkeys(["updated_by_call", "splice", "close_linked", "shutdown", "epoll_linked"], 1),
    **dict.fromkeys(["epoll_polled", "epoll_waited", "registered_ring", "given_memory", "forked", "restricted"], 1),
    # Nobody sees what such a ring is given: all leave, and later ones are native.
    **dict.fromkeys(["polled_by_kernel", "copied"], 2),
}
WHOLE = ("polled_by_kernel", "copied")
# Connections that entries make, native from their first byte on.
MADE = {"connect": 1, "accept": 1}


pytestmark = [
    pytest.mark.heliostat,
    pytest.mark.skipif(kernel_view.refuses_rings(), reason="io_uring is refused here, as by the default filters of containers"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    built = tmp_path_factory.mktemp("rings") / "rings"
    subprocess.run([*GCC, str(built), str(CASES / "rings.c")], check=True)
    return built


def start(harness: Harness, side: Side, program: Path, form: str) -> tuple[Program, Program]:
    """An echo server and the program in that form, which is done and waits for its input to end."""
    port = kernel_view.free_port()
    server = harness.start(side, [sys.executable, "-c", ECHO, port], name="echo")
    kernel_view.wait_listening(port, server.process)
    client = harness.start(side, [program, form, port], stdin=subprocess.PIPE)
    done = lambda: "over\n" in client.output() or client.process.poll() is not None  # noqa: E731
    kernel_view.wait_until(done, 45, f"the end of {form}")
    return server, client


def explain(harness: Harness, pid: int) -> dict:
    """All that the control plane says of a process."""
    return json.loads(harness.call("explain", str(pid), "--json"))


def transcript(server: Program, client: Program, connections: int) -> list[str]:
    """What the program printed, and how the server saw its connections end."""
    client.process.stdin.close()
    status = client.wait(60)
    ends = lambda: server.output().count("\n") >= connections  # noqa: E731
    kernel_view.wait_until(ends, 60, "the ends of the connections")
    return [*client.output().splitlines(), *client.errors().splitlines(), f"ended with {status}", *sorted(server.output().splitlines())]


@pytest.mark.parametrize("form", LEAVE)
def test_a_ring_moves_the_same_bytes_and_only_what_it_names_leaves(harness, program, form):
    connections = 4 if form == "connect" else 3
    server, client = start(harness, Side.PLAIN, program, form)
    plain = transcript(server, client, connections)
    server, client = start(harness, Side.HELIOSTAT, program, form)
    explained = explain(harness, client.pid)
    assert transcript(server, client, connections) == plain
    counted = explained["counters"]
    begun = 2 if form in WHOLE else 3
    assert counted.get("direct_streams", 0) == begun, explained
    assert counted.get("demoted_streams", 0) == LEAVE[form], explained
    made = MADE.get(form, 0) + (1 if form in WHOLE else 0)
    # The other end of an accepted connection is this program's own, and says what it has been told.
    made += 1 if form == "accept" else 0
    assert counted.get("native_connections", 0) == made, explained


# What leaves by each form of the program that uses liburing, which makes its system calls by itself:
# of its own connections, and those that are the kernel's from their first byte on.
BY_LIBRARY = {"moved": (2, 1, 0), "connected": (1, 0, 1), "polled": (2, 1, 0), "multishot": (2, 1, 0), "file": (2, 0, 0)}


@pytest.fixture(scope="module")
def by_library(tmp_path_factory) -> Path:
    built = tmp_path_factory.mktemp("rings") / "rings_library"
    subprocess.run([*GCC, str(built), str(CASES / "rings_library.c"), "-luring"], check=True)
    return built


@pytest.mark.parametrize("form", BY_LIBRARY)
def test_a_ring_of_a_library_with_its_own_system_calls_is_seen_as_any(harness, by_library, form):
    server, client = start(harness, Side.PLAIN, by_library, form)
    plain = transcript(server, client, 2)
    server, client = start(harness, Side.HELIOSTAT, by_library, form)
    explained = explain(harness, client.pid)
    assert transcript(server, client, 2) == plain
    counted = explained["counters"]
    found = [counted.get(name, 0) for name in ("direct_streams", "demoted_streams", "native_connections")]
    assert tuple(found) == BY_LIBRARY[form], explained


def test_a_library_that_accepts_by_its_own_system_calls_serves_what_the_kernel_would(harness, by_library):
    server, client = start(harness, Side.PLAIN, by_library, "accepted")
    plain = transcript(server, client, 1)
    server, client = start(harness, Side.HELIOSTAT, by_library, "accepted")
    explained = explain(harness, client.pid)
    assert transcript(server, client, 1) == plain
    # The connection that no entry names; of the others some begin as direct and leave.
    counted = explained["counters"]
    assert counted.get("direct_streams", 0) - counted.get("demoted_streams", 0) == 1, explained
