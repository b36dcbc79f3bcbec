"""Starting the real servers that the tests drive: redis, memcached and a file server.

nginx has a module of its own (nginx_server.py), because the benchmarks need its configuration.
"""

from __future__ import annotations

import sys
from pathlib import Path

import kernel_view
from heliostat_run import Harness, Program, Side

MODES = {
    "plain": (Side.PLAIN, Side.PLAIN),
    "both": (Side.HELIOSTAT, Side.HELIOSTAT),
    "server": (Side.HELIOSTAT, Side.PLAIN),
    "client": (Side.PLAIN, Side.HELIOSTAT),
}


def start_redis(harness: Harness, side: Side, *options: str) -> tuple[int, Program]:
    """An unmodified redis-server without persistence; its port and program."""
    port = kernel_view.free_port()
    words = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
             "--dir", harness.folder, "--dbfilename", f"{port}.rdb", *options]  # fmt: skip
    program = harness.start(side, words)
    kernel_view.wait_listening(port, program.process)
    return port, program


def start_memcached(harness: Harness, side: Side, threads: int) -> tuple[int, Program]:
    """An unmodified memcached with so many threads."""
    port = kernel_view.free_port()
    words = ["memcached", "-l", "127.0.0.1", "-p", port, "-U", "0", "-t", threads, "-u", "root"]
    program = harness.start(side, words)
    kernel_view.wait_listening(port, program.process)
    return port, program


def start_http_server(harness: Harness, side: Side, files: Path) -> tuple[int, Program]:
    """Python's own http.server over a folder."""
    port = kernel_view.free_port()
    words = [sys.executable, "-m", "http.server", port, "--bind", "127.0.0.1", "--directory", files]
    program = harness.start(side, words, name="http.server")
    kernel_view.wait_listening(port, program.process)
    return port, program


def run_python(harness: Harness, side: Side, code: str, *words, seconds: float = 60) -> str:
    """Runs a piece of Python as a program and returns what it printed; raises when it fails."""
    return run_checked(harness, side, [sys.executable, "-c", code, *words], seconds)


def run_checked(harness: Harness, side: Side, argv: list, seconds: float = 60, **more) -> str:
    """Runs a program and returns what it printed; raises with its errors when it fails."""
    program = harness.run(side, argv, seconds=seconds, **more)
    if program.process.returncode != 0:
        raise AssertionError(
            f"{argv} ended with {program.process.returncode}\n{program.output()[-1500:]}\n{program.errors()[-1500:]}"
        )
    return program.output()
