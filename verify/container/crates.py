"""Builds the tests of the crates that touch the kernel, and runs them as somebody else.

They are built by whoever calls, since a container and an ordinary user may lack the compiler, and run
one after the other: each program in its crate's folder, as cargo does it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CRATES = """
    heliostat-base heliostat-backend-pages heliostat-backend-seal heliostat-backend-lease heliostat-backend-robust heliostat-backend-socket heliostat-backend-uring
    heliostat-backend-transport heliostat-backend-ucx heliostat-client heliostat-stub-posix heliostat-stub-link
    heliostat-stub-file heliostat-stub-memory heliostat-stub-cluster heliostat-stub-snapshot
    heliostat-server-loop heliostat-server-file heliostat-server-memory heliostat-server-node heliostat-server-rpc
    heliostat-server-replica heliostat-server-registry heliostat-backend-registry heliostat-backend-block
    heliostat-backend-log heliostat-backend-store heliostat-supervisor heliostatd
""".split()
SECONDS = 900


def build() -> list[tuple[Path, Path]]:
    """The test programs, each with its crate's folder."""
    # All of them: -p chooses other features of what others use, and `make test` has built these.
    command = ["cargo", "test", "--no-run", "--message-format=json", "--workspace"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = []
    for line in done.stdout.splitlines():
        said = json.loads(line) if line.startswith("{") else {}
        if said.get("profile", {}).get("test") and said.get("executable") and package(said["package_id"]) in CRATES:
            found.append((Path(said["executable"]), Path(said["manifest_path"]).parent))
    return found


def package(identity: str) -> str:
    """The name in what cargo calls a package: `path+file:///FOLDER#NAME@VERSION`; without NAME@ the folder's."""
    place, _, rest = identity.rpartition("#")
    return rest.partition("@")[0] if "@" in rest else place.rpartition("/")[2]


def run(before: list[str], place: dict[str, str]) -> list[str]:
    """Runs all of them after these words; the names of those that failed."""
    failed = []
    for program, folder in build():
        name = f"{folder.name}: {program.stem.rpartition('-')[0]}"
        command = [*before, str(program), "--quiet"]
        surroundings = {**place, "CARGO_MANIFEST_DIR": str(folder), "PATH": os.environ["PATH"]}
        print(f"-- {name}", flush=True)
        try:
            status = subprocess.run(command, cwd=folder, env=surroundings, timeout=SECONDS).returncode
        except subprocess.TimeoutExpired:
            status = None
        if status != 0:
            failed.append(name)
    return failed
