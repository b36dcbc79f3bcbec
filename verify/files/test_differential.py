"""Readers under Heliostat answer as plain ones do, whatever happens to the files meanwhile."""

from __future__ import annotations

import differential
import pytest

OPERATIONS = 60_000
# Reads that the kernel still makes: files just changed, or too little read.
KERNEL_SHARE_MAX = 0.75


@pytest.mark.heliostat
@pytest.mark.parametrize("seed", [1, 2])
def test_every_answer_is_the_plain_one(harness, tmp_path, seed):
    """Not natively either: a good part of the reads makes no system call."""
    done = differential.run(harness, OPERATIONS, seed, tmp_path)
    assert done["in the kernel"] < KERNEL_SHARE_MAX * done["reads"], done


@pytest.mark.heliostat
def test_a_killed_control_plane_changes_no_answer(harness, tmp_path):
    differential.run(harness, OPERATIONS, 3, tmp_path, kills=True)


@pytest.mark.heliostat
def test_a_sealed_reader_gets_the_same_answers(harness, tmp_path):
    differential.run(harness, OPERATIONS // 2, 4, tmp_path, sealed=True)
