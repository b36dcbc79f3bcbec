"""Attacks by way of an interpreter and its library, as real programs come to such calls.

    library.py NAME         the verdict on standard output, as attack.c gives it

The C attacks make each call by hand; here whole modules do, with their retries, their fallbacks
and their own ideas of what a path is.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import time
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path

TESTBED = Path(os.environ["TESTBED"])
MARK = "secret of the testbed:"
OUTSIDE = TESTBED / "outside"


class Escaped(Exception):
    """An attack worked."""


def must_fail(what: str, work) -> None:
    """An error is a refusal; an answer is an escape, unless it is false or None."""
    try:
        answer = work()
    except (OSError, ValueError, subprocess.SubprocessError, shutil.Error, tarfile.TarError):
        return
    if answer:
        raise Escaped(what)


def archive(*members: tuple[str, str, bytes]) -> tarfile.TarFile:
    """An archive of (name, link, content): a link when `link` is not empty."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, link, content in members:
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.SYMTYPE if link else tarfile.REGTYPE
            entry.linkname, entry.size = link, len(content)
            tar.addfile(entry, io.BytesIO(content))
    return tarfile.open(fileobj=io.BytesIO(packed.getvalue()))


def library_archive() -> None:
    """CVE-2007-4559: names that climb, and a link that a later name goes through."""
    os.chdir(TESTBED / "rw")

    def unpack(*members):
        archive(*members).extractall(".", filter="fully_trusted") if sys.version_info >= (3, 12) else archive(*members).extractall(".")
        return True

    must_fail("a name that climbs", lambda: unpack(("../outside/unpacked", "", b"x")))
    must_fail("an absolute name", lambda: unpack((f"{OUTSIDE}/unpacked", "", b"x")))
    must_fail("through a link", lambda: unpack(("way", str(OUTSIDE), b""), ("way/unpacked", "", b"x")))


def library_copy() -> None:
    """Whole trees copied, moved and removed by way of links."""
    way = TESTBED / "rw/planted-folder"
    must_fail("copied out", lambda: MARK in Path(shutil.copy(way / "secret", TESTBED / "rw/taken")).read_text())
    must_fail("a tree copied out", lambda: shutil.copytree(way, TESTBED / "rw/tree"))
    must_fail("moved in", lambda: shutil.move(str(TESTBED / "rw/own"), str(OUTSIDE / "moved")))
    must_fail("moved out", lambda: shutil.move(str(OUTSIDE / "loose"), str(TESTBED / "rw/moved")))
    must_fail("removed", lambda: (shutil.rmtree(way / "empty"), True)[1])


def library_removal_race() -> None:
    """CVE-2021-29921's kin: a folder that becomes a link while its tree is removed."""
    folder, spare = TESTBED / "rw/tree", TESTBED / "rw/spare"
    (folder / "empty").mkdir(parents=True)
    libc, end = ctypes.CDLL(None), time.monotonic() + float(os.environ["RACE_MS"]) / 1000
    spare.symlink_to(OUTSIDE)

    def swap():
        while time.monotonic() < end:
            libc.renameat2(-100, os.fsencode(folder), -100, os.fsencode(spare), 2)

    threading.Thread(target=swap, daemon=True).start()
    while time.monotonic() < end:
        for path in (folder, spare):
            must_fail("", lambda path=path: (path / "loose").write_text("x") and False)
            must_fail("", lambda path=path: shutil.rmtree(path / "empty"))
    must_fail("written or removed through the swap", lambda: (OUTSIDE / "loose").read_text() == "x")


def library_processes() -> None:
    """Programs outside, by every function that starts one."""
    tool = str(OUTSIDE / "tool")
    must_fail("subprocess", lambda: subprocess.run([tool], check=False).returncode == 77)
    must_fail("a shell", lambda: os.waitstatus_to_exitcode(os.system(tool)) == 77)
    must_fail("posix_spawn", lambda: os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn(tool, [tool], {}), 0)[1]) == 77)
    must_fail("a library", lambda: ctypes.CDLL(str(OUTSIDE / "dynamic-tool")) and True)


def library_sharing() -> None:
    """Names that multiprocessing shares with everybody of the same user."""

    def look():
        memory = shared_memory.SharedMemory(os.environ["SHM_NAME"])
        return MARK.encode() in bytes(memory.buf)

    must_fail("shared memory", look)
    # Made in a folder of their own, and left there: the testbed sees whether anybody finds them.
    name, libc = os.environ["SHM_NAME"] + "-more", ctypes.CDLL(None)
    with contextlib.suppress(OSError):
        memory = shared_memory.SharedMemory(name, create=True, size=4096)
        resource_tracker.unregister(memory._name, "shared_memory")
    libc.sem_open(os.fsencode(f"/{name}"), os.O_CREAT, 0o666, 1)


def library_network() -> None:
    """Sockets as a library uses them; descriptors handed to an outsider."""
    denied = ("127.0.0.1", int(os.environ["DENIED_PORT"]))
    must_fail("a connection", lambda: socket.create_connection(denied, 2))
    must_fail("a connection by name", lambda: socket.create_connection(("localhost", denied[1]), 2))

    def hand_out():
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(str(OUTSIDE / "door"))
            return socket.send_fds(door, [b"x"], [0])

    must_fail("a descriptor handed out", hand_out)


def library_files() -> None:
    """The secret, by whatever opens files."""
    secret = OUTSIDE / "secret"
    must_fail("pathlib", lambda: MARK in secret.read_text())
    must_fail("glob", lambda: list(OUTSIDE.glob("*")))
    must_fail("walk", lambda: [name for _, _, names in os.walk(TESTBED) for name in names if name == "secret"])
    must_fail("fd links", lambda: [link for link in map(str, Path("/proc").glob("*/fd/*")) if "outside" in os.readlink(link) and "log" not in os.readlink(link)])
    must_fail("realpath", lambda: MARK in Path(os.path.realpath(TESTBED / "rw/planted")).read_text())


def main() -> None:
    name = sys.argv[1]
    try:
        globals()[name]()
        print(f"{name}: refused (by errors of the library)")
    except Escaped as what:
        print(f"{name}: ESCAPED ({what})")


if __name__ == "__main__":
    main()
