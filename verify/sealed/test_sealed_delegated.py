"""Sealed programs that delegate operations on files: what is granted works, nothing else is reached."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
import threading
import tomllib
from pathlib import Path

import pytest
from c_programs import BINDING, built, run_sealed
from heliostat_run import Side, makes_spaces
from ways import HERE

pytestmark = pytest.mark.heliostat
BYTES = 3_000_001
LARGE = 256 * 1024
# heliostat_completion: cached, filled or the kernel's page cache; the server's device or the program's own ring.
CACHES = {f"{LARGE} by way {way}" for way in (1, 2, 4)}
DEVICE = {f"{LARGE} by way {way}" for way in (3, 5)}
# renameat2(2).
AT_FDCWD, EXCHANGE = -100, 2


@pytest.fixture(scope="module")
def example(tmp_path_factory) -> Path:
    """The example of the C library: reads a file in batches, appends to another by its name."""
    return built(BINDING / "examples/delegated.c", tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="module")
def steps(tmp_path_factory) -> Path:
    """Does one step for each word."""
    return built(HERE / "sources/delegated.c", tmp_path_factory.mktemp("c"))


@pytest.fixture
def place():
    """A folder on no file system of a sealed program's own, with a granted part and one outside."""
    with tempfile.TemporaryDirectory(prefix="sealed-delegated-", dir="/var/tmp") as name:
        folder = Path(name)
        for part in ("rw/inner", "ro", "outside"):
            (folder / part).mkdir(parents=True)
        for part in ("rw/file", "rw/inner/kept", "ro/file", "outside/secret"):
            (folder / part).write_text(f"{part}\n")
        yield folder


def granted(place: Path) -> list:
    """A grant for writing with one for reading in it, and one for reading."""
    grants = [f"{place}/rw:rw", f"{place}/rw/inner:ro", f"{place}/ro:ro"]
    return ["--delegate", *(word for grant in grants for word in ("--grant", grant))]


def lines(harness, steps: Path, place: Path, *words, flags: tuple = ()) -> list[str]:
    """What the steps came to; names among their words are below the place."""
    words = [f"{place}/{word}" if "/" in str(word) and str(word)[0] != "/" else word for word in words]
    done = run_sealed(harness, [*granted(place), *flags, "--grant", steps], [steps, *words])
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout.splitlines()


def test_the_c_example_reads_and_appends_sealed(harness, place, example):
    content = bytes(at * 7 % 251 for at in range(BYTES))
    (place / "rw/sample").write_bytes(content)
    (place / "rw/sample.log").touch()
    done = run_sealed(harness, [*granted(place), "--grant", example], [example, place / "rw/sample"])
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stdout.startswith(f"{BYTES} bytes, sum {sum(content)};"), done.stdout
    assert (place / "rw/sample.log").read_text() == "added up\n"
    counted = harness.status()["delegated"]
    assert counted["operations_read"] >= BYTES // 65536 and counted["failed"] == 0, counted


def test_without_the_policy_it_is_refused_and_told_which_flag_grants_it(harness, place, example):
    (place / "rw/sample").write_text("text")
    flags = ["--verbose", "--grant", f"{place}/rw:rw", "--grant", example]
    done = run_sealed(harness, flags, [example, place / "rw/sample"])
    assert done.returncode == 1 and "heliostat_delegated_start(" in done.stderr, done.stderr
    assert "to delegate operations on files, which --delegate would grant" in done.stderr, done.stderr


def test_names_are_judged_as_those_of_plain_calls(harness, place, steps):
    (place / "rw/link").symlink_to(place / "outside/secret")
    found = lines(harness, steps, place, "read", "rw/file", "read", "ro/file", "read", "rw/inner/kept", "make", "rw/made", "new",
                  "append", "rw/made", "er", "list", "rw/inner")  # fmt: skip
    assert found == ["read: 8 rw/file", "", "read: 8 ro/file", "", "read: 14 rw/inner/kept", "", "make: 3", "append: 2", "list: done", "  kept"]
    assert (place / "rw/made").read_text() == "newer"
    assert (place / "rw/made").stat().st_mode & 0o777 == 0o640
    reads = ["outside/secret", "rw/../outside/secret", "rw/link", "outside/none"]
    found = lines(harness, steps, place, *(word for name in reads for word in ("read", name)))
    assert len(found) == len(reads) and all("No such file" in line or "ENOENT" in line for line in found), found
    writes = ["ro/file", "rw/inner/kept", "outside/secret"]
    found = lines(harness, steps, place, *(word for name in writes for word in ("write", name, "x")))
    assert len(found) == len(writes) and not any(line[-1].isdigit() for line in found), found
    for name in (*writes, "rw/file"):
        assert (place / name).read_text() == f"{name}\n"


def test_changes_of_names_are_the_programs_own(harness, place, steps):
    found = lines(harness, steps, place, "mkdir", "rw/folder", "rename", "rw/file", "rw/folder/moved", "new", "rw/folder/moved",
                  "rw/inner/kept", "link", "moved", "rw/folder/link", "follow", "rw/folder/link")  # fmt: skip
    assert found[:2] == ["mkdir: done", "rename: done"] and found[2] != "new: done"
    assert found[3:] == ["link: done", "follow: done", "  moved"]
    assert (place / "rw/folder").stat().st_mode & 0o777 == 0o750
    assert (place / "rw/folder/moved").read_text() == "rw/file\n"
    refused = lines(harness, steps, place, "mkdir", "outside/made", "unlink", "outside/secret", "unlink", "rw/inner/kept",
                    "rename", "rw/folder/moved", "outside/moved", "rename", "rw/folder/moved", "rw/inner/kept",
                    "link", "x", "ro/link")  # fmt: skip
    assert len(refused) == 6 and not any("done" in line for line in refused), refused
    found = lines(harness, steps, place, "unlink", "rw/folder/link", "raw", "rw/folder/moved", "alone", "ro/file")
    assert found[:3] == ["unlink: done", "raw: -13", "alone: done"] and "  locked: done" != found[3], found
    assert (place / "rw/folder/moved").exists() and not (place / "outside/made").exists()


def test_a_child_delegates_under_the_same_policy(harness, place, steps):
    found = lines(harness, steps, place, "fork", "rw/file", "fork", "outside/secret")
    assert found[0] == "read: 8 rw/file" and "secret" not in "".join(found[1:]).replace("outside/secret", ""), found


def test_a_large_read_takes_the_way_that_was_asked_for(harness, place, steps):
    (place / "rw/large").write_bytes(bytes(LARGE))
    plain = harness.run(Side.PLAIN, [steps, "ways", place / "rw/large"]).output().splitlines()
    for printed in (plain, lines(harness, steps, place, "ways", "rw/large")):
        found = dict(line.split(": ", 1) for line in printed)
        assert found["buffered"] in CACHES and found["named"] in CACHES, found
        assert found["both"] == found["other"] == "Invalid argument (os error 22)", found
        # On overlay, as in containers, it is not always read past the caches.
        assert on_overlay(place) or (found["any"] in DEVICE and found["direct"] in DEVICE), found


def on_overlay(place: Path) -> bool:
    kind = subprocess.run(["stat", "-f", "-c", "%T", place], capture_output=True, text=True, check=True).stdout
    return kind.strip() == "overlayfs"


def test_what_lies_in_a_temporary_folder_of_its_own_is_delegated_only_where_that_is_one_of_the_hosts(harness, place, steps):
    name = f"/tmp/own-{os.urandom(8).hex()}"
    found = lines(harness, steps, place, "make", name, "text")
    # Without a mount of its own it is a folder that the control plane sees, too.
    refused = f"make: Operation not supported (os error {errno.EOPNOTSUPP})"
    assert found == [refused if makes_spaces() else "make: 4"]
    assert not os.path.exists(name), "its /tmp is another than the host's"


def test_names_that_an_outsider_exchanges_never_lead_outside(harness, place, steps):
    """An outsider has the name mean the secret by turns, as fast as it can."""
    import ctypes

    libc, stop = ctypes.CDLL(None), threading.Event()
    (place / "rw/link").symlink_to(place / "outside/secret")
    names = [os.fsencode(place / name) for name in ("rw/file", "rw/link")]

    def exchange() -> None:
        while not stop.is_set():
            libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], EXCHANGE)

    outsider = threading.Thread(target=exchange)
    outsider.start()
    try:
        found = lines(harness, steps, place, *["read", "rw/file"] * 300)
    finally:
        stop.set()
        outsider.join()
    assert not any("outside" in line for line in found), found
    assert any(line == "read: 8 rw/file" for line in found), "it was never read"


def test_a_traced_run_writes_that_it_delegates(harness, place, steps):
    policy = place / "policy.toml"
    done = run_sealed(harness, ["--trace-policy", policy], [steps, "read", place / "rw/file"])
    assert done.stdout.startswith("read: 8 rw/file"), (done.stdout, done.stderr)
    written = tomllib.loads(policy.read_text())
    assert written["delegate"] is True, policy.read_text()
    again = run_sealed(harness, ["--policy", policy], [steps, "read", place / "rw/file"])
    assert again.stdout == done.stdout, (again.stdout, again.stderr)
    policy.write_text(policy.read_text().replace("delegate = true", "delegate = false"))
    refused = run_sealed(harness, ["--policy", policy], [steps, "read", place / "rw/file"])
    assert refused.returncode == 1 and refused.stdout.startswith("start:"), refused.stdout


def test_files_of_a_sealed_session_are_shown_to_people(harness, place, steps):
    lines(harness, steps, place, "read", "rw/file", "raw", "rw/file")
    denials = {denial["right"]: denial for denial in harness.status()["denials"]}
    assert denials["name"]["by"] == "the connection is restricted", denials
