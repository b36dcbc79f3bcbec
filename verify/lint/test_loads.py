"""What load generators print: a rate is one of connections that have all been answered."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "verify")]

from remote.servers import replies_per_second  # noqa: E402

# Of a run at a rate of 20,000 on plain Linux.
SAID = """
Total: connections 4268 requests 4213 replies {replies} test-duration 61.858 s
Errors: total {failed} client-timo 61 socket-timo 0 connrefused 0 connreset 46
Errors: fd-unavail 5732 addrunavail 0 ftab-full 0 other 0
"""


def test_replies_of_a_run_make_a_rate():
    assert replies_per_second(SAID.format(replies=6186, failed=0)) == pytest.approx(100, rel=0.01)


def test_connections_that_failed_make_none():
    with pytest.raises(RuntimeError, match="5839 connections failed"):
        replies_per_second(SAID.format(replies=4161, failed=5839))
