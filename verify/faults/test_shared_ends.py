"""A process ends, and one that it forked goes on holding its connections: what they are sent is theirs."""

from __future__ import annotations

import sys

import kernel_view
import pytest
from fault_pairs import HERE
from heliostat_run import Harness, Side


def conversation(harness: Harness, side: Side, how: str) -> list[str]:
    """What the acceptor's child printed."""
    folder = harness.folder / f"shared-{len(harness.programs)}"
    folder.mkdir()
    port = kernel_view.free_port()
    words = lambda role: [sys.executable, HERE / "shared_ends.py", role, port, folder, how]  # noqa: E731
    server = harness.start(side, words("accept"), name="accept")
    kernel_view.wait_listening(port, server.process)
    client = harness.start(side, words("connect"), name="connect")
    server.wait(30)
    if side is Side.HELIOSTAT:
        harness.status()  # the control plane has seen it too
    (folder / "gone").touch()
    assert client.wait(30) == 0, client.errors()
    kernel_view.wait_until(lambda: "child" in server.output() or server.errors(), 30, "the child's words")
    server.kill()
    assert server.errors() == ""
    return server.output().splitlines()


@pytest.mark.heliostat
@pytest.mark.parametrize("how", ["exits", "closes and exits", "execs"])
def test_child_reads_what_came_before_its_parent_ended(harness, how):
    plain = conversation(harness, Side.PLAIN, how)
    assert plain == ["child True [b'other 0', b'other 1', b'other 2']"]
    assert conversation(harness, Side.HELIOSTAT, how) == plain
