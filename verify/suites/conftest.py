"""The fixture of the suites: `play` runs a case plainly and under Heliostat, and compares."""

from __future__ import annotations

import os

import pytest
from heliostat_run import Side
from paths import Stated, stated
from stage import Stage


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
def play(request):
    """Runs `act` on a plain stage and on one under Heliostat; its answers must be the same."""
    plain_only = request.config.getoption("--plain")

    def both(case: str, act, **options) -> None:
        row = stated(case)
        wanted, _ = perform(act, Side.PLAIN, row, options)
        if plain_only:
            return
        found, problems = perform(act, Side.HELIOSTAT, row, options)
        assert found == wanted
        assert not problems, "\n".join([f"{case}: paths are not as stated", *problems])

    return both


def perform(act, side: Side, row: Stated, options: dict) -> tuple[str, list[str]]:
    """What the case answers with all of its programs on one side, and where paths are not as stated."""
    with Stage(side, row, **options) as stage:
        answer = act(stage)
        endings = stage.end_servers()
        stage.check_totals()
        return stage.neutral(f"{answer}\n{endings}"), stage.problems
