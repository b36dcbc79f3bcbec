"""Runs the families of cases in a fresh tree: plainly, under Heliostat, and sealed.

`python verify/conformance/three_ways.py [FAMILY...] [--static] [--user]` prints what differs.
A run's outcome is what the program printed and what it left in the tree, so that a call that
reports success and does something else is found too. The tree lies at one place for all runs,
because programs print paths.
"""

from __future__ import annotations

import argparse
import difflib
import os
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from heliostat_run import BINARY, Harness, Side, Way  # noqa: E402

# Nobody, in number: who owns nothing.
ORDINARY = 65534
FOLDERS = {"open": 0o777, "closed": 0o700, "sticky": 0o1777, "shared": 0o2777, "visible": 0o755}
FILES = {"file": 0o644, "private": 0o600, "writable": 0o666, "script": 0o755}
SHOWN = 40


@dataclass(frozen=True)
class Outcome:
    """What a run printed, a line each, and what it left behind."""

    lines: tuple[str, ...]
    tree: tuple[str, ...]


def compiled(folder: Path, static: bool) -> Path:
    """The program with all families."""
    program = folder / ("cases-static" if static else "cases")
    sources = [HERE / "case.c", *sorted((HERE / "families").glob("*.c"))]
    # Wrong arguments are what is tried here, so the compiler's warnings about them are off.
    gcc = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-w", "-pthread", *(["-static"] if static else [])]
    subprocess.run([*gcc, "-o", program, *sources], check=True)
    program.chmod(0o755)
    return program


def families(program: Path) -> list[str]:
    """What the program can run, in its own order."""
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()


def described(path: Path) -> str:
    """What does not differ from run to run of one entry."""
    status = path.lstat()
    line = f"{stat.filemode(status.st_mode)} {status.st_nlink} {status.st_uid}:{status.st_gid}"
    if stat.S_ISLNK(status.st_mode):
        return f"{line} -> {os.readlink(path)}"
    if stat.S_ISREG(status.st_mode):
        return f"{line} {status.st_size} {content(path)}"
    return line


def content(path: Path) -> str:
    """The first bytes of a file; who runs the tests may not be let to read it."""
    try:
        return repr(path.read_bytes()[:100])
    except PermissionError:
        return "closed"


def remove(tree: Path) -> None:
    """Removes a folder, whatever modes were left in it."""
    if tree.exists():
        subprocess.run(["chmod", "-R", "u+rwX", tree], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", tree], check=True)


def walked(tree: Path) -> tuple[str, ...]:
    """Every entry below a folder. Relative to descriptors, because some lie deeper than a path reaches."""
    found = []
    for folder, folders, files, at in os.fwalk(tree):
        os.fchdir(at)
        found += [f"{folder}/{name} {described(Path(name))}" for name in sorted(folders + files)]
        folders.sort()
    os.chdir("/")
    return tuple(found)


@dataclass
class Workshop:
    """Compiled programs, one place for the tree, and control planes for root and for an ordinary user."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="conformance-")))
    harnesses: dict[bool, Harness] = field(default_factory=dict)

    def __enter__(self) -> Workshop:
        self.folder.chmod(0o755)
        self.programs = {static: compiled(self.folder, static) for static in (False, True)}
        return self

    def __exit__(self, *_) -> None:
        for harness in self.harnesses.values():
            harness.__exit__()
        remove(self.folder)

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    def harness(self, ordinary: bool) -> Harness:
        """Entered without a control plane: the first program starts it, as its own user."""
        if ordinary not in self.harnesses:
            harness = Harness(plain=True)
            if ordinary:
                os.chown(harness.folder, ORDINARY, ORDINARY)
            self.harnesses[ordinary] = harness.__enter__()
        return self.harnesses[ordinary]

    def fresh_tree(self) -> None:
        """An empty folder for everybody, with files of root's in it."""
        remove(self.tree)
        self.tree.mkdir()
        self.tree.chmod(0o777)
        for name, mode in FOLDERS.items():
            folder = self.tree / "others" / name
            folder.mkdir(parents=True)
            for file, bits in FILES.items():
                (folder / file).write_text("0123456789")
                (folder / file).chmod(bits)
            folder.chmod(mode)

    def argv(self, way: Way, program: Path, ordinary: bool, family: str) -> list[str]:
        user = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups"] if ordinary else []
        run = [] if way is Way.PLAIN else [str(BINARY), "run"]
        if way is Way.SEALED:
            run += ["--sealed", "--grant", f"{self.tree}:rw", "--grant", f"{program}:ro"]
        return [*user, *run, *(["--"] if run else []), str(program), str(self.tree), family]

    def run(self, way: Way, family: str, static: bool = False, ordinary: bool = False) -> Outcome:
        """Runs one family in a fresh tree."""
        self.fresh_tree()
        argv = self.argv(way, self.programs[static], ordinary, family)
        done = self.harness(ordinary).run(Side.PLAIN, argv, seconds=100, cwd="/")
        told = [*done.output().splitlines(), f"exit {done.process.returncode}", *done.errors().splitlines()]
        return Outcome(tuple(told), walked(self.tree))


# What a sealed program is answered otherwise, on purpose: see "Files" in docs/sealed.md.
LINK_BY_PATH = 'open/second-version how(AT_FDCWD, "link", O_PATH | O_NOFOLLOW, 0, 0): '
OTHERWISE_SEALED = {LINK_BY_PATH + "0 -": LINK_BY_PATH + "-1 EACCES"}


def differences(plain: Outcome, other: Outcome, way: Way) -> list[str]:
    """What the two do not have in common; nothing when they are equal."""
    found = []
    otherwise = OTHERWISE_SEALED if way is Way.SEALED else {}
    lines = tuple(otherwise.get(line, line) for line in plain.lines)
    for ours, theirs in ((lines, other.lines), (plain.tree, other.tree)):
        found += difflib.unified_diff(ours, theirs, "plain", way.value, n=0, lineterm="")
    return found[:SHOWN] + ([f"... and {len(found) - SHOWN} lines more"] if len(found) > SHOWN else [])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--static", action="store_true", help="the statically linked program")
    parser.add_argument("--user", action="store_true", help="as an ordinary user")
    parser.add_argument("--ways", default="unsealed,sealed")
    parser.add_argument("--show", type=int, default=SHOWN)
    asked = parser.parse_args()
    globals()["SHOWN"] = asked.show
    worst = 0
    with Workshop() as shop:
        for family in asked.families or families(shop.programs[False]):
            plain = shop.run(Way.PLAIN, family, asked.static, asked.user)
            for way in map(Way, asked.ways.split(",")):
                found = differences(plain, shop.run(way, family, asked.static, asked.user), way)
                worst |= bool(found)
                print(f"{family} {way.value}: {len(plain.lines)} cases, {'DIFFERENT' if found else 'equal'}", flush=True)
                print("".join(f"    {line}\n" for line in found), end="", flush=True)
    return worst


if __name__ == "__main__":
    sys.exit(main())
