"""Runs every fuzz target of the project: `python verify/fuzz.py --seconds 60 [--only NAME]`.

Targets are the binaries of the crates in fuzz/*, built with coverage counters by the stable
compiler. Each starts from its stored corpus, prints its seed (libFuzzer's -seed replays it)
and keeps what it finds beside the build. What is foreign, and which target feeds on it:

    request, config, report   what the control plane reads          fuzz/control
    policy                    policy files of sealed programs       fuzz/control
    operation                 records of delegated operations       fuzz/control
    memory_peer               other nodes' messages about memory    fuzz/control
    rpc_peer                  other nodes' messages about functions fuzz/control
    hand                      connections handed to a loop          fuzz/control
    store_record              what is asked of the store           fuzz/control
    cores_record              how cores are to be parted, journals of it  fuzz/control
    socket_record             what is asked of delegated sockets    fuzz/control
    listener_record           what is asked of shared listeners     fuzz/control
    plugin_record             what a listener's plug-in says, and is asked  fuzz/listener
    load_page                 pages of a listener's workers         fuzz/listener
    lean_completions          rings as a lean worker's host writes them  fuzz/lean
    lean_text                 HELIOSTAT_LEAN, by which a worker attaches  fuzz/lean
    reply                     what a stub reads on its socket       fuzz/stub
    slot_foreign              slots of a channel, scribbled on      fuzz/stub
    region_foreign            tables and pins of snapshots, the same fuzz/stub
    lane_foreign              one direction of a stream, the same   fuzz/ring
    ring_foreign              a ring of elements, the same          fuzz/ring
    file                      snapshot files                        fuzz/snapfile
    store                     superblocks and tables of stores      fuzz/storefile
    area                      logs on devices                       fuzz/log
    areas                     operations on areas of a store        fuzz/store
    wire                      what comes from other nodes           fuzz/transport
    foreign                   what sealed programs hand in          fuzz/supervisor
    site_list                 the cached list of libc's sites       fuzz/interpose

An ordinary `cargo test` replays the stored corpora.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Inputs take milliseconds; one that takes longer than this loops, and is a finding. It leaves
# room for a machine that is busy with other things.
INPUT_SECONDS = 20
TRIPLE = "x86_64-unknown-linux-gnu"
# What cargo-fuzz sets, less the sanitizer, which needs the nightly compiler.
COUNTERS = (
    "-Cpasses=sancov-module -Ccodegen-units=1 -Cdebug-assertions=on "
    "-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters "
    "-Cllvm-args=-sanitizer-coverage-pc-table"
)


def targets(crate: Path) -> list[str]:
    """Names of a fuzz crate's binaries."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    packages = json.loads(subprocess.run(command, cwd=crate, check=True, capture_output=True).stdout)["packages"]
    return [t["name"] for p in packages for t in p["targets"] if "bin" in t["kind"]]


def build(crate: Path, into: Path) -> None:
    """Builds all targets of a crate with counters."""
    environment = {**os.environ, "RUSTFLAGS": COUNTERS, "CARGO_TARGET_DIR": str(into)}
    subprocess.run(["cargo", "build", "--release", "--target", TRIPLE], cwd=crate, check=True, env=environment)


def run(crate: Path, into: Path, name: str, seconds: int) -> bool:
    """Runs one target from its corpus; whether it found nothing."""
    found, corpus = into / "found" / name, crate / "corpus" / name
    found.mkdir(parents=True, exist_ok=True)
    command = [into / TRIPLE / "release" / name, f"-max_total_time={seconds}", "-max_len=4096",
               f"-timeout={INPUT_SECONDS}", f"-artifact_prefix={found}/", found]  # fmt: skip
    return subprocess.run(command + ([corpus] if corpus.is_dir() else [])).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", help="one target's name")
    asked = parser.parse_args()
    broken, done = [], 0
    for manifest in sorted(ROOT.glob("fuzz/*/Cargo.toml")):
        crate = manifest.parent
        into = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "fuzz" / crate.name
        names = [name for name in targets(crate) if asked.only in (None, name)]
        build(crate, into) if names else None
        for name in names:
            done += 1
            broken += [] if run(crate, into, name, asked.seconds) else [f"{crate.name}/{name}"]
    print(f"fuzz: {done} targets, {asked.seconds} s each; broken: {', '.join(broken) or 'none'}")
    return 1 if broken or not done else 0


if __name__ == "__main__":
    sys.exit(main())
