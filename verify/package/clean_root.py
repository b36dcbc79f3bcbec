"""A clean Debian in a folder, in which a package is installed and used; takes root.

debootstrap makes the base once (target/package). Each `Root` is an overlay above it, so
that nothing that happens inside stays. Scripts run in namespaces of their own (mounts, processes,
network), so whatever they start ends with them, no mount outlives them, and no port of the machine
is theirs.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What is built here needs the C library of here.
RELEASE = platform.freedesktop_os_release()["VERSION_CODENAME"]
BASE = ROOT / f"target/package/clean-root-{RELEASE}"
# What the demo runs, and nothing of ours.
PROGRAMS = "redis-server,redis-tools"
MOUNTS = """
set -e
ip link set lo up
mount -t overlay overlay -o lowerdir={base},upperdir={upper},workdir={work} {merged}
mount -t proc proc {merged}/proc
mount --rbind /dev {merged}/dev
mount -t tmpfs tmpfs {merged}/tmp
chmod 1777 {merged}/tmp
exec chroot {merged} /bin/sh -e -c "$1"
"""


def base() -> Path:
    """The folder of the base, made if it is not there."""
    finished = BASE.with_suffix(".finished")
    if finished.exists():
        return BASE
    if os.geteuid() != 0:
        raise RuntimeError("a clean root takes root: run `make test-package` as root")
    if not shutil.which("debootstrap"):
        raise RuntimeError("debootstrap is not installed: apt-get install debootstrap")
    shutil.rmtree(BASE, ignore_errors=True)
    words = ["debootstrap", "--variant=minbase", f"--include={PROGRAMS}", RELEASE, str(BASE)]
    subprocess.run(words, check=True)
    finished.touch()
    return BASE


class Root:
    """One overlay above the base."""

    def __init__(self, folder: Path) -> None:
        base()
        self.folder = folder
        for name in ("upper", "work", "merged"):
            (folder / name).mkdir()

    def put(self, file: Path) -> str:
        """Copies a file to the top of the root; its path inside."""
        shutil.copy(file, self.folder / "upper" / file.name)
        return f"/{file.name}"

    def run(self, script: str) -> str:
        """Runs a script inside, as root; what it printed. Fails with what it said."""
        places = {name: self.folder / name for name in ("upper", "work", "merged")}
        mounts = MOUNTS.format(base=BASE, **places)
        words = ["unshare", "--mount", "--pid", "--ipc", "--net", "--fork", "--kill-child", "sh", "-c", mounts, "sh", script]
        clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"}
        done = subprocess.run(words, capture_output=True, text=True, env=clean, timeout=300)
        assert done.returncode == 0, f"ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout
