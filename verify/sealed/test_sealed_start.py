"""How processes of sealed programs start: by an image of libc where one fits, and as ever where none does."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from ways import HERE, Case, Way, outcome, start

pytestmark = pytest.mark.heliostat
MAPPED = ("grep", "-c", "r-xp.*[.]image$", "/proc/self/maps")
PAGE = 4096


def image(harness) -> Path:
    """The one image in this harness's cache."""
    found = [path for path in (harness.folder / "cache/heliostat/sites").glob("*.image") if path.stat().st_size]
    assert len(found) == 1
    return found[0]


def caught(harness) -> str:
    """How many calls a sealed program's stub says are caught, and that it ran."""
    program, _ = start(harness, Way.SEALED, Case(("sh", "-c", "echo $((6 * 7))"), flags=("--verbose",)), "caught")
    assert (program.wait(60), program.output()) == (0, "42\n")
    return re.search(r"\d+ system-call sites of libc are caught[^;]*", program.errors())[0]


def mapped(harness) -> list[str]:
    """How many parts of the image a sealed program has mapped to be executed."""
    return outcome(harness, Way.SEALED, Case(MAPPED), "mapped").output


def test_sealed_processes_map_an_image(harness):
    assert mapped(harness) == ["2"], "its trampolines, and the text"
    assert outcome(harness, Way.UNSEALED, Case(MAPPED), "mapped").output == ["0"]


def damage(path: Path, what: str):
    """Makes an image unfit, all but the last way in a way that its header shows."""
    whole = bytearray(path.read_bytes())
    if what == "cut":
        path.write_bytes(whole[:-PAGE])
    elif what == "changed header":
        whole[40] ^= 1
        path.write_bytes(whole)
    elif what == "of another libc":  # What libc has at a site is not what the image says.
        whole[PAGE + 8] ^= 1
        path.write_bytes(whole)
    elif what == "empty":
        path.write_bytes(b"")
    else:
        os.chmod(path, 0o666)


@pytest.mark.parametrize("what", ["cut", "changed header", "of another libc", "empty", "writable by others"])
def test_an_image_that_does_not_fit_is_left_alone(harness, what):
    with_image = caught(harness)
    path = image(harness)
    damage(path, what)
    assert caught(harness) == with_image
    assert mapped(harness) == ["0"]
    path.unlink()
    assert mapped(harness) == ["2"], "it is made again"


@pytest.fixture(scope="module")
def cancelled(tmp_path_factory):
    program = tmp_path_factory.mktemp("cancelled") / "cancelled"
    source = HERE / "sources/cancelled.c"
    subprocess.run(["gcc", "-std=gnu17", "-O1", "-Wall", "-o", program, source, "-pthread"], check=True)
    return program


def test_cancelled_threads_clean_up_through_the_image(harness, cancelled):
    for way in (Way.PLAIN, Way.SEALED):
        found = outcome(harness, way, Case((cancelled,), (cancelled.parent,)), "cancelled")
        assert (found.status, found.output) == (0, ["cleaned 20"])


def test_what_leads_to_grants_is_made_when_somebody_looks(harness):
    words = ("sh", "-c", "for at in / /etc /dev; do ls -ld $at; done; ls / /etc | sort")
    found = outcome(harness, Way.SEALED, Case(words), "looks")
    modes = [line.split()[0] for line in found.output[:3]]
    assert (found.status, modes) == (0, ["drwxr-xr-x"] * 3)
    assert {"bin", "dev", "etc", "proc", "usr", "passwd", "ld.so.cache"} <= set(found.output)
