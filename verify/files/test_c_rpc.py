"""Functions from C: the example serves and calls, plainly and under Valgrind, with a live control plane."""

from __future__ import annotations

import json
import shutil
import signal

import kernel_view
import pytest
from heliostat_run import Harness, Side
from test_c_delegated import compiled

pytestmark = pytest.mark.heliostat
NAME = "example/upper"


def servers(harness: Harness) -> list[int]:
    """How many serve the function; none where nobody does."""
    return [one["servers"] for one in json.loads(harness.call("rpc", "list", NAME, "--json"))]


@pytest.mark.parametrize("before", [[], ["valgrind", "-q", "--error-exitcode=9"]])
def test_a_c_program_calls_what_another_one_serves(before, tmp_path_factory):
    if before and shutil.which("valgrind") is None:
        pytest.skip("no valgrind")
    program = compiled("rpc", tmp_path_factory)
    with Harness() as harness:
        harness.call("start")
        nobody = harness.run(Side.PLAIN, [program, "call", "hello"], seconds=60)
        assert nobody.process.returncode == 1 and nobody.errors().startswith("find: "), nobody.errors()
        first, second = (harness.start(Side.PLAIN, [*before, program, "serve"], name=f"serve{at}") for at in (1, 2))
        kernel_view.wait_until(lambda: servers(harness) == [2], 60, "both serve")
        for text in ("hello", "", "x" * 256):
            called = harness.run(Side.PLAIN, [*before, program, "call", text], seconds=60)
            assert (called.process.returncode, called.output()) == (0, f"{text.upper()}\n"), called.errors()
        several = harness.run(Side.PLAIN, [*before, program, "all", "hello"], seconds=60)
        assert several.output() == "HELLO\n" * 3 + "ended\n", several.errors()
        long = harness.run(Side.PLAIN, [program, "call", "x" * 257], seconds=60)
        assert long.process.returncode == 1 and long.errors().startswith("not done: "), long.errors()
        first.process.send_signal(signal.SIGKILL)
        kernel_view.wait_until(lambda: servers(harness) == [1], 60, "one serves")
        called = harness.run(Side.PLAIN, [*before, program, "call", "again"], seconds=60)
        assert called.output() == "AGAIN\n", called.errors()
        assert second.process.poll() is None and second.errors() == ""
