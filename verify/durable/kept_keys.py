"""What a plain server reads from the files that a killed one has left."""

from __future__ import annotations

import re
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

import kernel_view
from heliostat_run import BINARY, Harness, Program, Side
from redis_load import command, key_of, value_of

# A last batch that the kill has cut off within its write(2) is never longer.
TORN_BYTES_MAX = 1 << 16


@dataclass
class Kind:
    """Redis, or a program that took it over: where it is, and what checks its files."""

    name: str
    server: str
    check: str

    def start(
        self, harness: Harness, side: Side, folder: Path, log: Path | str | None = None, store: Path | None = None
    ) -> tuple[int, Program]:
        """A server that keeps every write, over the files in `folder`; its port. Under Heliostat it is durable.

        A control plane that is started for it has the store."""
        port = kernel_view.free_port()
        words = [self.server, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes",
                 "--appendfsync", "always", "--dir", folder]  # fmt: skip
        if side is Side.HELIOSTAT:
            by_log = ["--log", log] if log else []
            words = [BINARY, "run", "--durable", "*.aof", *by_log, "--", *words]
        env = {"HELIOSTAT_STORE": str(store)} if store else {}
        program = harness.start(Side.PLAIN, words, name=self.name, env=env)
        try:
            kernel_view.wait_listening(port, program.process)
        except (RuntimeError, TimeoutError) as error:
            raise RuntimeError(f"{error}\n{program.output()[-2000:]}{program.errors()[-2000:]}") from None
        return port, program

    def torn_bytes(self, folder: Path) -> int:
        """How many bytes the last write has too few, as the program's own check says; raises for any other flaw."""
        # Not by the manifest at once: Valkey's check does not know the beginning of its own base file.
        [manifest] = folder.glob("appendonlydir/appendonly.aof.manifest")
        logs = re.findall(r"^file (\S+) seq \d+ type i", manifest.read_text(), re.MULTILINE)
        return sum(self.torn_bytes_of(manifest.with_name(log)) for log in logs)

    def torn_bytes_of(self, log: Path) -> int:
        checked = subprocess.run([self.check, log], capture_output=True, text=True, timeout=120, check=False)
        said = checked.stdout + checked.stderr
        if re.search(r"is (valid|empty)$", said.strip()):
            return 0
        torn = re.search(r"ok_up_to=\d+, ok_up_to_line=\d+, diff=(\d+)", said)
        if torn is None or not 0 < int(torn[1]) < TORN_BYTES_MAX:
            raise AssertionError(said)
        return int(torn[1])


def ask(port: int, *requests: bytes) -> list[bytes]:
    """The answers of a server to simple requests, each a bulk string, a status or a number."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        with connection.makefile("rb") as answers:
            connection.sendall(b"".join(requests))
            return [one_answer(answers) for _ in requests]


def one_answer(answers) -> bytes:
    line = answers.readline()
    if line[:1] != b"$":
        return line[:-2]
    length = int(line[1:])
    return b"" if length < 0 else answers.read(length + 2)[:-2]


def wait_loaded(port: int) -> None:
    """Waits until a server has read its files."""
    kernel_view.wait_until(lambda: ask(port, command(b"PING")) == [b"+PONG"], 120, "the files read")


def lost_keys(port: int, numbers: list[int], at_once: int = 500) -> list[int]:
    """Those whose key is not there, or holds something else."""
    lost = []
    for first in range(0, len(numbers), at_once):
        some = numbers[first : first + at_once]
        found = ask(port, *(command(b"GET", key_of(number)) for number in some))
        lost += [number for number, value in zip(some, found) if value != value_of(number)]
    return lost
