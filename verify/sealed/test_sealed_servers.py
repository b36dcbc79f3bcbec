"""nginx and redis sealed with one port each: clients outside see nothing of it, other ports are shut."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import kernel_view
import nginx_server
import pytest
from heliostat_run import Harness, Program, Side
from real_programs import run_checked
from ways import Case, Way, outcome, start

pytestmark = pytest.mark.heliostat


def redis(harness: Harness, port: int, granted: int, name: str = "redis") -> tuple[Program, Path]:
    """A sealed redis-server that keeps its data in its folder."""
    words = ("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", ".", "--save", "", "--appendonly", "yes")
    return start(harness, Way.SEALED, Case(words, flags=("--listen", f"127.0.0.1:{granted}")), name)


def test_redis_serves_clients_outside_and_keeps_its_data(harness):
    port = kernel_view.free_port()
    program, folder = redis(harness, port, port)
    kernel_view.wait_listening(port, program.process)
    cli = ["redis-cli", "-p", port]
    assert run_checked(harness, Side.PLAIN, [*cli, "SET", "a", "1"]) == "OK\n"
    run_checked(
        harness, Side.PLAIN, ["redis-benchmark", "-p", port, "-n", "3000", "-c", "20", "-t", "set,get,lpush", "-q"]
    )
    assert "Background saving started" in run_checked(harness, Side.PLAIN, [*cli, "BGSAVE"])
    kernel_view.wait_until((folder / "dump.rdb").exists, 60, "dump.rdb")
    assert run_checked(harness, Side.PLAIN, [*cli, "GET", "a"]) == "1\n"
    harness.run(Side.PLAIN, [*cli, "SHUTDOWN", "NOSAVE"])
    assert program.wait(60) == 0
    assert list((folder / "appendonlydir").iterdir())


def test_redis_cannot_listen_on_a_port_that_is_not_granted(harness):
    port, other = kernel_view.free_port(), kernel_view.free_port()
    program, _ = redis(harness, other, port, "redis-refused")
    assert program.wait(60) != 0
    assert other not in kernel_view.listening_ports()


def nginx(harness: Harness, folder: Path, port: int) -> Program:
    """A sealed nginx with two workers over files that it may only read."""
    nginx_server.write_files(folder, 1 << 20)
    (folder / "state").mkdir()
    text = nginx_server.CONFIGURATION.format(folder=folder / "state", port=port, workers=2, master="on", reuseport="")
    if os.geteuid() != 0:
        text = text.replace("user root;\n", "")
    text = text.replace(f"root {folder}/state/files", f"root {folder}/files")
    (folder / "nginx.conf").write_text(text)
    words = (
        nginx_server.nginx_binary(),
        "-c",
        folder / "nginx.conf",
        "-p",
        folder / "state",
        "-e",
        folder / "state/error.log",
    )
    grants = (f"{folder / 'files'}:ro", f"{folder / 'nginx.conf'}:ro", f"{folder / 'state'}:rw")
    program, _ = start(harness, Way.SEALED, Case(words, grants, ("--listen", f"127.0.0.1:{port}")), "nginx")
    kernel_view.wait_listening(port, program.process)
    return program


def test_nginx_serves_its_files_to_clients_outside_and_nothing_else(harness, tmp_path):
    port = kernel_view.free_port()
    program = nginx(harness, tmp_path, port)
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "files/leak").symlink_to(tmp_path / "secret")
    address = f"http://127.0.0.1:{port}"
    curl = lambda path, *more: subprocess.run(["curl", "-sS", *more, f"{address}/{path}"], capture_output=True).stdout  # noqa: E731
    assert curl("small.txt") == nginx_server.SMALL
    assert curl("large.bin") == (tmp_path / "files/large.bin").read_bytes()
    assert curl("none", "-o", "/dev/null", "-w", "%{http_code}") == b"404"
    assert curl("leak", "-o", "/dev/null", "-w", "%{http_code}") in (b"403", b"404")
    assert b"Failed requests" not in curl("fixed") and curl("fixed") == b"fixed\n"
    program.kill(15)
    assert program.wait(60) in (0, -15)
    kernel_view.wait_until(lambda: port not in kernel_view.listening_ports(), 60, "the end of nginx")


def test_client_reaches_the_granted_server_and_no_other(harness):
    granted, other = kernel_view.free_port(), kernel_view.free_port()
    for port in (granted, other):
        harness.start(Side.PLAIN, ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", ""])
        kernel_view.wait_listening(port)
    flags = ("--connect", f"127.0.0.1:{granted}")
    asked = lambda port: outcome(harness, Way.SEALED, Case(("redis-cli", "-p", port, "PING"), flags=flags), "client")  # noqa: E731
    assert asked(granted).output == ["PONG"]
    assert "PONG" not in asked(other).output
    assert asked(other).status != 0
