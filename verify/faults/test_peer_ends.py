"""A peer that is killed, exits or becomes another program: its end looks as TCP's would have.

Plain Linux on both sides gives the reference: what recv, send, poll, epoll and SO_ERROR show, by
what the peer was in the middle of, whether it left bytes unread, and who had half-closed.
"""

from __future__ import annotations

import difflib
import signal
import sys

import kernel_view
import pytest
from fault_pairs import HERE
from heliostat_run import Harness, Side

ENDS = {"killed": signal.SIGKILL, "exits": signal.SIGUSR1, "execs": signal.SIGUSR2}


def transcript(harness: Harness, side: Side, role: str, does: str, ends: str) -> list[str]:
    """What the survivor prints; `role` is the victim's."""
    folder = harness.folder / f"ends-{len(harness.programs)}"
    folder.mkdir()
    port = kernel_view.free_port()
    does_of = {"accept": "survive", "connect": "survive", role: does}
    started = {}
    for one in ("accept", "connect"):
        words = [sys.executable, HERE / "peer_ends.py", one, port, folder, does_of[one]]
        started[one] = harness.start(side, words, name=one)
        if one == "accept":
            kernel_view.wait_listening(port, started[one].process)
    victim = started[role]
    survivor = started["connect" if role == "accept" else "accept"]
    kernel_view.wait_until(lambda: "ready" in survivor.output(), 60, "survivor ready")
    kernel_view.wait_until(lambda: "taken" in victim.output(), what="the victim to have read what it reads")
    # Who waits has gone to sleep in it.
    kernel_view.wait_asleep(survivor.pid)
    if does != "busy":
        kernel_view.wait_asleep(victim.pid)
    victim.process.send_signal(ENDS[ends])
    if ends == "execs":
        kernel_view.wait_until(lambda: kernel_view.command_name(victim.pid) == "sleep", 60, "the other program")
    else:
        victim.wait(60)
    if side is Side.HELIOSTAT:
        harness.status()  # the control plane has seen it too
    (folder / "gone").touch()
    assert survivor.wait(60) == 0, survivor.errors()
    victim.kill()
    return survivor.output().splitlines()


@pytest.mark.heliostat
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("does", ["recv", "epoll", "poll", "busy"])
@pytest.mark.parametrize("role", ["accept", "connect"])
def test_end_of_a_peer_looks_as_under_plain_linux(harness, role, does, ends):
    plain = transcript(harness, Side.PLAIN, role, does, ends)
    assert len(plain) > 60
    found = transcript(harness, Side.HELIOSTAT, role, does, ends)
    assert found == plain, "\n" + "\n".join(difflib.unified_diff(plain, found, "plain", "heliostat", lineterm="", n=0))


NODE_SERVER = """
let ends = 0;
require('net').createServer(connection => {
  connection.on('data', bytes => { connection.write(bytes); });
  connection.on('end', () => { console.log('end', ++ends); });
}).listen(Number(process.argv[1]), '127.0.0.1');
"""
NODE_CLIENT = """
let asked = 0;
const connection = require('net').connect(Number(process.argv[1]), '127.0.0.1', () => connection.write('0'));
connection.on('data', () => { if (++asked < 20) setTimeout(() => connection.write('x'), 5); else console.log('idle'); });
"""


@pytest.mark.heliostat
def test_node_server_lives_on_when_a_client_is_killed(harness):
    port = kernel_view.free_port()
    server = harness.start(Side.HELIOSTAT, ["node", "-e", NODE_SERVER, port])
    kernel_view.wait_listening(port, server.process)
    for number in (1, 2):
        client = harness.start(Side.HELIOSTAT, ["node", "-e", NODE_CLIENT, port])
        kernel_view.wait_until(lambda: "idle" in client.output(), 60, "the client's answers")
        client.process.send_signal(signal.SIGKILL)
        client.process.wait()
        kernel_view.wait_until(lambda: f"end {number}" in server.output() or server.process.poll(), 60, "the end")
    assert server.process.poll() is None, server.errors()
    assert server.output().splitlines() == ["end 1", "end 2"]
