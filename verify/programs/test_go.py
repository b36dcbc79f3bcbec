"""Go programs that are linked dynamically: native, since their runtime does not use libc, and told so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import Side
from real_programs import run_python

# Go builds its whole library where nothing of it is in the user's cache yet.
SECONDS = 900
pytestmark = [pytest.mark.heliostat, pytest.mark.timeout(SECONDS)]
CASES = Path(__file__).resolve().parent / "cases"
NATIVE = "it is a Go program, whose runtime makes system calls without libc"

CLIENT = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.sendall(b"to and fro" * 1000)
connection.shutdown(socket.SHUT_WR)
total = 0
while got := connection.recv(65536):
    total += len(got)
print(total)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """Built without a network."""
    go = shutil.which("go")
    assert go, "verify/setup.sh installs Go"
    folder = tmp_path_factory.mktemp("go")
    words = [go, "build", "-buildmode=pie", "-o", folder / "dynamic", CASES / "dynamic.go"]
    building = {"CGO_ENABLED": "1", "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
    subprocess.run(words, check=True, env={**os.environ, **building}, timeout=SECONDS)
    return folder / "dynamic"


def test_dynamic_go_works_and_says_that_it_is_native(harness, program):
    port = kernel_view.free_port()
    server = harness.start(Side.HELIOSTAT, [program, port])
    kernel_view.wait_listening(port, server.process)
    assert run_python(harness, Side.HELIOSTAT, CLIENT, port) == "10000\n"
    assert server.errors() == f"heliostat: {program} runs natively: {NATIVE}\n"
    explained = json.loads(harness.call("explain", str(server.pid), "--json"))
    assert explained["native_as_a_whole"] == "OwnCalls", explained
    assert explained["connections"] == [] and explained["counters"].get("direct_streams", 0) == 0


def test_dynamic_go_that_a_shell_starts_is_listed_as_native(harness, program):
    port = kernel_view.free_port()
    shell = harness.start(Side.HELIOSTAT, ["sh", "-c", f"{program} {port}; true"])
    kernel_view.wait_listening(port, shell.process)
    (child,) = kernel_view.children(shell.pid)
    explained = json.loads(harness.call("explain", str(child), "--json"))
    assert explained["native_as_a_whole"] == "OwnCalls", explained


def test_dynamic_go_is_not_run_where_the_direct_path_is_required(harness, program):
    port = kernel_view.free_port()
    refused = harness.run(Side.PLAIN, [*harness.command(Side.HELIOSTAT, [])[:2], "--require", "--", program, port])
    assert refused.process.returncode == 125 and refused.output() == ""
    assert refused.errors() == f"heliostat: {program} is not run: {NATIVE}\n"
