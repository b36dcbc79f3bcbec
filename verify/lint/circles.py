"""Circles of modules inside a crate.

Modules beside each other that use each other in a circle cannot be read, tested or moved one by one.
The list names the circles that there are; it only shrinks, and a new crate has none. A module may
use its parent, and a parent its children. Run this file to print today's.

    circles.txt:   <folder of the parent>: <module> <module> ...
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path, PurePosixPath

from atomics import production
from lengths import tracked

LIST = "verify/lint/circles.txt"
USE = re.compile(r"\b(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
INLINE = re.compile(r"\b((?:crate|super|self)(?:::\w+)+)")
COMMENT = re.compile(r"//[^\n]*")
Module = tuple[str, ...]


def module_of(path: str) -> tuple[str, Module] | None:
    """(folder of the crate's sources, module) of a file below some src/."""
    folder, found, rest = path.partition("src/")
    if not found or not rest.endswith(".rs"):
        return None
    parts = PurePosixPath(rest).with_suffix("").parts
    if parts[-1] in ("mod", "lib", "main"):
        parts = parts[:-1]
    return folder + "src", tuple(parts)


def expand(tree: str) -> list[str]:
    """The paths that a use tree names, without renames: `a::{b, c::d}` is a::b and a::c::d."""
    before, brace, inside = tree.partition("{")
    if not brace:
        return [tree.split(" as ")[0].strip()]
    inside = inside.rpartition("}")[0]
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(inside + ","):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts.append(inside[start:at].strip())
            start = at + 1
    return [before.strip() + path for part in parts if part for path in expand(part)]


def named(module: Module, path: str) -> Module | None:
    """The module or item that a path names, from the crate's root; None for another crate's."""
    first, *rest = path.split("::")
    if first == "crate":
        return tuple(rest)
    base = module
    if first == "self":
        return base + tuple(rest)
    if first != "super":
        return None
    base = base[:-1]
    while rest and rest[0] == "super":
        base, rest = base[:-1], rest[1:]
    return base + tuple(rest)


def edges(files: dict[str, str]) -> dict[str, set[tuple[Module, Module]]]:
    """Of each crate the uses between modules beside each other: (one, other), each from the root."""
    modules: dict[str, dict[Module, str]] = defaultdict(dict)
    for path, text in files.items():
        place = module_of(path)
        code = COMMENT.sub("", production(path, text))
        if place and code:
            modules[place[0]][place[1]] = code
    found = defaultdict(set)
    for crate, codes in modules.items():
        known = {module[:length] for module in codes for length in range(len(module) + 1)}
        for module, code in codes.items():
            paths = [path for use in USE.findall(code) for path in expand(" ".join(use.split()))]
            for path in paths + INLINE.findall(code):
                target = named(module, path)
                while target and target not in known:
                    target = target[:-1]
                if not target:
                    continue
                same = 0
                while same < min(len(module), len(target)) and module[same] == target[same]:
                    same += 1
                if same < min(len(module), len(target)):
                    found[crate].add((module[: same + 1], target[: same + 1]))
    return found


def circles_of(edges_of_crate: set[tuple[Module, Module]]) -> list[frozenset[Module]]:
    """The sets of more than one module in which each reaches each other."""
    after = defaultdict(set)
    for one, other in edges_of_crate:
        after[one].add(other)
    reached: dict[Module, set[Module]] = {}
    for start in list(after):
        seen, left = set(), [start]
        while left:
            for other in after.get(left.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    left.append(other)
        reached[start] = seen
    found = {
        frozenset(other for other in seen if start in reached.get(other, ()))
        for start, seen in reached.items()
        if start in seen
    }
    return [circle for circle in found if len(circle) > 1]


def circles(files: dict[str, str]) -> dict[str, set[frozenset[str]]]:
    """Of each folder the circles among the modules in it."""
    found = defaultdict(set)
    for crate, edges_of_crate in edges(files).items():
        for circle in circles_of(edges_of_crate):
            parent = "/".join((crate, *next(iter(circle))[:-1]))
            found[parent].add(frozenset(module[-1] for module in circle))
    return found


def lines(found: dict[str, set[frozenset[str]]]) -> list[str]:
    """The circles as the list has them."""
    return sorted(f"{folder}: {' '.join(sorted(circle))}" for folder, each in found.items() for circle in each)


def judge(files: dict[str, str], listed: list[str]) -> list[str]:
    """One line for each circle that is not listed as it is, and for each entry that is none any more."""
    found = lines(circles(files))
    new = [f"circles: {line}: new, larger or smaller than listed in {LIST}" for line in found if line not in listed]
    old = [f"circles: {line}: is not so any more: {LIST}" for line in listed if line not in found]
    return new + old


def read_list(text: str) -> list[str]:
    """The listed circles; blank lines and # comments are skipped."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def check(root: Path) -> list[str]:
    """The lint as lint.py runs it."""
    return judge(tracked(root), read_list((root / LIST).read_text()))


if __name__ == "__main__":
    for line in lines(circles(tracked(Path(__file__).resolve().parents[2]))):
        sys.stdout.write(line + "\n")
