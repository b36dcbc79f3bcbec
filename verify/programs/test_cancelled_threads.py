"""Threads that are cancelled end as on plain Linux: their cleanup runs, found by unwinding the stack."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from heliostat_run import ROOT, Harness, Side

pytestmark = pytest.mark.heliostat

SOURCE = ROOT / "interpose/tests/c/cancel.c"
ROUNDS = 200
POINTS = ("read", "recv", "accept", "poll", "epoll_wait", "sleep", "busy")


LOADER = """
#include <dlfcn.h>
int main(int count, char **words) {
    int (*part)(int, char **) = dlsym(dlopen(words[1], RTLD_NOW), "part");
    return part(count - 1, words + 1);
}
"""


def compiled(to: Path, source: Path, *flags: str) -> Path:
    subprocess.run(["cc", "-O1", "-w", "-pthread", *flags, "-o", to, source], check=True)
    return to


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> list:
    """It has the unwinder from the start."""
    return [compiled(tmp_path_factory.mktemp("cancelled") / "cancel", SOURCE, "-fexceptions")]


@pytest.fixture(scope="module")
def loading(tmp_path_factory) -> list:
    """The unwinder comes with a library that is loaded later."""
    made = tmp_path_factory.mktemp("loading")
    (made / "loader.c").write_text(LOADER)
    part = compiled(made / "part.so", SOURCE, "-fexceptions", "-shared", "-fPIC", "-Dmain=part")
    return [compiled(made / "loader", made / "loader.c"), part]


def ended(harness: Harness, words: list, point: str) -> list[int]:
    """Threads that were cancelled, and cleanup handlers that ran: those that were pushed, and those in frames."""
    run = harness.run(Side.HELIOSTAT, [*words, point, ROUNDS])
    assert run.process.returncode == 0, run.errors()
    return [int(word) for word in run.output().split() if word.isdigit()]


@pytest.mark.parametrize("point", POINTS)
def test_a_thread_that_waits_is_unwound(harness, program, point):
    assert ended(harness, program, point) == [ROUNDS] * 3


@pytest.mark.parametrize("way", ["program", "loading"])
def test_a_thread_in_a_caught_call_is_unwound(harness, way, request):
    """All but those that are struck where the compiler expects nothing, a few on plain Linux too."""
    cancelled, pushed, unwound = ended(harness, request.getfixturevalue(way), "copies")
    assert cancelled == ROUNDS
    assert pushed == unwound >= ROUNDS * 0.9
