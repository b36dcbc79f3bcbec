"""Ways to run an untrusted program: plain Linux, sealed, and three other sandboxes.

Each way turns a command into the one that runs it inside, with the same host files under the
same names, so that only the sandbox differs. The others get the setting that is fastest for
them where there is a choice. A way that does not work on this machine says why. Debian's runsc
is gVisor of December 2022 with its ptrace platform; gVisor's newer systrap is not packaged.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from heliostat_run import BINARY, Harness

PLAIN, SEALED, RUNSC, PROOT, BWRAP = "plain", "sealed", "runsc", "proot", "bwrap"
ALL = [PLAIN, SEALED, RUNSC, PROOT, BWRAP]
_numbers = itertools.count()


@dataclass
class Sandboxes:
    """The ways that work here, and why the others do not.

    Programs inside may write below `folder`, execute what lies in `programs`, and listen on a
    port where a call names one; everything else is read-only or not there, as the way allows.
    """

    harness: Harness
    folder: Path
    programs: Path
    missing: dict[str, str] = field(default_factory=dict)

    def probe(self, wanted: list[str]) -> list[str]:
        """Those of `wanted` in which /bin/true runs; the reasons of the others in `missing`."""
        for way in wanted:
            if reason := self._reason_against(way):
                self.missing[way] = reason
        return [way for way in wanted if way not in self.missing]

    def command(self, way: str, words: list, port: int | None = None) -> list[str]:
        """`words` as a command that runs them in the sandbox `way`."""
        plain = [str(word) for word in words]
        turn = {SEALED: self._sealed, RUNSC: self._runsc, PROOT: self._proot, BWRAP: self._bwrap}
        return turn[way](plain, port) if way in turn else plain

    def versions(self) -> dict[str, str]:
        """Each tool's version."""
        asked = {RUNSC: ["runsc", "--version"], PROOT: ["proot", "--version"], BWRAP: ["bwrap", "--version"]}
        return {way: _version(words) for way, words in asked.items() if way not in self.missing}

    def _reason_against(self, way: str) -> str:
        try:
            environment = self.harness.environment()
            command = self.command(way, ["/bin/true"])
            answer = subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment)
        except FileNotFoundError as error:
            return f"not installed: {error.filename}"
        except subprocess.TimeoutExpired:
            return "/bin/true did not end within 30 s"
        lines = (answer.stderr.strip() or answer.stdout.strip() or "nothing said").splitlines()
        return "" if answer.returncode == 0 else f"/bin/true ended with {answer.returncode}: {lines[-1][:200]}"

    def _sealed(self, words: list[str], port: int | None) -> list[str]:
        grants = ["--grant", f"{self.folder}:rw", "--grant", f"{self.programs}:ro"]
        listen = ["--listen", f"127.0.0.1:{port}"] if port else []
        return [str(BINARY), "run", "--sealed", *grants, *listen, "--", *words]

    def _proot(self, words: list[str], _port: int | None) -> list[str]:
        return ["proot", "-r", "/", "-w", str(self.folder), *words]

    def _bwrap(self, words: list[str], port: int | None) -> list[str]:
        net = ["--share-net"] if port else []
        binds = ["--ro-bind", "/", "/", "--bind", str(self.folder), str(self.folder), "--dev", "/dev", "--proc", "/proc"]
        return ["bwrap", "--unshare-all", *net, "--die-with-parent", *binds, *words]

    def _runsc(self, words: list[str], _port: int | None) -> list[str]:
        """An OCI bundle whose root is the host's: writable and exclusive, as it is fastest."""
        bundle = self.folder.parent / f"bundle-{next(_numbers)}"
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(self._oci(words)))
        rootless = [] if os.geteuid() == 0 else ["--rootless"]
        where = ["--root", str(self.folder.parent / "runsc"), "--ignore-cgroups", "--network=host"]
        kind = ["--platform=ptrace", "--file-access=exclusive", "--overlay=false"]
        return ["runsc", *rootless, *where, *kind, "run", "--bundle", str(bundle), f"{bundle.name}-{os.getpid()}"]

    def _oci(self, words: list[str]) -> dict:
        """The container's description: this environment and folder, nothing of its own."""
        words = [shutil.which(words[0]) or words[0], *words[1:]]
        environment = [f"{name}={value}" for name, value in self.harness.environment().items()]
        process = {"args": words, "env": environment, "cwd": str(self.folder), "user": {"uid": 0, "gid": 0}}
        mounts = [{"destination": "/proc", "type": "proc", "source": "proc"}]
        namespaces = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
        root = {"path": "/", "readonly": False}
        return {"ociVersion": "1.0.0", "process": process, "root": root, "hostname": "bench", "mounts": mounts,
                "linux": {"namespaces": namespaces}}  # fmt: skip


def _version(words: list[str]) -> str:
    answer = subprocess.run(words, capture_output=True, text=True)
    numbers = re.search(r"\d+\.\d[\w.~+-]*", answer.stdout)
    return numbers[0] if numbers else "unknown"
