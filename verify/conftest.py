"""Shared fixtures: a private control plane per test module, and the --plain switch."""

from __future__ import annotations

import pytest
from heliostat_run import House


def pytest_addoption(parser):
    parser.addoption("--plain", action="store_true", help="both ends under plain Linux only")


def pytest_configure(config):
    config.addinivalue_line("markers", "heliostat: needs the built programs; left out by --plain")


def pytest_collection_modifyitems(config, items):
    """--plain leaves out, and does not skip: a skipped test would look like an unfinished one."""
    if config.getoption("--plain"):
        out = [item for item in items if item.get_closest_marker("heliostat")]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


@pytest.fixture(scope="module")
def house(request):
    """A control plane of this test module's own; everything in it ends with the module."""
    with House(plain=request.config.getoption("--plain")) as one:
        yield one
