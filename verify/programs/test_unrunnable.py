"""Programs that cannot be run: the status is what env(1) gives."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from heliostat_run import BINARY

pytestmark = pytest.mark.heliostat

# Root passes every folder, so the commands run as somebody else.
AS_NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.getuid() == 0 else []


@pytest.fixture
def unreadable(tmp_path):
    """A program in a folder that only its owner, if anybody, may pass."""
    folder = tmp_path / "closed"
    folder.mkdir()
    shutil.copy("/bin/true", folder / "program")
    folder.chmod(0)
    yield folder / "program"
    folder.chmod(0o700)


def status(harness, before: list[str], name: str, **environment: str) -> int:
    """How a command ends that shall run `name`."""
    done = subprocess.run(
        [*AS_NOBODY, *before, name], env={**harness.environment(), **environment}, capture_output=True, timeout=60, check=False
    )
    return done.returncode


RUN = [str(BINARY), "run", "--"]


@pytest.mark.parametrize("before", [["/usr/bin/env"], RUN, [str(BINARY), "run", "--sealed", "--"]])
def test_a_program_in_an_unreadable_folder_ends_with_126(harness, unreadable, before):
    assert status(harness, before, str(unreadable)) == 126


@pytest.mark.parametrize("before", [["/usr/bin/env"], RUN])
def test_a_name_that_only_an_unreadable_folder_may_hold_ends_with_126(harness, unreadable, before):
    path = f"/usr/bin:{unreadable.parent}"
    assert status(harness, before, "program", PATH=path) == 126


@pytest.mark.parametrize("before", [["/usr/bin/env"], RUN])
def test_a_program_below_a_file_ends_with_126_and_none_with_127(harness, before):
    assert status(harness, before, "/etc/passwd/program") == 126
    assert status(harness, before, "/etc/no-such-program") == 127
