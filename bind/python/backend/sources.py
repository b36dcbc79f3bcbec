"""The source distribution: the workspace's crates, and the package's description at the top.

    heliostat-VERSION/
        PKG-INFO, pyproject.toml    as in bind/python, with that folder in front of its paths
        Cargo.toml, Cargo.lock      the workspace, as it is
        abi/ ... heliostatd/        every crate of it
        bind/python/                the package
"""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path

PACKAGE = "bind/python"
WHOLE = ("Cargo.toml", "Cargo.lock", "LICENSE-MIT", "LICENSE-APACHE", "README.md")
# What a path in the description begins with, by key, as it stands in PACKAGE.
PATHS = (
    (r'^readme = "', f'readme = "{PACKAGE}/'),
    (r'^backend-path = \["', f'backend-path = ["{PACKAGE}/'),
    (r'^python-source = "', f'manifest-path = "{PACKAGE}/Cargo.toml"\npython-source = "{PACKAGE}/'),
    (r'path = "python/', f'path = "{PACKAGE}/python/'),
)


def workspace(here: Path) -> Path:
    """The folder of the workspace: the top of a source distribution, or of a clone."""
    for folder in (here, *here.parents):
        manifest = folder / "Cargo.toml"
        if manifest.is_file() and "workspace" in tomllib.loads(manifest.read_text()):
            return folder
    raise SystemExit(f"there is no Cargo workspace at or above {here}")


def package(root: Path) -> Path:
    """The folder of the package."""
    return root / PACKAGE


def write(root: Path, out: Path) -> Path:
    """Writes heliostat-VERSION.tar.gz into a folder; its path."""
    manifest = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]
    version = manifest["package"]["version"]
    top, description = f"heliostat-{version}", rewritten((package(root) / "pyproject.toml").read_text())
    made = {"pyproject.toml": description, "PKG-INFO": metadata(root, version)}
    path = out / f"{top}.tar.gz"
    # Without times, the same sources give the same file.
    with gzip.GzipFile(path, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, text in made.items():
            add(archive, f"{top}/{name}", text.encode(), 0o644)
        for name in files(root, manifest["members"]):
            file = root / name
            add(archive, f"{top}/{name}", file.read_bytes(), file.stat().st_mode & 0o755)
    return path


def add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    """Adds one file."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def files(root: Path, members: list[str]) -> list[str]:
    """The sources that the workspace builds from, in order: those that git tracks, where it is asked."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True)
    # In a source distribution there is no git, and nothing but sources and what was built.
    found = answer.stdout.splitlines() if answer.returncode == 0 else below(root)
    wanted = tuple(f"{member}/" for member in members)
    return sorted(
        name for name in found if (name in WHOLE or name.startswith(wanted)) and (root / name).is_file()
    )


def below(root: Path) -> list[str]:
    """Every file but what a build leaves."""
    names = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return [name for name in names if not name.startswith("target/") and "/_bin/" not in name and "__pycache__" not in name]


def rewritten(description: str) -> str:
    """The package's description, with paths as they are from the top."""
    for beginning, instead in PATHS:
        description, count = re.subn(beginning, instead, description, flags=re.MULTILINE)
        if count != 1:
            raise SystemExit(f"pyproject.toml has {count} lines with {beginning}")
    return description


def metadata(root: Path, version: str) -> str:
    """PKG-INFO: what an index shows of a source distribution; the wheel's is maturin's."""
    project = tomllib.loads((package(root) / "pyproject.toml").read_text())["project"]
    lines = [
        "Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}",
        f"Summary: {project['description']}", f"License: {project['license']['text']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Classifier: {one}" for one in project["classifiers"]),
        *(f"Requires-Dist: {one}" for one in project["dependencies"]),
        "Description-Content-Type: text/markdown", "",
    ]  # fmt: skip
    return "\n".join(lines) + "\n" + (package(root) / project["readme"]).read_text()
