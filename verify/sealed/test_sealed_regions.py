"""Memory regions of sealed programs: by the names of their policy, done by the control plane."""

from __future__ import annotations

from pathlib import Path

import pytest
from c_programs import BINDING, built, run_sealed

pytestmark = pytest.mark.heliostat
GRANTED = ["--region", "example/*:allocate", "--region", "example/shared:write"]


@pytest.fixture(scope="module")
def example(tmp_path_factory) -> Path:
    """The example of the C library: a program that makes a region, and another that maps it."""
    return built(BINDING / "examples/memory.c", tmp_path_factory.mktemp("c"))


def test_the_c_example_shares_a_region_sealed_and_maps_nothing(harness, example):
    done = run_sealed(harness, [*GRANTED, "--grant", example], [example])
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stdout.strip() == "200000 counted, 2097152 bytes, delegated"


def test_without_the_name_it_is_refused_and_told_which_flag_grants_it(harness, example):
    for flags in [[], ["--region", "other:allocate"]]:
        done = run_sealed(harness, ["--verbose", *flags, "--grant", example], [example])
        assert done.returncode != 0
        assert "--region example/shared:allocate" in done.stderr, done.stderr
