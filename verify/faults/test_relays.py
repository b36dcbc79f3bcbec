"""A relay costs nothing while nothing moves, whoever of its two sides has closed, and ends with them.

What is measured is the processor time of the relay's process over a while in which nobody does
anything: a wait that is ended by what is already known uses up all of it.
"""

from __future__ import annotations

import re
import signal
import socket
import sys

import kernel_view
import pytest
from fault_pairs import HERE
from heliostat_run import Harness, Program, Side

pytestmark = pytest.mark.heliostat

# What the program does with its new descriptor, and what becomes of the client meanwhile.
DOES = ["waits", "reads", "closes", "half", "reads+closes", "reads+half", "floods", "floods+closes", "ends", "floods+ends"]
CLIENTS = ["stopped", "killed", "closes"]


def start_relayed(harness: Harness, does: str, client_does: str) -> tuple[Program, Program, int]:
    """(program, client, relay) once the program has become another one beside a stopped client."""
    folder = harness.folder / f"relayed-{len(harness.programs)}"
    folder.mkdir()
    port, script = kernel_view.free_port(), HERE / "relayed.py"
    server = harness.start(Side.HELIOSTAT, [sys.executable, script, "server", port, folder, does], name="server")
    kernel_view.wait_listening(port, server.process)
    client = harness.start(Side.HELIOSTAT, [sys.executable, script, "client", port, folder, client_does], name="client")
    kernel_view.wait_until(lambda: "said" in client.output(), 60, "said")
    before = set(harness.processes())
    client.process.send_signal(signal.SIGSTOP)
    (folder / "exec").touch()
    kernel_view.wait_until(lambda: "after" in server.output(), 60, "after")
    relays = [pid for pid in set(harness.processes()) - before if kernel_view.command_name(pid)]
    assert len(relays) == 1, relays
    if client_does == "killed":
        client.process.send_signal(signal.SIGKILL)
    if client_does == "closes":
        (folder / "client").touch()
        client.process.send_signal(signal.SIGCONT)
    (folder / "go").touch()
    if "ends" in does:
        server.wait(60)
    else:
        kernel_view.wait_until(lambda: "done" in server.output(), 60, "done")
    return server, client, relays[0]


@pytest.mark.parametrize("client_does", CLIENTS)
@pytest.mark.parametrize("does", DOES)
def test_relay_sleeps_or_ends_when_a_side_is_through(harness, does, client_does):
    server, client, relay = start_relayed(harness, does, client_does)
    try:
        assert kernel_view.comes_to_rest(relay)
    finally:
        client.kill()
        server.kill()
    kernel_view.wait_until(lambda: not kernel_view.command_name(relay), 60, "the relay's end")


def test_program_behind_a_relay_has_a_tcp_connection_with_its_addresses_and_options(harness):
    server, client, _ = start_relayed(harness, "reads", "stopped")
    said = client.output().split("said ")[1].strip()
    own, peer = said.split(") (")
    names = f"({peer} {own})"
    after = next(line for line in server.output().splitlines() if line.startswith("after"))
    found = named(after, f"after {socket.AF_INET} {names} 1 1 77 {socket.SOCK_STREAM:d} {socket.IPPROTO_TCP:d}")
    assert found[0] == found[1]
    client.kill()
    server.kill()


def named(*lines: str) -> list[str]:
    """Lines with their ports left out where no network namespace may be made (docs/decisions/relay.md)."""
    return list(lines) if kernel_view.makes_networks() else [re.sub(r"', \d+\)", "')", line) for line in lines]


def test_bytes_left_in_the_ring_reach_the_program_through_the_relay(harness):
    server, client, _ = start_relayed(harness, "reads", "stopped")
    assert "4999" in server.output()
    client.kill()
    server.kill()
