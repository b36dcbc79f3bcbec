"""What happens to a mount when something ends: the control plane, its server, a program, the right to mount."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, Harness, Side, doctor
from mounts import ORDINARY, Holder, holder_program, mount_type, mounted, servers, why_not  # noqa: F401
from regions import socket_of, start_control

pytestmark = [
    pytest.mark.heliostat,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
AS_USER = ["setpriv", "--reuid", str(ORDINARY), "--regid", str(ORDINARY), "--clear-groups", "--"]
DENIED = {errno.EIO, errno.ENOTCONN, errno.ECONNABORTED}


@pytest.fixture
def harness():
    """A control plane that stays while no program runs."""
    with Harness(plain=True) as one:
        start_control(one)
        yield one


@pytest.fixture
def open_device():
    """The device as most systems have it, for everybody."""
    before = stat.S_IMODE(os.stat("/dev/fuse").st_mode)
    os.chmod("/dev/fuse", 0o666)
    yield
    os.chmod("/dev/fuse", before)


def fails(act) -> int:
    """The error number of what must fail."""
    with pytest.raises(OSError) as error:
        act()
    return error.value.errno


def test_a_control_plane_that_is_gone_is_an_error_at_once_and_the_mount_works_with_the_next(harness, holder_program):  # noqa: F811
    holder = Holder.start(harness, holder_program)
    holder.tell("snapshot heat 1048576")
    holder.tell("publish 7")
    with mounted(harness) as folder:
        with open(folder / "snapshot/heat/current", "rb") as opened:
            assert opened.read(8) == (7).to_bytes(8, "little")
            control = harness.control_plane()
            os.kill(control, signal.SIGKILL)
            kernel_view.wait_until(lambda: control not in kernel_view.processes() or not harness.processes().count(control), 60, "its end")
            for name in ("status", "lock/a", "memory/a", "net/a", "rpc/a"):
                assert fails((folder / name).read_bytes) == errno.EIO
            assert fails(lambda: os.listdir(folder / "memory")) == errno.EIO
            # What is open needs nobody, and what was attached to is found by its name.
            opened.seek(524288)
            assert opened.read(8) == (7).to_bytes(8, "little")
            assert (folder / "snapshot/heat/current").read_bytes()[:8] == (7).to_bytes(8, "little")
        holder.kill()
        os.unlink(socket_of(harness))
        start_control(harness)
        kernel_view.wait_until(lambda: works(folder / "status"), 60, "the mount to work again")
        follower = Holder.start(harness, holder_program)
        follower.tell("region after 4096 0 0")
        follower.tell("poke 0 again")
        assert (folder / "memory/after").read_bytes()[:5] == b"again"


def works(path: Path) -> bool:
    """Whether it can be read."""
    try:
        return bool(path.read_bytes())
    except OSError:
        return False


def test_a_control_plane_that_is_stopped_blocks_nobody_for_ever(harness):
    with mounted(harness) as folder:
        control = harness.control_plane()
        os.kill(control, signal.SIGSTOP)
        try:
            readers = [threading.Thread(target=works, args=(folder / "status",)) for _ in range(20)]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join(60)
            assert not any(reader.is_alive() for reader in readers)
        finally:
            os.kill(control, signal.SIGCONT)
        kernel_view.wait_until(lambda: works(folder / "status"), 60, "the mount to work again")


def test_a_killed_mount_leaves_nothing(harness, holder_program):  # noqa: F811
    holder = Holder.start(harness, holder_program)
    holder.tell("snapshot heat 1048576")
    holder.tell("publish 7")
    with mounted(harness) as folder:
        assert mount_type(folder) == "fuse.heliostat"
        (server,) = servers(folder)
        opened = os.open(folder / "snapshot/heat/current", os.O_RDONLY)
        os.kill(server, signal.SIGKILL)
        kernel_view.wait_until(lambda: mount_type(folder) is None, 60, "the mount to go")
        assert fails(lambda: os.pread(opened, 8, 0)) in DENIED
        assert fails(lambda: os.close(opened)) in DENIED
        assert os.listdir(folder) == []
        assert holder.tell("publish 8").startswith("version")


def test_a_mount_that_is_taken_away_ends_its_server(harness):
    with mounted(harness) as folder:
        (server,) = servers(folder)
        subprocess.run(["umount", folder], check=True, timeout=60)
        kernel_view.wait_until(lambda: not Path(f"/proc/{server}").exists() or servers(folder) == [], 60, "its end")
    with mounted(harness) as folder:
        (server,) = servers(folder)
        os.kill(server, signal.SIGTERM)
        kernel_view.wait_until(lambda: mount_type(folder) is None, 60, "the mount to go")


def test_a_folder_that_is_none_is_refused(harness, tmp_path):
    for wrong in (tmp_path / "none", Path("/etc/passwd")):
        done = subprocess.run([BINARY, "mount", wrong], env=harness.environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and str(wrong) in done.stderr, done.stderr


@NEEDS_ROOT
@pytest.mark.skipif(shutil.which("fusermount3") is None, reason="no fusermount3")
def test_an_ordinary_user_mounts_and_sees_what_that_user_may(harness, holder_program, open_device):  # noqa: F811
    # Read (1) for others, and nothing.
    roots = Holder.start(harness, holder_program)
    roots.tell("region shown 4096 0 1")
    roots.tell("poke 0 open")
    hidden = Holder.start(harness, holder_program)
    hidden.tell("region hidden 4096 0 0")
    own = Holder.start(harness, holder_program, *AS_USER)
    own.tell("region mine 4096 0 0")
    with users_folder() as folder, users_binary() as binary:
        words = [*AS_USER, binary, "mount", folder]
        done = subprocess.run(words, env=harness.environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        try:
            # The control plane lists others' regions to its owner alone.
            assert as_user("ls", f"{folder}/memory").split() == ["mine"]
            assert as_user("ls", "-l", f"{folder}/memory/mine").startswith("-rw-------")
            for wrong in (["cat", f"{folder}/memory/~0/hidden"], ["cat", f"{folder}/memory/~0/shown"]):
                assert subprocess.run([*AS_USER, *wrong], capture_output=True).returncode != 0, wrong
            # Not even root, as the mount is one user's.
            assert fails(lambda: os.listdir(folder)) == errno.EACCES
        finally:
            taken = subprocess.run([*AS_USER, "fusermount3", "-u", folder], capture_output=True, text=True, timeout=60)
        assert taken.returncode == 0, taken.stderr
        assert mount_type(Path(folder)) is None


@NEEDS_ROOT
@pytest.mark.skipif(shutil.which("fusermount3") is None, reason="no fusermount3")
def test_an_ordinary_users_mount_that_is_killed_is_taken_away(harness, open_device):
    with users_folder() as folder, users_binary() as binary:
        words = [*AS_USER, binary, "mount", folder]
        done = subprocess.run(words, env=harness.environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        (server,) = servers(Path(folder))
        os.kill(server, signal.SIGKILL)
        kernel_view.wait_until(lambda: mount_type(Path(folder)) is None, 60, "the mount to go")


@NEEDS_ROOT
def test_without_the_device_the_commands_do_the_same(harness, holder_program, tmp_path):  # noqa: F811
    holder = Holder.start(harness, holder_program)
    holder.tell("snapshot heat 65536")
    holder.tell("publish 7")
    holder.tell("region kv 4096 0 0")
    holder.tell("poke 0 hello")
    empty = 'mount -t tmpfs -o dev none /dev && mknod -m 666 /dev/null c 1 3 && exec "$@"'
    hidden = ["unshare", "--mount", "sh", "-c", empty, "sh"]
    call = lambda *words: subprocess.run(  # noqa: E731
        [*hidden, BINARY, *map(str, words)], env=harness.environment(), capture_output=True, timeout=60
    )
    refused = call("mount", tmp_path)
    assert refused.returncode == 1 and b"/dev/fuse" in refused.stderr and b"heliostat ls" in refused.stderr
    assert doctor(*hidden)["names as files (mount)"]["verdict"] == "warn"
    assert call("ls").stdout.split() == [b"lock/", b"memory/", b"net/", b"rpc/", b"sessions/", b"snapshot/", b"status", b"store/"]
    assert call("ls", "/memory").stdout == b"kv\n"
    assert b"rw" in call("ls", "-l", "/memory").stdout
    assert call("cat", "/snapshot/heat/current").stdout == (7).to_bytes(8, "little") * 8192
    assert call("cat", "/memory/kv").stdout[:5] == b"hello"
    (tmp_path / "new").write_bytes(b"world")
    assert call("cp", tmp_path / "new", "/memory/kv").returncode == 0
    assert holder.tell("peek 0 5") == "peeked world"
    assert call("cp", "/snapshot/heat/current", tmp_path).returncode == 0
    assert (tmp_path / "current").stat().st_size == 65536
    for wrong in (["cat", "/memory/none"], ["cat", "/memory"], ["cp", "a", "b"], ["cp", tmp_path / "new", "/status"]):
        assert call(*wrong).returncode == 1, wrong
    (tmp_path / "long").write_bytes(bytes(8192))
    too_long = call("cp", tmp_path / "long", "/memory/kv")
    assert too_long.returncode == 1 and b"behind its last byte" in too_long.stderr


@NEEDS_ROOT
def test_a_user_namespace_mounts_for_who_is_in_it(open_device):
    with users_folder() as folder, users_folder() as place, users_binary() as binary:
        # The control plane is one of that space, too.
        inside = f"{binary} mount {folder} && cat {folder}/status && umount {folder} && {binary} stop && rm -r {place}/*"
        space = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inside]
        environment = {**os.environ, "HELIOSTAT_SOCKET": f"{place}/control.sock"}
        done = subprocess.run([*AS_USER, *space], env=environment, capture_output=True, text=True, timeout=60)
    if "unshare" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0 and '"sessions"' in done.stdout, done.stderr


@contextlib.contextmanager
def users_folder():
    """A folder of the ordinary user's."""
    folder = tempfile.mkdtemp(prefix="helio-user-", dir="/var/tmp")
    os.chown(folder, ORDINARY, ORDINARY)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], capture_output=True)
        os.rmdir(folder)


@contextlib.contextmanager
def users_binary():
    """The programs where every user may run them: the build may lie in somebody's own folder."""
    folder = Path(tempfile.mkdtemp(prefix="helio-bin-"))
    folder.chmod(0o755)
    for name in ("heliostat", "heliostatd"):
        shutil.copy(BINARY.parent / name, folder / name)
    try:
        yield str(folder / "heliostat")
    finally:
        shutil.rmtree(folder)


def as_user(*words: str) -> str:
    """An ordinary program's output, for the ordinary user."""
    done = subprocess.run([*AS_USER, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_many_readers_of_many_names_at_once(harness, holder_program):  # noqa: F811
    holder = Holder.start(harness, holder_program)
    holder.tell("snapshot heat 262144")
    holder.tell("publish 1")
    for number in range(40):
        holder.tell(f"region many/{number} 4096 0 0")
    with mounted(harness) as folder:
        ends, faults = time.monotonic() + 5, []

        def read() -> None:
            while time.monotonic() < ends and not faults:
                try:
                    assert len(os.listdir(folder / "memory/many")) == 40
                    for number in range(0, 40, 7):
                        assert len((folder / f"memory/many/{number}").read_bytes()) == 4096
                    assert len((folder / "snapshot/heat/current").read_bytes()) == 262144
                except (OSError, AssertionError) as error:
                    faults.append(error)

        readers = [threading.Thread(target=read) for _ in range(16)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(120)
        assert not faults and not any(reader.is_alive() for reader in readers)
        # Nothing stays pinned, attached to twice or open.
        (server,) = servers(folder)
        before = len(os.listdir(f"/proc/{server}/fd"))
        for _ in range(100):
            (folder / "snapshot/heat/current").read_bytes()
            (folder / "memory/many/3").read_bytes()
        kernel_view.wait_until(lambda: len(os.listdir(f"/proc/{server}/fd")) <= before, 60, "descriptors to be closed")
