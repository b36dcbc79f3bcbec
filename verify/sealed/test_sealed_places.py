"""What a supervisor keeps on the host, and the control plane's place, where grants reach them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from heliostat_run import BINARY

pytestmark = pytest.mark.heliostat
USER = 54321
as_user = pytest.mark.skipif(os.geteuid() != 0, reason="needs a user of its own, who has no control plane")

IN_SKELETON = """
import glob, os, sys
where, outside = sys.argv[1:]
place = glob.glob(where + "/heliostat-sealed-*")[0]
report = glob.glob(where + "/sealed-*.refused")[0]
done = []
def tries(what, way):
    try:
        way()
        done.append(what)
    except OSError:
        pass
tries("removed", lambda: os.unlink(place + "/proc/cpuinfo"))
tries("linked", lambda: os.symlink(outside, place + "/proc/cpuinfo"))
tries("made", lambda: os.symlink(outside, place + "/proc/4000000"))
tries("renamed", lambda: os.rename(place, where + "/mine"))
tries("covered", lambda: os.symlink("/", place))
tries("said", lambda: open(report, "a"))
tries("unsaid", lambda: os.unlink(report))
os.stat("/proc")
print(done, "cpuinfo" in os.listdir("/proc"))
"""

PLANT = """
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
int main(int count, char **words) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (count > 2)
        mkdir(words[2], 0700);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", words[1]);
    return bind(socket(AF_UNIX, SOCK_SEQPACKET, 0), (struct sockaddr *)&at, sizeof at) == 0 ? 3 : 0;
}
"""


def seal(grants: list[str], environment: dict, program: list, user: int = 0) -> subprocess.CompletedProcess:
    granted = [word for grant in grants for word in ("--grant", grant)]
    words = [str(BINARY), "run", "--sealed", *granted, "--", *map(str, program)]
    if user:
        words = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", *words]
    kept = {"PATH": os.environ["PATH"]}
    return subprocess.run(words, cwd="/", env=kept | environment, capture_output=True, text=True, timeout=60)


def test_what_a_supervisor_keeps_in_a_grant_for_writing_stays_its_own(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "program.py").write_text(IN_SKELETON)
    environment = {"HELIOSTAT_SOCKET": f"{tmp_path}/home/control.sock"}
    program = ["/usr/bin/python3", tmp_path / "program.py", tmp_path / "home", tmp_path / "made"]
    grants = [f"{tmp_path}/home:rw", "/dev/shm:rw", f"{tmp_path}/program.py"]
    done = seal(grants, environment, program)
    assert (done.stdout, done.stderr) == ("[] True\n", "")
    assert not (tmp_path / "made").exists()


@pytest.fixture
def plant():
    """A program that gets no stub and so starts no control plane, in a folder of its user's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plant.c").write_text(PLANT)
        subprocess.run(["gcc", "-static", "-o", folder / "plant", folder / "plant.c"], check=True)
        (folder / "run").mkdir()
        for part in (folder, folder / "run"):
            os.chown(part, USER, USER)
        yield folder / "plant"


NO_STUB = {"HELIOSTAT_STUB": "/nowhere"}


@as_user
def test_place_of_a_control_plane_that_is_not_there_is_not_taken(plant):
    run = plant.parent / "run"
    where = run / "heliostat"
    program = [plant, where / "control.sock", where]
    done = seal([f"{run}:rw"], {**NO_STUB, "XDG_RUNTIME_DIR": str(run)}, program, USER)
    assert (done.returncode, done.stderr) == (0, "")
    assert where.stat().st_mode & 0o777 == 0o700 and not (where / "control.sock").exists()


@as_user
def test_given_socket_that_is_not_there_is_not_taken(plant):
    socket = plant.parent / "run/control.sock"
    grants = [f"{socket.parent}:rw"]
    done = seal(grants, {**NO_STUB, "HELIOSTAT_SOCKET": str(socket)}, [plant, socket], USER)
    assert (done.returncode, done.stderr) == (0, "")


@as_user
def test_folder_that_others_may_write_to_is_not_used(plant):
    run = plant.parent / "run"
    (run / "heliostat").mkdir()
    os.chown(run / "heliostat", USER, USER)
    (run / "heliostat").chmod(0o777)
    done = seal([], {"XDG_RUNTIME_DIR": str(run)}, [plant, "/nowhere"], USER)
    assert done.returncode == 125 and f"{run}/heliostat: its mode is 0777" in done.stderr


def test_new_files_have_the_mask_that_the_program_began_with_until_a_process_sets_its_own(tmp_path):
    """The program lies in the folder it writes to, and is a grant of its own there."""
    program = tmp_path / "makes"
    makes = ": > one; umask 077; : > two; (umask 002; : > three; mkdir four); : > five"
    program.write_text(f"#!/bin/sh\ncd {tmp_path}; {makes}\n")
    program.chmod(0o755)
    words = [str(BINARY), "run", "--sealed", "--grant", f"{tmp_path}:rw", "--grant", f"{program}:ro", "--", str(program)]
    environment = {"PATH": os.environ["PATH"], "HELIOSTAT_SOCKET": f"{tmp_path}-socket/control.sock"}
    done = subprocess.run(words, umask=0o027, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
    expected = {"makes": 0o755, "one": 0o640, "two": 0o600, "three": 0o664, "four": 0o775, "five": 0o600}
    assert modes == {name: oct(mode) for name, mode in expected.items()}
