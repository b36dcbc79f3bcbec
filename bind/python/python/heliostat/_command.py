"""The command line from Python: programs under Heliostat, and what the control plane says."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any

from ._binaries import ask, control_plane, program


def run(argv: Sequence[str | os.PathLike[str]], **settings: Any) -> subprocess.Popen[Any]:
    """Starts a program under Heliostat; its connections to other such programs go through memory.

    Like `subprocess.Popen(argv, **settings)`, and returns one. What Heliostat cannot do for the
    program is done natively.
    """
    words = [os.fspath(word) for word in argv]
    return subprocess.Popen([program(), "run", "--", *words], **settings)


def status() -> dict[str, Any]:
    """Sessions, listening addresses and regions of the control plane, which is started if none
    runs. Raises CommandFailed, NoControlPlane."""
    return _answer("status", "--json", "--socket", control_plane())


def explain(pid: int) -> dict[str, Any]:
    """Every connection of a process, its path, and why it is native if it is. Raises CommandFailed
    for a process that is not under Heliostat."""
    return _answer("explain", str(pid), "--json", "--socket", control_plane())


def doctor() -> dict[str, Any]:
    """What this machine allows, and what to do about what it does not."""
    return _answer("doctor", "--json")


def metrics() -> str:
    """The control plane's metrics, as OpenMetrics text."""
    return ask(["metrics", "--socket", control_plane()])


def _answer(*words: str) -> dict[str, Any]:
    answer = json.loads(ask(words))
    return answer if isinstance(answer, dict) else {"entries": answer}
