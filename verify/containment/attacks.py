"""The attacks by name, their building, and the process that runs them."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
ENTRY = re.compile(r"^    ATTACK\((\w+), (ANYONE|ROOT|ORDINARY|NEVER)\)", re.MULTILINE)
ORDINARY_USER = 65534
# Whom a program of root's may become in attacks on ids.
WORKER = "www-data"
PROCESSES_MAX, MEMORY_MAX = 64, 256 << 20
# What policies grant of the control plane to attacks that misuse it.
REGIONS = ("granted/*:publish", "granted/*:attach", "granted:publish")
SERVICES = {"delegated_": ["--delegate"], "regions_": [word for region in REGIONS for word in ("--snapshot", region)]}
LIMITED = ("fork_bomb", "fork_bombs_together", "thread_bomb", "memory_bomb")


@dataclass(frozen=True)
class Attack:
    """One attack; `plain` says for whom it works where nothing fences it."""

    name: str
    plain: str

    def works_for(self, user: int) -> bool:
        return self.plain == "ANYONE" or self.plain == ("ROOT" if user == 0 else "ORDINARY")


def every() -> list[Attack]:
    """All attacks that the tables in attacks/*.c name."""
    sources = sorted((HERE / "attacks").glob("*.c"))
    found = [Attack(*entry) for source in sources for entry in ENTRY.findall(source.read_text())]
    return found + of_library()


def of_library() -> list[Attack]:
    """The attacks of attacks/library.py."""
    names = re.findall(r"^def (library_\w+)", (HERE / "attacks/library.py").read_text(), re.MULTILINE)
    return [Attack(name, "ANYONE") for name in names]


def build(folder: Path) -> None:
    """Compiles the attacks, statically and dynamically, and what the testbed needs."""
    attacks = sorted(map(str, (HERE / "attacks").glob("*.c")))
    jobs = {
        "attack-static": ["-static", *attacks],
        "attack-dynamic": attacks,
        "victim": [str(HERE / "victim.c")],
        "tool": ["-static", "-nostdlib", "-DSTATUS=77", str(HERE / "tool.c")],
        "dynamic-tool": ["-nostartfiles", "-DSTATUS=77", str(HERE / "tool.c")],
        "granted-tool": ["-static", "-nostdlib", "-DSTATUS=7", str(HERE / "tool.c")],
        "set-user-id": ["-static", str(HERE / "set_user_id.c")],
    }
    running = [subprocess.Popen(["gcc", *FLAGS, "-o", str(folder / name), *rest]) for name, rest in jobs.items()]
    if any(one.wait() for one in running):
        raise RuntimeError("an attack does not compile")
    shutil.copy(HERE / "attacks/library.py", folder)
    folder.chmod(0o755)


class AttackRunner:
    """The process, in namespaces of its own, that runs attacks: attack_runner.py."""

    def __init__(self, tools: Path, heliostat: Path, control: Path):
        self.tools, self.heliostat, self.control = tools, heliostat, control
        # An ordinary user's runner takes rights over namespaces of its own, and stays that user.
        own_user = [] if os.geteuid() == 0 else ["--map-current-user", "--keep-caps"]
        spaces = ["--mount", "--pid", "--fork", "--kill-child", "--ipc", "--net", "--uts", "--mount-proc"]
        command = ["unshare", *own_user, *spaces, sys.executable, str(HERE / "attack_runner.py"), str(tools)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, attack: str, user: int, sealed: bool, linkage: str, race_ms: int, kill: int = 0) -> dict:
        """Runs one attack; what the program printed and what changed outside."""
        program = self.tools / f"attack-{linkage}"
        socket = self.control / f"control-{user}.sock"
        limits = ["--processes", str(PROCESSES_MAX), "--memory", str(MEMORY_MAX)] if attack in LIMITED else []
        environment = {"RACE_MS": str(race_ms), "ATTACKER": str(program), "HELIOSTAT_SOCKET": str(socket)}
        environment |= {"CONTROL_SOCKET": str(socket), "XDG_RUNTIME_DIR": str(self.control)}
        environment |= {"PROCESSES_MAX": str(PROCESSES_MAX), "MEMORY_MAX": str(MEMORY_MAX)}
        worker = pwd.getpwnam(WORKER)
        environment |= {"WORKER_USER": str(worker.pw_uid), "WORKER_GROUP": str(worker.pw_gid)}
        environment |= {} if sealed else {"PROVE": "1"}
        command = [str(program), attack]
        if attack.startswith("library_"):
            program = self.tools / "library.py"
            command = ["/usr/bin/python3", str(program), attack]
        becomes = ["--user", WORKER] if attack.startswith("ids_") and user == 0 else []
        services = [word for prefix, words in SERVICES.items() if attack.startswith(prefix) for word in words]
        flags = ["--env", "*", *limits, *becomes, *services]
        seal = [str(self.heliostat), "run", "--sealed", *flags, "--grant", str(program)]
        asks = attack.startswith(("control_", *SERVICES))
        control = [str(self.heliostat), "run", "--", "/bin/true"] if asks else []
        request = {"user": user, "command": command, "environment": environment}
        request |= {"sealed": seal if sealed else [], "control": control, "kill": kill}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the runner ended with {self.process.wait()} during {attack}")
        return json.loads(answer)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(60)
