"""The fixture of the suites: `compare` runs a case plainly and under Heliostat, and compares."""

from __future__ import annotations

import os

import pytest
from heliostat_run import Side
from paths import Stated, stated
from case_run import CaseRun


def pytest_addoption(parser):
    parser.addoption("--plain", action="store_true", help="every program under plain Linux only")


def pytest_configure(config):
    config.addinivalue_line("markers", "root: servers change their user; left out where this one is not root")


def pytest_collection_modifyitems(config, items):
    """What cannot be done is left out, and not skipped: a skipped test would look like an unfinished one."""
    if os.getuid() != 0:
        out = [item for item in items if item.get_closest_marker("root")]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


@pytest.fixture
def compare(request):
    """Runs the steps of a case plainly and under Heliostat; the answers must be the same."""
    plain_only = request.config.getoption("--plain")

    def both(name: str, steps, **options) -> None:
        row = stated(name)
        wanted, _ = run_case(steps, Side.PLAIN, row, options)
        if plain_only:
            return
        found, problems = run_case(steps, Side.HELIOSTAT, row, options)
        assert found == wanted
        assert not problems, "\n".join([f"{name}: paths are not as stated", *problems])

    return both


def run_case(steps, side: Side, row: Stated, options: dict) -> tuple[str, list[str]]:
    """What the case answers with all of its programs on one side, and where paths are not as stated."""
    with CaseRun(side, row, **options) as case:
        answer = steps(case)
        endings = case.end_servers()
        case.check_totals()
        return case.neutral(f"{answer}\n{endings}"), case.problems
