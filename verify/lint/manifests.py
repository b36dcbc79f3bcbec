"""Crates that can be published: described, with a licence and words to be found by, versions on every edge.

crates.io refuses a crate whose dependency has a path and no version, and what is not described is not
found. Crates that say `publish = false` (measurements, checks, the Python module) are left alone.

And examples in documentation are run where there are any, in no other crate: rustdoc takes seconds for each,
examples or not.
"""

from __future__ import annotations

import re
from pathlib import Path

import crate_graph

NEEDED = ("description", "license", "readme", "repository", "keywords", "categories")
KEYWORDS_MAX = 5
ANY_VERSION = "*"
FENCE = re.compile(r"^\s*//[/!]\s*```(.*)$", re.M)
# What rustdoc does not take for Rust, or does not run.
NO_RUST = {"text", "sh", "toml", "c", "python", "console", "ignore"}


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


def examples(sources: list[str]) -> int:
    """How many examples rustdoc would run."""
    # Of each pair of fences the first names the language.
    return sum(words.strip() not in NO_RUST for text in sources for words in FENCE.findall(text)[::2])


def judge_examples(name: str, is_run: bool, sources: list[str]) -> list[str]:
    """At most one line: examples that nothing runs, or none and a run all the same."""
    there = examples(sources) > 0
    if there and not is_run:
        return [f"manifests: {name} has examples in its documentation and `doctest = false`"]
    if is_run and not there:
        return [f"manifests: {name} has no example in its documentation: `doctest = false` below [lib] saves rustdoc's run"]
    return []


def judge_all_examples(packages: list[dict]) -> list[str]:
    """The same for every library."""
    found = []
    for package in packages:
        for target in package["targets"]:
            if {"lib", "rlib", "cdylib"} & set(target["kind"]):
                sources = [path.read_text() for path in sorted(Path(target["src_path"]).parent.rglob("*.rs"))]
                found += judge_examples(package["name"], target["doctest"], sources)
    return found


def check(root: Path) -> list[str]:
    """The lint as lint.py runs it."""
    packages = crate_graph.read_metadata(root)["packages"]
    return judge(packages) + judge_all_examples(packages)
