"""A thousand, four thousand and ten thousand connections at once, and bytes on all of them."""

from __future__ import annotations

import pytest
from case_run import HERE, PYTHON, CaseRun

CASES = {
    "of_1000": (1000, 1),
    "of_4000": (4000, 1),
    # Beyond the limit on one client's connections to one address.
    "of_10000": (10000, 1),
    "of_10000_by_four_clients": (10000, 4),
}
DESCRIPTORS = 12000


@pytest.mark.parametrize("name", CASES)
def test_every_connection_gets_its_own_bytes_back(compare, name):
    compare(f"connections.{name}", lambda case: exchange(case, *CASES[name]))


def exchange(case: CaseRun, count: int, processes: int) -> str:
    port, many = case.port(), ["prlimit", f"--nofile={DESCRIPTORS}:", PYTHON, HERE / "programs/many.py"]
    case.serve(port, [*many, "server", port])
    client = case.start([*many, "client", port, count, processes])
    for process in range(processes):
        case.await_mark(f"connected-{process}", client)
    case.look("client", port, at_least=count)
    case.check_counted()
    case.mark("looked")
    return case.finish(client)
