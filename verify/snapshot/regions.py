"""Producers and consumers of named snapshot regions: the verifier's roles, and where they run.

A `Container` is a user, pid, mount and network namespace of its own for an unprivileged user;
the control plane's folder is bound into it at another path. Where the machine allows no such
thing, the caller skips with the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import heliostat_run
import kernel_view
from heliostat_run import Harness, Program, Side

VERIFIER = Path(os.environ.get("HELIOSTAT_VERIFIER", heliostat_run.BINARY.parent / "snapshot-verifier"))
NOBODY = 65534
SEPARATE = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--net", "--mount-proc", "--kill-child"]


def socket_of(harness: Harness) -> str:
    """The control plane's socket as this process sees it."""
    return f"{harness.folder}/control.sock"


def start_control(harness: Harness, config: str = "") -> None:
    """A control plane in a plain harness: it stays, and other users reach it."""
    harness.folder.chmod(0o755)
    (harness.folder / "config.toml").write_text(config)
    command = [VERIFIER.parent / heliostat_run.CONTROL_PLANE, "--foreground", "--config", harness.folder / "config.toml"]
    harness.start(Side.PLAIN, [*command, "--socket", socket_of(harness)], name="control")
    heliostat_run.wait_control(socket_of(harness))


def start(harness: Harness, role: str, **orders) -> Program:
    """A role of the verifier, on this side of every border."""
    orders = {"socket": socket_of(harness), **orders}
    return harness.start(Side.PLAIN, [VERIFIER, role, *words(orders)], name=role)


def words(orders: dict) -> list[str]:
    """`key=value` words."""
    return [f"{key}={value}" for key, value in orders.items()]


def start_producer(harness: Harness, **orders) -> tuple[Program, int]:
    """A producer that has published under its name; it, and its generation."""
    program = start(harness, "produce", **{"mib": 4, **orders})
    return program, said(program, r"generation (\d+)")


def said(program: Program, pattern: str, count: int = 1) -> int:
    """The number in the last of `count` such lines, waited for."""

    def found() -> list[str]:
        if program.process.poll() not in (None, 0):
            raise AssertionError(f"{program.name} failed\n{program.output()}{program.errors()}")
        return re.findall(pattern, program.output())

    return int(kernel_view.wait_until(lambda: len(found()) >= count and found(), 60, pattern)[count - 1])


def without_privilege(command: list) -> list[str]:
    """The command as another user of this machine, without a capability."""
    identity = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
    return [str(word) for word in ("setpriv", *identity, *command)]


def contained(socket_folder: Path, bound_at: str, command: list) -> list[str]:
    """The command in namespaces of its own, with the control plane's folder bound at a new path."""
    identity = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
    script = f'mount --bind "{socket_folder}" "{bound_at}" && exec "$@"'
    return [str(word) for word in (*identity, "unshare", *SEPARATE, "--", "sh", "-c", script, "sh", *command)]


def why_no_containers() -> str | None:
    """None where they can be made, else what is in the way."""
    if os.geteuid() != 0:
        return "needs root, to become another user"
    if missing := [tool for tool in ("setpriv", "unshare", "mount") if not shutil.which(tool)]:
        return f"{missing[0]} is not installed"
    trial = subprocess.run(contained(Path("/usr"), "/mnt", ["true"]), capture_output=True, text=True)
    return None if trial.returncode == 0 else f"namespaces are refused: {trial.stderr.strip()}"


def copy_for_others(harness: Harness) -> Path:
    """The verifier where every user may run it: the build may lie in somebody's own folder."""
    return Path(shutil.copy(VERIFIER, harness.folder / "verifier"))
