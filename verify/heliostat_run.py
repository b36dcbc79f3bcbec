"""Runs programs with or without Heliostat, each run against a control plane of its own.

A `Harness` is one private control plane: its socket lies in a fresh folder, so that neither
the user's own control plane nor a second test run is disturbed, and closing the harness ends
every process that was started in it. A `Side` says whether one end of a connection runs
under Heliostat or plainly. `--plain` harnesses never start a control plane.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import kernel_view

ROOT = Path(__file__).resolve().parents[1]
BINARY = Path(os.environ.get("HELIOSTAT_BIN", ROOT / "target/release/heliostat"))
CONTROL_PLANE = "heliostatd"
# HELIOSTAT_BIN where the programs under test are in a container, and the tests outside it.
CONTAINED = ROOT / "verify/container/heliostat"
# Where libraries and programs lie that were built beside those under test.
BUILT = ROOT / "target/release" if BINARY == CONTAINED else BINARY.parent
# Every user may run it, in every container.
SYSTEM = "/usr/bin/python3"
# linux/capability.h.
CAP_SYS_PTRACE = 19
# asm/unistd_64.h.
PIDFD_GETFD = 438


class Side(Enum):
    """How one end of a connection is run."""

    PLAIN = "plain"
    HELIOSTAT = "heliostat"


class Way(Enum):
    """How a whole program is run."""

    PLAIN = "plain"
    UNSEALED = "unsealed"
    SEALED = "sealed"


@dataclass
class Program:
    """A started program, with what it wrote to its standard output and error."""

    name: str
    process: subprocess.Popen
    stdout: Path
    stderr: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def output(self) -> str:
        return self.stdout.read_text(errors="replace")

    def errors(self) -> str:
        return self.stderr.read_text(errors="replace")

    def wait(self, seconds: float = 60.0) -> int:
        """The exit status; a watchdog kills the program when it hangs, and says so."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(
                f"{self.name} did not end within {seconds} s\n{self.output()[-2000:]}\n{self.errors()[-2000:]}"
            ) from None

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends a signal to the program's whole process group; no error when it is gone."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            # Gone, and the number may be somebody else's by now.
            pass


@dataclass
class Harness:
    """A private control plane and everything started under it."""

    plain: bool = False
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="helio-")))
    programs: list[Program] = field(default_factory=list)
    # The control plane's configuration; the defaults hold where it is empty.
    configuration: str = ""

    def __enter__(self) -> Harness:
        if not self.plain:
            if not BINARY.exists():
                raise FileNotFoundError(f"{BINARY}: run `make build`, or pass --plain")
            self.call("run", *self.configured(), "--", "/bin/true")
        return self

    def configured(self) -> list[str]:
        """The words that hand the configuration to the control plane that is started."""
        if not self.configuration:
            return []
        path = self.folder / "heliostat.toml"
        path.write_text(self.configuration)
        return ["--config", str(path)]

    def __exit__(self, *_) -> None:
        for program in self.programs:
            program.kill()
            program.process.wait()
        for pid in self.processes():
            _kill(pid)
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self) -> dict[str, str]:
        """The caller's environment with the control plane's places moved into the harness."""
        here = str(self.folder)
        moved = {"XDG_RUNTIME_DIR": here, "HELIOSTAT_SOCKET": f"{here}/control.sock"}
        return {**os.environ, **moved, "HELIOSTAT_HARNESS": here}

    def command(self, side: Side, argv: list[str]) -> list[str]:
        """`argv` as it is, or with `heliostat run --` before it."""
        prefix = [str(BINARY), "run", "--"] if side is Side.HELIOSTAT else []
        return prefix + [str(word) for word in argv]

    def start(self, side: Side, argv: list[str], name: str = "", core: int | None = None, **more) -> Program:
        """Starts a program in its own process group, its output kept in files.

        The program dies with this process (setpriv), so that a suite which is itself killed
        leaves nothing running.
        """
        name = name or Path(str(argv[0])).name
        stem = self.folder / f"{len(self.programs):03}-{name}"
        stdout, stderr = stem.with_suffix(".out"), stem.with_suffix(".err")
        # A session of its own is a scheduling group of its own too, where the kernel has autogroups.
        apart = {"start_new_session": True} if more.pop("session", True) else {"process_group": 0}
        pin = ["taskset", "-c", str(core)] if core is not None else []
        environment = {**self.environment(), **more.pop("env", {})}
        with open(stdout, "wb") as out, open(stderr, "wb") as err:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *pin, *self.command(side, argv)],
                stdin=more.pop("stdin", subprocess.DEVNULL),
                stdout=out,
                stderr=err,
                env=environment,
                **apart,
                **more,
            )
        program = Program(name, process, stdout, stderr)
        self.programs.append(program)
        return program

    def run(self, side: Side, argv: list[str], seconds: float = 60.0, **more) -> Program:
        """Starts a program and waits for its end."""
        program = self.start(side, argv, **more)
        program.wait(seconds)
        return program

    def call(self, *words: str) -> str:
        """Runs one `heliostat` command and returns what it printed; raises when it fails."""
        answer = subprocess.run(
            [str(BINARY), *words], env=self.environment(), capture_output=True, text=True, timeout=60
        )
        if answer.returncode != 0:
            raise RuntimeError(f"heliostat {' '.join(words)}: {answer.returncode}\n{answer.stdout}{answer.stderr}")
        return answer.stdout

    def status(self) -> dict:
        """What the control plane says of itself."""
        return json.loads(self.call("status", "--json"))

    def explain(self, pid: int) -> list[dict]:
        """Every connection of a process: local, peer, path, bytes and the reason if native."""
        answer = json.loads(self.call("explain", str(pid), "--json"))
        return answer["connections"] if isinstance(answer, dict) else answer

    def processes(self) -> list[int]:
        """Every process that was started in this harness and is still there."""
        here = str(self.folder)
        return [
            pid
            for pid in kernel_view.processes()
            if pid != os.getpid() and kernel_view.environment(pid).get("HELIOSTAT_HARNESS") == here
        ]

    def control_plane(self) -> int:
        """The process id of the control plane of this harness."""
        found = [pid for pid in self.processes() if kernel_view.command_name(pid) == CONTROL_PLANE]
        if len(found) != 1:
            raise RuntimeError(f"{len(found)} control planes in {self.folder}")
        return found[0]


def doctor(*before: str) -> dict[str, dict]:
    """What `heliostat doctor` finds, by the names of its checks; run by what the words before it make of it."""
    words = [*before, str(BINARY), "doctor", "--json"]
    # It ends with 1 where something is missing.
    done = subprocess.run(words, capture_output=True, text=True, cwd="/", timeout=60, check=False)
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def in_its_place(words: list[str]) -> list[str]:
    """Words that run a command where the programs under test run: behind the same filter, if they are in a container."""
    if BINARY != CONTAINED:
        return words
    flags = os.environ.get("HELIOSTAT_CONTAINER", "").split()
    return [SYSTEM, str(CONTAINED.with_name("container.py")), *flags, "--", *words]


@functools.cache
def copies_descriptors() -> bool:
    """Whether a program's descriptors can be copied (pidfd_getfd(2)) where the programs under test run."""
    program = f"import kernel_view, sys; sys.exit(kernel_view.refuses({PIDFD_GETFD}, -1, 0, 0))"
    words = in_its_place([SYSTEM, "-c", program])
    return subprocess.run(words, cwd=Path(__file__).parent, timeout=60, check=False).returncode == 0


@functools.cache
def makes_spaces(*before: str) -> bool:
    """Whether sealed programs can have namespaces of their own here: root's by root's rights, others' in one of users.

    Asked by what the words before it make of the caller, where the programs under test run.
    """
    script = "users=--user; [ $(id -u) = 0 ] && users=; exec unshare $users ${users:+--map-root-user} --ipc --mount mount -t tmpfs tmpfs /dev/shm"
    words = [*before, *in_its_place(["sh", "-c", script])]
    return subprocess.run(words, cwd="/", stderr=subprocess.DEVNULL, timeout=60, check=False).returncode == 0


def serves_other_users() -> bool:
    """Whether a program of root's may become another user sealed: its supervisor needs a right that containers lack."""
    return BINARY != CONTAINED and kernel_view.has_capability(CAP_SYS_PTRACE)


def wait_control(path: str) -> None:
    """Waits until a control plane takes connections: its socket's file is there a moment before."""

    def accepts() -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            return probe.connect_ex(path) == 0

    kernel_view.wait_until(accepts, 60, f"a control plane at {path}")


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
