"""A part of a grant that is for reading only stays so where a file system ignores case.

`--grant data:rw --grant data/keys:ro` protects data/KEYS too where that is the same folder. File
systems that ignore case are made where the machine can; a second mount of the folder, under the
other spelling, is the same to whoever asks by name.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from heliostat_run import BINARY

pytestmark = [pytest.mark.heliostat, pytest.mark.skipif(os.geteuid() != 0, reason="mounts")]
MIB = 1 << 20
TRIES = """
import os, sys
os.chdir(sys.argv[1])
done = []
def tries(what, way):
    try:
        way()
        done.append(what)
    except OSError:
        pass
tries("written", lambda: open("KEYS/key.pem", "r+"))
tries("made", lambda: open("KEYS/made", "w"))
tries("truncated", lambda: os.truncate("KEYS/key.pem", 0))
tries("mode", lambda: os.chmod("KEYS/key.pem", 0o777))
tries("linked", lambda: os.link("KEYS/key.pem", "mine"))
tries("moved", lambda: os.rename("KEYS/key.pem", "mine"))
tries("removed", lambda: os.unlink("KEYS/key.pem"))
tries("folder made", lambda: os.mkdir("KEYS/made"))
tries("folder moved", lambda: os.rename("KEYS", "mine"))
print(done, open("KEYS/key.pem").read(), open("free", "w").write("x"))
"""


def _mount(kind: str, folder: Path, image: Path) -> bool:
    """Mounts a file system that ignores case, or what is to stand for one."""
    if kind == "twin":
        return True
    commands = {"tmpfs": [["mount", "-t", "tmpfs", "-o", "casefold", "none", folder]]}
    image.touch()
    os.truncate(image, 400 * MIB)
    loop = ["mount", "-o", "loop", image, folder]
    commands["ext4"] = [["mkfs.ext4", "-q", "-F", "-O", "casefold", image], loop]
    commands["xfs"] = [["mkfs.xfs", "-q", "-f", "-n", "version=ci", image], loop]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": False}
    try:
        return all(subprocess.run(command, **quiet).returncode == 0 for command in commands[kind])
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("kind", ["twin", "tmpfs", "ext4", "xfs"])
def test_another_spelling_of_a_protected_folder_is_protected(tmp_path, kind):
    data = tmp_path / "data"
    data.mkdir()
    if not _mount(kind, data, tmp_path / "image"):
        pytest.skip("no such file system can be made here")
    try:
        if kind in ("ext4", "tmpfs"):
            subprocess.run(["chattr", "+F", data], check=True)
        (data / "keys").mkdir()
        (data / "keys/key.pem").write_text("key")
        if kind == "twin":
            (data / "KEYS").mkdir()
            subprocess.run(["mount", "--bind", data / "keys", data / "KEYS"], check=True)
        grants = ["--grant", f"{data}:rw", "--grant", f"{data / 'keys'}:ro"]
        command = [BINARY, "run", "--sealed", *grants, "--", sys.executable, "-c", TRIES, str(data)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.stdout == "[] key 1\n", done
    finally:
        for place in (data / "KEYS", data):
            subprocess.run(["umount", place], stderr=subprocess.DEVNULL, check=False)
