"""Leaves PostgreSQL out where it is not installed, or cannot be run as its own user."""

from __future__ import annotations

import os
from pathlib import Path


def pytest_configure(config):
    config.addinivalue_line("markers", "postgres: runs a server of PostgreSQL's, as its user, which takes root")


def pytest_collection_modifyitems(config, items):
    """What cannot be done is left out, and not skipped: a skipped test would look like an unfinished one."""
    if os.getuid() == 0 and list(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        return
    out = [item for item in items if item.get_closest_marker("postgres")]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]
