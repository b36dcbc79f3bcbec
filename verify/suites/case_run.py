"""One run of a case: servers and clients on one side, in a folder and a control plane of their own.

The steps of a case are a function of a `CaseRun`. It starts servers on free ports, runs clients, looks at the
paths of connections that are open, and answers with text that may not depend on the side.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import kernel_view
from heliostat_run import Harness, Program, Side
from paths import Stated, are_as_stated, found_words

HERE = Path(__file__).resolve().parent
INSTALLED = HERE.parents[1] / "target/suites"
# The suites' own Python, with the drivers and servers of requirements.txt.
PYTHON = INSTALLED / "venv/bin/python"
CLIENT_SECONDS = 60
SERVER_SECONDS = 60
END_SECONDS = 30
LOOK_SECONDS = 8


@dataclass
class Server:
    """A started server, its port, and the signal that asks it to end."""

    program: Program
    port: int
    ending: int


@dataclass
class CaseRun:
    """One run of a case, and what its steps use."""

    side: Side
    row: Stated
    configuration: str = ""
    harness: Harness = field(init=False)
    marks: Path = field(init=False)
    servers: list[Server] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    # Where paths and reasons were not as stated; told at the end, beside what the programs said.
    problems: list[str] = field(default_factory=list)

    def __enter__(self) -> CaseRun:
        self.harness = Harness(plain=self.side is Side.PLAIN, configuration=self.configuration)
        # Servers that give up root's rights reach their files and the control plane here.
        self.folder.chmod(0o755)
        self.harness.__enter__()
        self.marks = self.folder / "marks"
        self.marks.mkdir()
        self.marks.chmod(0o777)
        return self

    def __exit__(self, *problem) -> None:
        programs = list(self.harness.programs)
        self.harness.__exit__(*problem)
        kernel_view.wait_until(lambda: not left_behind(programs), END_SECONDS, "the end of every process")

    @property
    def folder(self) -> Path:
        return self.harness.folder

    def port(self) -> int:
        """A free port that this run has not given out yet."""
        while (port := kernel_view.free_port()) in self.ports:
            pass
        self.ports.append(port)
        return port

    def serve(self, port: int, argv: list, user: str = "", ending: int = signal.SIGTERM, **more) -> Program:
        """Starts a server and waits until it listens; it is asked to end with signal `ending`."""
        program = self.start(argv, user, **more)
        self.servers.append(Server(program, port, ending))
        try:
            kernel_view.wait_listening(port, program.process, SERVER_SECONDS)
        except (RuntimeError, TimeoutError) as error:
            raise RuntimeError(f"{argv}: {error}\n{program.output()[-2000:]}{program.errors()[-2000:]}") from None
        return program

    def start(self, argv: list, user: str = "", **more) -> Program:
        """Starts a program, as another user where that is asked for and this one is root."""
        words = [str(word) for word in argv]
        more.setdefault("env", {})["MARKS"] = str(self.marks)
        command = as_user(user, self.harness.command(self.side, words))
        return self.harness.start(Side.PLAIN, command, name=Path(words[0]).name, cwd=self.folder, **more)

    def run(self, argv: list, user: str = "", seconds: float = CLIENT_SECONDS, **more) -> str:
        """Runs a client to its end and returns what it printed; raises with its errors when it fails."""
        return self.finish(self.start(argv, user, **more), seconds)

    def finish(self, program: Program, seconds: float = CLIENT_SECONDS) -> str:
        """Waits for a client that was started, and returns what it printed."""
        status = program.wait(seconds)
        if status != 0:
            said = "".join(f"\n--- {one.name}: {one.errors()[-1500:]}" for one in self.harness.programs)
            raise AssertionError(f"{program.name} ended with {status}\n{program.output()[-1500:]}{said}")
        return program.output()

    def start_python(self, script: str, *words, **more) -> Program:
        """Starts a Python program of programs/."""
        return self.start([PYTHON, HERE / "programs" / script, *words], **more)

    def python(self, script: str, *words, **more) -> str:
        """Runs a Python program of programs/ to its end."""
        return self.finish(self.start_python(script, *words, **more))

    def mark(self, name: str) -> None:
        """Lets a program go on that waits for the mark `name`."""
        (self.marks / name).touch()

    def await_mark(self, name: str, program: Program) -> None:
        """Waits until a program has made the mark `name`; fails at once when it ends before."""

        def there() -> bool:
            if (self.marks / name).exists():
                return True
            if program.process.poll() is not None:
                raise AssertionError(f"{program.name} ended\n{program.output()[-1500:]}{program.errors()[-1500:]}")
            return False

        kernel_view.wait_until(there, CLIENT_SECONDS, f"mark {name} of {program.name}")

    def look(self, kind: str, port: int, at_least: int = 0) -> None:
        """Holds the open connections to `port` against the table; a plain run has nothing to look at."""
        if self.side is Side.PLAIN:
            return
        wanted = self.row.kinds[kind]
        deadline, found = time.monotonic() + LOOK_SECONDS, []
        while time.monotonic() < deadline:
            rows = self.connections(port)
            if are_as_stated(found_words(rows), wanted) and len(rows) >= at_least:
                return
            found = rows or found
            time.sleep(0.05)
        self.problems.append(f"{kind}: stated {wanted}, last found {found_words(found)} in {len(found)}: {brief(found)}")

    def notice(self, program: Program) -> None:
        """Holds what `heliostat run` said of a program against the table: it runs natively, and why."""
        if self.side is Side.HELIOSTAT and self.row.notice not in program.errors():
            self.problems.append(f"{program.name}: stated {self.row.notice!r}, said {program.errors()[:500]!r}")

    def connections(self, port: int) -> list[dict]:
        """Every end of a connection to `port` that some session reports.

        Without those that a client had written to the end, or closed, before the server accepted:
        whether one is quick enough for that is the scheduler's word.
        """
        rows = []
        for session in self.harness.status()["sessions"]:
            try:
                reported = self.harness.explain(session["pid"])
            except RuntimeError:
                continue  # ended since
            to_port = [row for row in reported if port_of(row["local" if row["accepted"] else "peer"]) == port]
            rows += [row for row in to_port if row["reason"] != "DoneEarly"]
        return rows

    def check_totals(self) -> None:
        """Holds what was counted since the start of the run against the table."""
        if self.side is Side.PLAIN:
            return
        direct, counted = self.totals()
        # wrk makes a connection to see whether somebody listens, and may close it before it is accepted.
        early = counted.pop("DoneEarly", 0)
        if counted.get("NoOffer", 0) <= early:
            counted.pop("NoOffer", None)
        if set(counted) - self.row.reasons() or (direct == 0 and self.row.any_direct()):
            self.problems.append(f"in all: {direct} direct; native: {counted}; stated: {self.row.reasons()}")

    def check_counted(self) -> None:
        """Holds how many ends are direct, or native for a reason, against the table's numbers."""
        if self.side is Side.PLAIN:
            return
        direct, counted = self.totals()
        found = {"direct": direct, **counted}
        if found != self.row.counted:
            self.problems.append(f"stated {self.row.counted}, counted {found}")

    def totals(self) -> tuple[int, dict[str, int]]:
        """Direct ends, and native ones by reason, of all programs of the run so far."""
        metrics = self.harness.call("metrics")
        reasons = re.findall(r'stub_native_reasons_total\{reason="(\w+)"\} (\d+)', metrics)
        counted = {reason: int(count) for reason, count in reasons if int(count)}
        return int(re.search(r"stub_direct_streams_total (\d+)", metrics)[1]), counted

    def end_servers(self) -> str:
        """Asks every server to end, the last one first; how each ended."""
        endings = []
        for server in reversed(self.servers):
            if server.program.process.poll() is None:
                os.kill(server.program.pid, server.ending)
            endings.append(f"{server.program.name} ended with {server.program.wait(END_SECONDS)}")
        return "\n".join(endings)

    def neutral(self, text: str) -> str:
        """The text without what differs from run to run: ports and the folder."""
        for number, port in enumerate(self.ports):
            text = re.sub(rf"\b{port}\b", f"PORT{number}", text)
        return text.replace(str(self.folder), "FOLDER")


def as_user(user: str, words: list[str]) -> list[str]:
    """The command as another user, where this one may change users."""
    if not user or os.getuid() != 0:
        return words
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--", *words]


def brief(rows: list[dict]) -> list[str]:
    """A few connections, each in a few words."""
    return [f"{row['local']} {row['peer']} {row['path']} {row['reason']} {row['received']}/{row['sent']}" for row in rows[:4]]


def port_of(address: str) -> int:
    """The port of an address as `heliostat explain` writes it."""
    return int(address.rsplit(":", 1)[1])


def left_behind(programs: list[Program]) -> list[int]:
    """Processes of the sessions that the programs were started in."""
    sessions = {str(program.pid) for program in programs}
    return [pid for pid in kernel_view.processes() if session_of(pid) in sessions]


def session_of(pid: int) -> str:
    """The session of a process that still runs; empty when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[3]


def digest(text: str | bytes) -> str:
    """Length and checksum, for large answers."""
    content = text.encode() if isinstance(text, str) else text
    return f"{len(content)} bytes {hashlib.sha256(content).hexdigest()[:16]}"
