"""Sealed programs work where default Docker and Kubernetes run them, and as an ordinary user.

A quick part of what the sealed suite shows, in each setting; `make test-container` and `make test-user`
run the whole of it there. One program goes through everything, and what it prints is the same everywhere.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import tomllib
from pathlib import Path

import crates
import pytest
from heliostat_run import BINARY, ROOT

pytestmark = pytest.mark.heliostat

HERE = Path(__file__).resolve().parent
CONTAINER, PROGRAM = HERE / "container.py", HERE / "program.py"
ORDINARY = 1000
SETTINGS = {
    "root in a container": [],
    "root in a container that may nest": ["--namespaces"],
    "user in a container": ["--user", str(ORDINARY)],
    "user": ["--plain", "--user", str(ORDINARY)],
}
SECONDS = 200
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")


class Server:
    """A TCP listener that answers each connection with what it says first, until it ends."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            while said := connection.recv(99):
                connection.sendall(said)


def run(setting: str, folder: Path, command: list[str]) -> subprocess.CompletedProcess:
    """Runs a command in a setting, in a folder that belongs to its user."""
    flags = SETTINGS[setting]
    os.chown(folder, ORDINARY if "--user" in flags else 0, -1)
    temporary = Path(tempfile.gettempdir())
    for above in (folder, *folder.parents):
        if above != temporary and above.is_relative_to(temporary):
            above.chmod(0o755)
    surroundings = dict(os.environ, HOME=str(folder), HELIOSTAT_SOCKET=str(folder / "control.sock"))
    whole = [sys.executable, str(CONTAINER), *flags, "--", *command]
    return subprocess.run(whole, capture_output=True, text=True, cwd=folder, env=surroundings, timeout=SECONDS)


@needs_root
@pytest.mark.parametrize("stub", [True, False], ids=["stub", "static"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_sealed_program_has_its_files_and_its_network(setting, stub, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    os.chown(work, ORDINARY if "--user" in SETTINGS[setting] else 0, -1)
    server, ports = Server(), free_ports(2)
    grants = ["--grant", f"{work}:rw", "--grant", str(PROGRAM), "--connect", f"127.0.0.1:{server.port}"]
    listens = [word for port in ports for word in ("--listen", f"127.0.0.1:{port}", "--connect", f"127.0.0.1:{port}")]
    without = [] if stub else ["env", "HELIOSTAT_STUB=/nonexistent"]
    command = [*without, str(BINARY), "run", "--sealed", *grants, *listens, "--", "/usr/bin/python3", str(PROGRAM)]
    done = run(setting, tmp_path, [*command, str(work), str(server.port), *map(str, ports)])
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    failed = {name: how for name, how in said.items() if how != "done"}
    assert done.returncode == 0 and len(said) >= 20 and failed == {}, (failed, done.stderr)


@needs_root
def test_a_program_of_roots_that_may_not_be_looked_into_becomes_no_other_user_and_words_say_why(tmp_path):
    words = [str(BINARY), "run", "--sealed", "--user", "www-data", "--", "/bin/true"]
    done = run("root in a container", tmp_path, words)
    assert done.returncode == 125 and "with CAP_SYS_PTRACE only" in done.stderr, done


@needs_root
def test_doctor_says_what_a_container_refuses_by_its_effect(tmp_path):
    done = run("user in a container", tmp_path, [str(BINARY), "doctor", "--json", "--for", "sealed"])
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert "made by the supervisor" in checks["pidfd_getfd"]["advice"], checks["pidfd_getfd"]
    assert done.returncode == 0, "sealed programs work there"


def test_the_crates_whose_tests_run_in_containers_are_in_the_workspace():
    members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    manifests = [path / "Cargo.toml" for member in members for path in ROOT.glob(member)]
    assert set(crates.CRATES) <= {tomllib.loads(path.read_text())["package"]["name"] for path in manifests}


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at just now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports
