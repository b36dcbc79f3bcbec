"""Crates that can be published: described, with a licence and words to be found by, versions on every edge.

crates.io refuses a crate whose dependency has a path and no version, and what is not described is not
found. Crates that say `publish = false` (measurements, checks, the Python module) are left alone.
"""

from __future__ import annotations

from pathlib import Path

import crate_graph

NEEDED = ("description", "license", "readme", "repository", "keywords", "categories")
KEYWORDS_MAX = 5
ANY_VERSION = "*"


def judge(packages: list[dict]) -> list[str]:
    """One line for each thing that a published package lacks."""
    found = []
    for package in packages:
        if package["publish"] is not None:
            continue
        name = package["name"]
        found += [f"manifests: {name} has no {field}" for field in NEEDED if not package.get(field)]
        if name in (package["description"] or ""):
            found.append(f"manifests: {name} is described by its name: {package['description']}")
        if len(package["keywords"]) > KEYWORDS_MAX:
            found.append(f"manifests: {name} has {len(package['keywords'])} keywords; {KEYWORDS_MAX} at most")
        found += [
            f"manifests: {name} depends on {dependency['name']} without a version"
            for dependency in package["dependencies"]
            if dependency.get("path") and dependency["kind"] != "dev" and dependency["req"] == ANY_VERSION
        ]
    return found


def check(root: Path) -> list[str]:
    """The lint as lint.py runs it."""
    return judge(crate_graph.read_metadata(root)["packages"])
