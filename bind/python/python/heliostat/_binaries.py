"""Where Heliostat's programs are, and the control plane that this process uses.

A wheel brings the programs along, so that installing it is enough. A source tree has none in the
package; there HELIOSTAT_BIN names `heliostat`, or PATH has it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from . import _native
from ._errors import CommandFailed, NoControlPlane, Unsupported

PACKAGED = Path(__file__).with_name("_bin") / "heliostat"
VARIABLE = "HELIOSTAT_BIN"
# A start takes some milliseconds; the command itself gives up after 5 s.
DEADLINE_S = 10.0

_lock = threading.Lock()
_socket: str | None = None


def program() -> str:
    """Path of the `heliostat` program: the package's own, else HELIOSTAT_BIN, else from PATH."""
    if PACKAGED.is_file():
        return str(PACKAGED)
    named = os.environ.get(VARIABLE)
    if named:
        if not os.path.isfile(named):
            raise Unsupported(f"{VARIABLE} names {named}, which is not there")
        return named
    found = shutil.which("heliostat")
    # The script that this package installs is no program, it only looks for one.
    if found and not _is_script(found):
        return found
    raise Unsupported(f"no heliostat program: not in the package, not in {VARIABLE}, not in PATH")


def _is_script(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def ask(words: Sequence[str], deadline_s: float | None = None) -> str:
    """What one `heliostat` command prints. It is no program under Heliostat, whoever runs it."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    try:
        answer = subprocess.run(
            [program(), *words], env=environment, capture_output=True, text=True, timeout=deadline_s
        )
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"`heliostat {' '.join(words)}` took longer than {deadline_s} s") from None
    if answer.returncode != 0:
        said = answer.stderr.strip().removeprefix("heliostat: ")
        raise CommandFailed(said or answer.stdout.strip() or f"status {answer.returncode}")
    return answer.stdout


def control_plane(again: bool = False) -> str:
    """Path of the control plane's socket, after making sure that it is served.

    Starts a control plane if none runs; that ends some time after its last user. Asked once per
    process, or again when the one there was does not answer.
    """
    global _socket
    with _lock:
        if _socket is None or again:
            given = [] if _socket is None else ["--socket", _socket]
            try:
                _socket = ask(["start", *given], DEADLINE_S).strip()
            except CommandFailed as error:
                raise NoControlPlane(str(error)) from None
            _native.configure(_socket, Path(sys.argv[0] or "python").name)
        return _socket


def main() -> NoReturn:
    """The `heliostat` command of a wheel: becomes the program."""
    path = program()
    os.execv(path, [path, *sys.argv[1:]])


def _after_fork() -> None:
    global _lock
    # Another thread of the parent may hold it for ever.
    _lock = threading.Lock()
    _native.forget_after_fork()


os.register_at_fork(after_in_child=_after_fork)
