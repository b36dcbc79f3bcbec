"""A tree that several processes and the outside world change at random stays what the model says."""

from __future__ import annotations

import pytest
import random_tree
from heliostat_run import Harness
from three_ways import Way

OPERATIONS = 15_000

pytestmark = pytest.mark.heliostat


@pytest.fixture(scope="module")
def harness():
    """Without a control plane: the first program starts it."""
    with Harness(plain=True) as one:
        yield one


@pytest.mark.parametrize("seed", [1, 2])
def test_every_way_gives_the_log_of_the_plain_one(harness, tmp_path, seed):
    closings = []
    for way in Way:
        folder = tmp_path / way.value
        folder.mkdir()
        closings.append(random_tree.run(harness, way, OPERATIONS, seed, folder))
    assert closings == closings[:1] * len(closings)


def test_nor_does_a_static_program_find_a_difference(harness, tmp_path):
    random_tree.run(harness, Way.SEALED, OPERATIONS, 3, tmp_path, static=True)
