"""The package's build backend: maturin's, with Heliostat's programs built and packed first.

`pip install` of the folder or of a source distribution builds the programs too, so that what is
installed brings everything along. A source distribution holds the crates of the workspace, since
the programs are crates beside this one (sources.py).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import maturin
import programs
import sources
from maturin import (  # noqa: F401  (the hooks that are maturin's alone)
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)


def build_wheel(wheel_directory: str, config_settings=None, metadata_directory=None) -> str:
    """Builds the programs, then the wheel that holds them; its name."""
    root = sources.workspace(Path.cwd())
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target")).resolve()
    os.environ["CARGO_TARGET_DIR"] = str(target)
    # Packed programs are stripped of it, and to write it takes a third of the time.
    os.environ.setdefault("CARGO_PROFILE_RELEASE_DEBUG", "0")
    subprocess.run([os.environ.get("CARGO", "cargo"), *programs.BUILD], cwd=root, check=True)
    programs.pack(target / "release", sources.package(root))
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings=None) -> str:
    """Writes the source distribution; its name."""
    return sources.write(sources.workspace(Path.cwd()), Path(sdist_directory)).name
