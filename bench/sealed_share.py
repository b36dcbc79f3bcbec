"""Several programs that read one set at once: how often the device is read for them.

Sealed or not, files are read through the kernel's page cache or from mappings of it, so the
device should be read once, however many programs there are. The set's pages are dropped before.
"""

from __future__ import annotations

from pathlib import Path

import device_reads
from contest import Contest, Value, Workload, judged

PROGRAMS = 4
FILES, MIB_EACH = 4, 16
SIZE = FILES * MIB_EACH << 20
AIM = 1.05
SIZES = "sizes"
# A set of which so little is read was not dropped, or lies on no device.
DROPPED = 0.95


def workloads(contest: Contest) -> list[Workload]:
    """sha1sum over all files; and reads of 512 B, many enough that a file is mapped meanwhile."""
    folder = contest.boxes.folder / "share"
    folder.mkdir()
    paths = device_reads.make_set(folder, FILES, MIB_EACH)
    whose = "the device's count" if device_reads.device_bytes(folder) is not None else "the programs' own count"
    names = " ".join(path.name for path in paths)
    small = f'cd "{folder}" && for name in {names}; do dd if=$name of=/dev/null bs=512 status=none || exit; done'
    found = []
    for called, words in (("sha1sum", ["sha1sum", *paths]), ("dd bs=512", ["/bin/sh", "-c", small])):
        values = {
            "one": Value(f"{called} of {SIZE >> 20} MiB, read from the device ({whose})", SIZES, is_speed=False),
            "all": Value(f"{called}, {PROGRAMS} at once", SIZES, most=AIM, is_speed=False),
        }
        found.append(Workload("share", values, lambda way, words=words: sample(contest, way, words, paths)))
    return found


def sample(contest: Contest, way: str, words: list, paths: list[Path]) -> dict[str, float]:
    """Sizes of the set that one program has read from the device, and several at once."""
    contest.run(way, words)  # Programs and libraries come to memory.
    one = read(contest, way, words, paths, 1)
    if one < DROPPED:
        raise RuntimeError(f"only {one:.2f} sizes of {paths[0].parent} were read from a device after dropping it")
    return {"one": one, "all": read(contest, way, words, paths, PROGRAMS)}


def read(contest: Contest, way: str, words: list, paths: list[Path], count: int) -> float:
    """Has `count` programs read the dropped set; sizes of it that the device was read for."""
    device_reads.forget(paths)
    before = device_reads.device_bytes(paths[0])
    words = words if before is not None else device_reads.telling(words)
    programs = [contest.start(way, words) for _ in range(count)]
    for program in programs:
        program.wait(120)
        judged(program, words)
    if before is None:
        return sum(device_reads.told(program.output()) for program in programs) / SIZE
    return (device_reads.device_bytes(paths[0]) - before) / SIZE
