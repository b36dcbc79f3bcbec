"""A sealed program's own /tmp and /dev/shm: private, bounded, gone at its end; and its own IPC objects."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, doctor, makes_spaces

pytestmark = pytest.mark.heliostat
ORDINARY = 1000
# As whom: root, an ordinary user in a user namespace, and somebody who can have no namespace at all.
USER = ["setpriv", "--reuid", str(ORDINARY), "--regid", str(ORDINARY), "--clear-groups"]
WITHOUT = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
WHO = {"root": [], "user": USER, "without": WITHOUT} if os.geteuid() == 0 else {"user": []}
MOUNTED = [name for name in WHO if name != "without"]
# Which container HELIOSTAT_BIN is in goes by a variable.
KEPT = {name: os.environ[name] for name in ("PATH", "HELIOSTAT_CONTAINER") if name in os.environ}
# Everything that programs do in a folder for temporary files, by literal names and relative ones.
USES = """
set -e
cd /tmp; mkdir NAME; cd NAME; pwd
cp /bin/echo own; ./own run; /tmp/NAME/own again
ln own second; mv second /tmp/NAME-moved; ln -s NAME-moved /tmp/NAME-link; /tmp/NAME-link linked
exec 5<own; readlink /proc/self/fd/5; cmp /proc/self/fd/5 own
sh -c 'echo child >/tmp/NAME/child'; cat child
sh -c 'echo shared >/dev/shm/NAME'; cat /dev/shm/NAME
"""
SOCKETS = """
import os, socket
server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/socket"); server.listen()
if os.fork() == 0:
    client = socket.socket(socket.AF_UNIX); client.connect("/tmp/socket"); client.sendall(b"through"); os._exit(0)
print(server.accept()[0].recv(64), os.path.exists("/tmp/socket"))
"""


def sealed(who: str, flags: list, script: str, shell=("sh", "-c"), **more) -> subprocess.CompletedProcess:
    with tempfile.TemporaryDirectory(prefix="control-", dir="/var/tmp") as control:
        os.chmod(control, 0o777)
        # Without namespaces /tmp leads to the program's own folder only where nothing below it is granted, as
        # what the stub needs is for a user without a home.
        kept = {**KEPT, "HOME": "/" if has_its_own(who) else control, **more}
        kept["HELIOSTAT_SOCKET"] = f"{control}/control.sock"
        words = [*WHO[who], str(BINARY), "run", "--sealed", *map(str, flags), "--", *shell, script]
        return subprocess.run(words, cwd="/", env=kept, capture_output=True, text=True, timeout=60)


def has_its_own(who: str) -> bool:
    """Whether such a user's programs can have namespaces here."""
    return makes_spaces(*WHO[who])


# What the stub needs is granted where it lies; below /tmp it takes the place of a sealed program's own.
elsewhere = pytest.mark.skipif(BINARY.resolve().is_relative_to("/tmp"), reason="the stub itself lies below /tmp")


def unused_name() -> str:
    """A name that nobody else has in /tmp or /dev/shm."""
    return f"own-{os.urandom(8).hex()}"


def need_its_own(who: str) -> None:
    if not has_its_own(who):
        pytest.skip("no namespaces can be made here")


@pytest.fixture
def outside():
    """A folder of an outsider's in the host's /tmp, with a word in it, where everybody may write."""
    folder = Path(tempfile.mkdtemp(prefix="outside-", dir="/tmp"))
    folder.chmod(0o777)
    (folder / "word").write_text("outside\n")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("who", WHO)
def test_doctor_says_whether_they_can_be_had(who):
    assert has_its_own(who) == (doctor(*WHO[who])["own /tmp and IPC"]["verdict"] == "ok")


@pytest.mark.parametrize("who", MOUNTED)
def test_all_that_programs_do_there_works_by_every_name(who):
    need_its_own(who)
    name = unused_name()
    done = sealed(who, [], USES.replace("NAME", name))
    lines = [f"/tmp/{name}", "run", "again", "linked", f"/tmp/{name}/own", "child", "shared"]
    assert (done.stdout.splitlines(), done.stderr) == (lines, "")
    assert not list(Path("/tmp").glob(f"{name}*")) and not Path("/dev/shm", name).exists()
    served = sealed(who, [], SOCKETS, ("/usr/bin/python3", "-c"))
    assert served.stdout == "b'through' True\n", served.stderr


@elsewhere
def test_without_namespaces_it_is_named_by_the_variable_and_by_a_link():
    who = "without" if "without" in WHO else pytest.skip("only root can start a program without the right to make namespaces")
    name = unused_name()
    script = f'cd "$TMPDIR" && cp /bin/echo own && ./own run && echo text >/tmp/{name} && cat "$TMPDIR/{name}" && ls /tmp; pwd'
    done = sealed(who, [], script)
    *said, place = done.stdout.split()
    assert (said, done.stderr) == (["run", "text", *sorted([name, "own"])], "")
    assert place != "/tmp" and not Path("/tmp", name).exists()
    # Its supervisor ends after it.
    kernel_view.wait_until(lambda: not Path(place).exists(), what="the end of the folder")


@elsewhere
@pytest.mark.parametrize("who", WHO)
def test_nobody_outside_is_seen_and_nobody_sees_it(who, outside):
    script = f'cat {outside}/word; echo mine >/tmp/{outside.name}-made; ls /tmp'
    done = sealed(who, [], script)
    # What the stub needs lies there too, for an ordinary user.
    names = [name for name in done.stdout.split() if not name.startswith("heliostat-")]
    assert names == [f"{outside.name}-made"], done.stderr
    assert not Path(f"{outside}-made").exists()


@pytest.mark.parametrize("who", MOUNTED)
def test_it_is_bounded(who):
    need_its_own(who)
    done = sealed(who, ["--tmp", "1M"], "head -c 600000 /dev/zero >/tmp/a && head -c 600000 /dev/zero >/dev/shm/b")
    assert done.returncode != 0 and "No space left on device" in done.stderr


@pytest.mark.parametrize("who", WHO)
def test_a_grant_shares_the_real_one(who, outside):
    done = sealed(who, ["--grant", "/tmp:rw"], f"cat {outside}/word && echo made >{outside}/new")
    assert (done.stdout, (outside / "new").read_text()) == ("outside\n", "made\n"), done.stderr


@pytest.mark.parametrize("who", WHO)
def test_what_is_granted_below_it_is_there(who, outside):
    (outside / "data").mkdir()
    (outside / "data").chmod(0o777)
    grants = ["--grant", f"{outside}/data:rw", "--grant", f"{outside}/word"]
    script = f"cat {outside}/word; cd {outside}/data && echo x >a && mv a {outside}/data/b && cp {outside}/word c; echo y >{outside}/word"
    done = sealed(who, grants, script)
    assert done.stdout == "outside\n" and "Read-only file system" in done.stderr
    assert (outside / "data/b").read_text() == "x\n" and (outside / "data/c").read_text() == "outside\n"


@pytest.mark.parametrize("who", WHO)
def test_what_is_handed_in_is_not_taken_for_its_own(who, outside):
    """The file outside has the name of one that the program makes in its own folder."""
    script = f"mkdir {outside}; echo own >{outside}/log; chmod 777 /proc/self/fd/1; ln -L /proc/self/fd/1 /tmp/loot; true"
    (outside / "log").touch(0o600)
    if who == "user":
        os.chown(outside / "log", ORDINARY, ORDINARY)
    kept = {**KEPT, "HELIOSTAT_SOCKET": "/nonexistent/control.sock"}
    words = [*WHO[who], str(BINARY), "run", "--sealed", "--", "sh", "-c", script]
    with open(outside / "log", "ab") as log:
        subprocess.run(words, cwd="/", env=kept, stdout=log, stderr=subprocess.PIPE, timeout=60)
    found = (outside / "log").stat()
    assert (found.st_mode & 0o777, found.st_nlink, found.st_size) == (0o600, 1, 0)


@pytest.mark.parametrize("who", WHO)
def test_variables_lead_to_it_unless_their_folder_is_granted(who, outside):
    said = sealed(who, [], 'mktemp | grep -c "$TMPDIR/tmp"; echo "$TMPDIR"', TMPDIR=str(outside))
    count, path = said.stdout.split()
    assert count == "1" and path != str(outside), said.stderr
    assert [one.name for one in outside.iterdir()] == ["word"]
    granted = sealed(who, ["--grant", f"{outside}:rw"], 'echo "$TMPDIR"', TMPDIR=str(outside))
    assert granted.stdout.strip() == str(outside)


@pytest.mark.parametrize("who", MOUNTED)
def test_ipc_objects_are_its_own(who):
    need_its_own(who)
    script = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
key = 0x48656c69
assert libc.shmget(key, 4096, 0o1600) >= 0, os.strerror(ctypes.get_errno())
assert libc.mq_open(b"/heliostat-own", 0o102, 0o600, None) >= 0, os.strerror(ctypes.get_errno())
print("made")
"""
    done = sealed(who, [], script, ("/usr/bin/python3", "-c"))
    assert done.stdout == "made\n", done.stderr
    assert "0x48656c69" not in subprocess.run(["ipcs", "-m"], capture_output=True, text=True).stdout


@pytest.mark.skipif("user" not in WHO, reason="asks for an ordinary user")
def test_owners_are_those_that_everybody_sees():
    script = "import os; f = os.open('/bin/sh', os.O_RDONLY); print(os.fstat(f).st_uid, os.stat('/bin/sh').st_uid, os.getuid(), os.getgroups())"
    done = sealed("user", [], script, ("/usr/bin/python3", "-c"))
    groups = [] if os.geteuid() == 0 else sorted(os.getgroups())
    assert done.stdout == f"0 0 {ORDINARY} {groups}\n", done.stderr
