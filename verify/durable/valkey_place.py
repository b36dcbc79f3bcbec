"""Which servers of Redis's kind there are: Redis, and Valkey where `make test-durable` has fetched it."""

from __future__ import annotations

from pathlib import Path

from heliostat_run import ROOT
from kept_keys import Kind

VALKEY = ROOT / "target/durable/valkey"


def kinds() -> list[Kind]:
    """Redis comes first."""
    found = [Kind("redis", "redis-server", "redis-check-aof")]
    servers = [path for path in VALKEY.rglob("valkey-server") if path.is_file()]
    return found + [Kind("valkey", str(path), str(path.with_name("valkey-check-aof"))) for path in servers[:1]]
