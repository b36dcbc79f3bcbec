"""ADIOS2 programs over Heliostat regions: an engine for adios2's own API.

    import adios2, heliostat.adios2

    io = adios2.Adios().declare_io("heat")
    io.set_engine("Plugin")
    io.set_parameters(heliostat.adios2.parameters("heat"))
    with adios2.Stream(io, "heat", "w") as stream: ...

Everything else stays as it is with any other engine: steps, variables, selections, attributes. A
step is a version of one region per variable, so a reader sees a step whole or not at all, on the
same machine, without a socket; any Heliostat program can attach to a variable's region as well.

The engine is a plugin that is compiled against the adios2 that is installed, once, with c++ (or
$CXX). What it can and cannot do: docs/adios2.md.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from ._adios2_calls import register
from ._errors import Unsupported

__all__ = ["library", "parameters"]

SOURCE = Path(__file__).with_name("_adios2_engine.cpp")
# The plugin interface that does without ADIOS2's internals came with this version.
VERSION_MIN = (2, 12)
COMPILER_S = 300

_loaded: dict[Path, ctypes.CDLL] = {}


def parameters(
    stream: str,
    *,
    queue: int = 1,
    order: Literal["latest", "next"] = "latest",
    in_place: bool = False,
) -> dict[str, str]:
    """The parameters of the Plugin engine for a stream of this name. Compiles the engine if needed.

    queue: of a writer: the newest so many steps stay, read or not; 1 to 12. It never waits.
    order: of a reader: each time the newest step, or the oldest one that is still there.
    in_place: of a writer: the arrays that are put are the regions themselves, so that only pages
        which were written are copied. They must keep their place and stay alive until the stream
        is closed. Otherwise a put copies the pages that differ from the last step.

    Raises Unsupported when adios2 is too old or missing, or the engine cannot be compiled.
    """
    if not 1 <= queue <= 12:
        raise ValueError(f"a queue of {queue} steps; 1 to 12 are possible")
    return {
        "PluginName": "heliostat",
        "PluginLibrary": str(library()),
        "Region": stream,
        "Queue": str(queue),
        "Order": order,
        "InPlace": str(in_place),
    }


def library() -> Path:
    """The compiled engine, loaded into this process; compiled now if it was not yet."""
    # The plugin needs ADIOS2's libraries in the process before it.
    folder = _package()
    path = _cache() / f"adios2-{version('adios2')}-{_fingerprint(folder)}.so"
    if not path.exists():
        _compile(folder, path)
    if path not in _loaded:
        _loaded[path] = ctypes.CDLL(str(path))
        register(_loaded[path])
    return path


def _package() -> Path:
    """The folder of the installed adios2, imported."""
    spec = find_spec("adios2")
    if spec is None or spec.origin is None:
        raise Unsupported("adios2 is not installed; pip install 'adios2>=2.12'")
    found = tuple(int(part) for part in version("adios2").split(".")[:2])
    if found < VERSION_MIN:
        raise Unsupported(f"adios2 {version('adios2')} has no public plugin interface; 2.12 has")
    importlib.import_module("adios2")

    return Path(spec.origin).parent


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "heliostat"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _fingerprint(folder: Path) -> str:
    """Changes with what the engine is made of, and with where the libraries are."""
    return hashlib.sha256(SOURCE.read_bytes() + str(folder).encode()).hexdigest()[:16]


def _compile(folder: Path, path: Path) -> None:
    """Compiles to a name of its own first: another process may do the same."""
    core = next(iter(sorted(folder.glob("libadios2_cxx.so.*"))), None)
    if core is None or not (folder / "include/adios2/plugin").is_dir():
        raise Unsupported(f"{folder} has no headers or libraries; install the adios2 wheel")
    draft = path.with_suffix(f".{os.getpid()}")
    words = [os.environ.get("CXX", "c++"), "-std=c++17", "-O2", "-shared", "-fPIC"]
    words += [f"-I{folder}/include", str(SOURCE), str(core), "-Wl,--allow-shlib-undefined"]
    try:
        answer = subprocess.run(
            [*words, "-o", str(draft)], capture_output=True, text=True, timeout=COMPILER_S
        )
    except FileNotFoundError:
        raise Unsupported(f"{words[0]} is not there; the engine needs a C++ compiler once") from None
    if answer.returncode != 0:
        raise Unsupported(f"the ADIOS2 engine does not compile: {answer.stderr.strip()[:500]}")
    draft.rename(path)
