"""Runs attacks one after the other, sealed or not, and reports what became of them.

    attack_runner.py TOOLS    one request (JSON) a line on standard input, one report a line out

It is started by `unshare` as the first process of namespaces of its own (processes, mounts,
IPC, network, host name): an attack that works, because it is run unsealed to prove that it
does, meets namespaces in which nothing else lives. The sealed runs meet the same ones,
which also shows that the seal works inside a container.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import pty
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from testbed import QUEUES, Testbed

SECONDS_MAX = 90.0
ANSWER_SECONDS_MAX = 60.0
LOOK_SECONDS = 0.1
# So often in a row it is seen stopped: nobody lets it go on.
STOPPED_LOOKS = 10
# Processes that are to outlive their supervisor.
MANY = 30
# A descriptor of the folder outside, left open by carelessness (CVE-2024-21626).
LEAKED = 17
# prctl(2).
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
libc = ctypes.CDLL(None)
# The victim's wires, victim.c.
ASK, ANSWER = 3, 4


def identity(user: int) -> dict:
    """How a process is started as that user; an ordinary user's runner knows no other."""
    return {"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}


class AttackRun:
    """One attack on one testbed; `report` is what came of it."""

    def __init__(self, tools: Path, request: dict, turn: int):
        self.request = request
        self.testbed = Testbed(tools, request["user"], turn)
        self.master, self.slave = pty.openpty()
        os.chown(os.ttyname(self.slave), request["user"], -1)
        self.ask_in, self.ask = os.pipe()
        self.answer, self.answer_out = os.pipe()
        self.harm: list[str] = []
        self.victim = self._start(tools)

    def _start(self, tools: Path) -> subprocess.Popen:
        environment = {**os.environ, **self.testbed.environment(), **self.request["environment"], "WORD": self.testbed.word}
        listening = ["--listen", environment["LISTEN_PORT"], "--connect", f"127.0.0.1:{environment['GRANTED_PORT']}"]
        command = self.request["command"]
        if self.request["sealed"]:
            command = [*self.request["sealed"], *self.testbed.grants(), *listening, "--", *command]
        user = self.request["user"]
        log = open(self.testbed.folder / "outside/log", "ab")
        return subprocess.Popen(
            [str(tools / "victim"), *command],
            stdin=self.slave,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            cwd=self.testbed.folder,
            **identity(user),
            pass_fds=(ASK, ANSWER, LEAKED),
            preexec_fn=self._wire,
        )

    def _wire(self) -> None:
        """The victim's wires at 3 and 4, and the descriptor that somebody forgot to close; no rights of the runner's."""
        libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
        os.dup2(self.ask_in, ASK)
        os.dup2(self.answer_out, ANSWER)
        os.dup2(os.open(self.testbed.folder / "outside", os.O_RDONLY), LEAKED)

    def victim_says(self, letter: str) -> str:
        """The victim's answer, or what is wrong with it."""
        try:
            os.write(self.ask, letter.encode())
        except BrokenPipeError:
            return "dead"
        end, stopped = time.monotonic() + ANSWER_SECONDS_MAX, 0
        while not select.select([self.answer], [], [], LOOK_SECONDS)[0]:
            if self.victim.poll() is not None:
                return "dead"
            stopped = stopped + 1 if self._is_stopped() else 0
            if stopped >= STOPPED_LOOKS or time.monotonic() > end:
                return "does not answer"
        return os.read(self.answer, 4096).decode().strip()

    def _is_stopped(self) -> bool:
        """By a signal or a tracer."""
        return Path(f"/proc/{self.victim.pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"

    def appearance(self) -> dict[str, object]:
        """The testbed, the victim and the terminal as they are now."""
        return {**self.testbed.appearance(), "victim": self.victim_says("s"), "terminal": self._terminal()}

    def _terminal(self) -> dict[str, object]:
        try:
            settings = termios.tcgetattr(self.slave)
        except termios.error:
            return {"hung up": True}
        return {"settings": settings, "typed": _waiting(self.slave), "shown": _waiting(self.master)}

    def report(self) -> dict:
        """Lets the attack run; the report."""
        before = self.appearance()
        self.victim_says("g")
        before = self._watch(before)
        after = self.appearance()
        self._clear()
        output, _ = self.victim.communicate(timeout=SECONDS_MAX)
        errors = (self.testbed.folder / "outside/log").read_bytes().partition(b"\n")[2]
        changed = [f"{name}: {before.get(name)} -> {after.get(name)}" for name in {**before, **after} if before.get(name) != after.get(name)]
        return {
            "output": output.decode(errors="replace"),
            "errors": errors.decode(errors="replace")[-4000:],
            "changed": [line[:600] for line in changed],
            "harm": self.harm,
            "nonce": self.testbed.nonce,
        }

    def _watch(self, before: dict) -> dict:
        """Waits for the end; what outside looks like if an outsider changed it meanwhile."""
        end = time.monotonic() + SECONDS_MAX
        while time.monotonic() < end:
            if self.request["kill"] and self._may_kill(end - time.monotonic()):
                return self._kill_supervisor(before)
            if self.testbed.move_if_asked():
                before = {**self.appearance(), "victim": before["victim"]}
                self.testbed.moved()
            says = self.victim_says("w")
            if says != "running":
                if not says.startswith("exit"):
                    self.harm.append(f"the victim: {says}")
                return before
            time.sleep(0.003)
        self.harm.append(f"the attack or its supervisor hung for {SECONDS_MAX} s")
        return before

    def _may_kill(self, left: float) -> bool:
        """Half a second after the start, or later where the processes take longer to be there."""
        is_late = left < SECONDS_MAX / 2
        return is_late or (left < SECONDS_MAX - 0.5 and len(_running(self.request["command"][0])) >= MANY)

    def _kill_supervisor(self, before: dict) -> dict:
        """Kills the process in front (1), the one behind it (2), or both (3); who is left?"""
        if len(_running(self.request["command"][0])) < MANY:
            self.harm.append("the processes that were to outlive it did not even run")
        front = _children(self.victim.pid)
        behind = [child for one in front for child in _children(one)]
        for process in {1: front, 2: behind, 3: front + behind}[self.request["kill"]]:
            _kill(process)
        end = time.monotonic() + SECONDS_MAX / 3
        while left := _running(self.request["command"][0]):
            if time.monotonic() > end:
                self.harm.append(f"{len(left)} sealed processes outlived their supervisor")
                break
            time.sleep(0.02)
        return before

    def _clear(self) -> None:
        """Ends the victim and everything that was started in this run."""
        keep = {os.getpid(), *_of_the_control_plane()}
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) not in keep:
                _kill(int(name))

    def close(self) -> None:
        for number in (self.master, self.slave, self.ask_in, self.ask, self.answer, self.answer_out):
            os.close(number)
        self.testbed.close()
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    return
            except ChildProcessError:
                return


def _of_the_control_plane() -> list[int]:
    def name(process: str) -> str:
        try:
            return Path("/proc", process, "comm").read_text().strip()
        except OSError:
            return ""

    return [int(process) for process in os.listdir("/proc") if process.isdigit() and name(process) == "heliostatd"]


def _children(parent: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def _running(program: str) -> list[int]:
    """Processes that run this program, dead ones left out."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/exe") == program:
                found.append(int(name))
        except OSError:
            continue
    return found


def _waiting(terminal: int) -> int:
    """Bytes that wait to be read at this end of a terminal."""
    return struct.unpack("i", fcntl.ioctl(terminal, termios.FIONREAD, b"\0" * 4))[0]


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except OSError:
        pass


def _own_devices() -> None:
    """Devices of the runner's own in place of the host's, where they can be made."""
    numbers = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
    folder = Path("/dev/shm/devices")
    folder.mkdir()
    for name, number in numbers.items():
        try:
            os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(*number))
        except PermissionError:
            return
        subprocess.run(["mount", "--bind", str(folder / name), f"/dev/{name}"], check=True)


def main() -> None:
    """Requests until the end of input."""
    os.umask(0)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "none", "/dev/shm"], check=True)
    _own_devices()
    QUEUES.mkdir()
    subprocess.run(["mount", "-t", "mqueue", "none", str(QUEUES)], check=True)
    tools = Path(sys.argv[1])
    while os.open("/dev/null", os.O_RDONLY) < LEAKED:  # so that no other descriptor has these numbers
        continue
    for turn, line in enumerate(sys.stdin):
        request = json.loads(line)
        if request["control"]:
            subprocess.run(request["control"], **identity(request["user"]), env={**os.environ, **request["environment"]}, check=True)
        run = AttackRun(tools, request, turn)
        try:
            report = run.report()
        finally:
            run.close()
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
