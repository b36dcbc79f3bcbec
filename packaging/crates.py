#!/usr/bin/env python3
"""Asks whether crates.io would take the crates that are published: `crates.py [--verify] [FLAG ...]`.

What is published is every crate of the workspace that does not say `publish = false`. They are packed
together, so that each finds the others of its version, and nothing is uploaded. --verify builds each from
its package; other words go to `cargo publish --dry-run`. Prints their names in the order of publishing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CARGO = os.environ.get("CARGO", "cargo")


def metadata() -> dict:
    """The workspace as cargo sees it."""
    command = [CARGO, "metadata", "--no-deps", "--format-version", "1"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def published(packages: list[dict]) -> list[dict]:
    """The packages that are published, each after those that it depends on."""
    by_name = {one["name"]: one for one in packages if one["publish"] is None}
    # What only tests need is left out: it may go round, and crates.io does not look for it.
    needs = {
        name: {it["name"] for it in one["dependencies"] if it.get("path") and it["kind"] != "dev"} & set(by_name)
        for name, one in by_name.items()
    }
    return [by_name[name] for name in TopologicalSorter(needs).static_order()]


def main() -> int:
    words = sys.argv[1:]
    flags = [word for word in words if word != "--verify"] + ([] if "--verify" in words else ["--no-verify"])
    names = [one["name"] for one in published(metadata()["packages"])]
    chosen = [word for name in names for word in ("--package", name)]
    status = subprocess.run([CARGO, "publish", "--dry-run", "--quiet", *chosen, *flags], cwd=ROOT).returncode
    if status == 0:
        print("\n".join(names))
    return status


if __name__ == "__main__":
    sys.exit(main())
