"""Stories about files, told by one program plainly and under Heliostat: both say the same."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from heliostat_run import Harness, Side

HERE = Path(__file__).resolve().parent
# Wrong arguments are what some of the stories are about.
GCC = "gcc -O2 -Wall -Wextra -Werror -Wno-stringop-overflow -Wno-stringop-overread -pthread -o".split()


def stories() -> list[str]:
    parts = sorted((HERE / "stories").glob("*.c"))
    return [name for part in parts for name in re.findall(r"^    STORY\((\w+)\),$", part.read_text(), re.MULTILINE)]


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    built = tmp_path_factory.mktemp("stories") / "stories"
    subprocess.run([*GCC, built, *(HERE / "stories").glob("*.c")], check=True)
    return built


@pytest.fixture(scope="module")
def shared():
    """One control plane for all."""
    with Harness() as harness:
        yield harness


def told(harness: Harness, side: Side, program: Path, story: str, folder: Path) -> tuple[int, str, str]:
    paths = [folder / "one", folder / "two"]
    for path, pattern in zip(paths, (b"abcdefgh", b"12345678")):
        path.write_bytes(pattern * 5000)
    run = harness.run(side, [program, story, *paths], seconds=60)
    return run.process.returncode, run.output(), run.errors()


@pytest.mark.heliostat
@pytest.mark.parametrize("story", stories())
def test_the_story_is_the_plain_one(shared, program, tmp_path, story):
    plain = told(shared, Side.PLAIN, program, story, tmp_path)
    assert plain[1], plain
    assert told(shared, Side.HELIOSTAT, program, story, tmp_path) == plain


@pytest.mark.heliostat
def test_the_stories_are_about_mapped_files(shared, program, tmp_path):
    """Not natively equal: the writers of this one have leases to break."""
    told(shared, Side.HELIOSTAT, program, "writers_of_the_same_process", tmp_path)
    broken = re.search(r"^heliostat_leases_broken_total (\d+)$", shared.call("metrics"), re.MULTILINE)
    assert int(broken[1]) >= 3
