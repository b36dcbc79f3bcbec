"""Dask hands arrays over as names in cluster memory (`examples/dask_arrays.py`), and gives them back."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples/dask_arrays.py"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="dask and distributed are not installed"
)


@pytest.mark.parametrize("words", [[], ["--kill"]], ids=["as it is", "a worker is killed"])
def test_results_are_right_and_memory_is_given_back(words):
    ended = subprocess.run(
        [sys.executable, EXAMPLE, *words], capture_output=True, text=True, timeout=110
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "handed over as names: True",
        "computed in place: True",
        "regions while results are wanted: True",
        "regions when the client has ended: 0",
    ]
