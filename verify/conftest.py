"""Shared fixtures: a private control plane per test module, and the switches --plain and --long."""

from __future__ import annotations

import signal

import pytest
from heliostat_run import Harness

# They have commands of their own: `make test-suites`, `make test-package`.
collect_ignore = ["suites", "package"]


def pytest_addoption(parser):
    parser.addoption("--plain", action="store_true", help="both ends under plain Linux only")
    parser.addoption("--long", action="store_true", help="also what takes many minutes")


def pytest_configure(config):
    config.addinivalue_line("markers", "heliostat: needs the built programs; left out by --plain")
    config.addinivalue_line("markers", "long: takes many minutes; run with --long only")
    heed_signals()


def heed_signals():
    """Programs inherit what is ignored: SIGINT by what a shell runs in the background, SIGHUP by nohup."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_collection_modifyitems(config, items):
    """--plain leaves out, and does not skip: a skipped test would look like an unfinished one."""
    unwanted = {"heliostat"} if config.getoption("--plain") else set()
    unwanted |= set() if config.getoption("--long") else {"long"}
    out = [item for item in items if any(item.get_closest_marker(name) for name in unwanted)]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]


@pytest.fixture(scope="module")
def harness(request):
    """A control plane of this test module's own; everything in it ends with the module."""
    with Harness(plain=request.config.getoption("--plain")) as one:
        yield one
