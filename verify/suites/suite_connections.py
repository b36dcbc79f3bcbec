"""A thousand, four thousand and ten thousand connections at once, and bytes on all of them."""

from __future__ import annotations

import pytest
from stage import HERE, PYTHON, Stage

CASES = {
    "of_1000": (1000, 1),
    "of_4000": (4000, 1),
    # Beyond the limit on one client's connections to one address.
    "of_10000": (10000, 1),
    "of_10000_by_four_clients": (10000, 4),
}
DESCRIPTORS = 12000


@pytest.mark.parametrize("name", CASES)
def test_every_connection_gets_its_own_bytes_back(play, name):
    play(f"connections.{name}", lambda stage: exchange(stage, *CASES[name]))


def exchange(stage: Stage, count: int, processes: int) -> str:
    port, many = stage.port(), ["prlimit", f"--nofile={DESCRIPTORS}:", PYTHON, HERE / "programs/many.py"]
    stage.serve(port, [*many, "server", port])
    client = stage.start([*many, "client", port, count, processes])
    for process in range(processes):
        stage.await_mark(f"connected-{process}", client)
    stage.look("client", port, at_least=count)
    stage.check_counted()
    stage.mark("looked")
    return stage.finish(client)
