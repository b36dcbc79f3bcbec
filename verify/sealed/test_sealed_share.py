"""Sealed programs that read one set at once have the device read for them once.

Bytes are counted, not time: the kernel's count for the programs themselves and what the control
plane had read meanwhile, so that nobody else's reads are in it.
"""

from __future__ import annotations

import device_reads
import pytest
from heliostat_run import Harness, Side, Way
from ways import Case, command, surroundings

pytestmark = pytest.mark.heliostat
PROGRAMS, FILES, MIB = 4, 2, 4
SIZE = FILES * MIB << 20
READER = """
import os, sys
size, paths = int(sys.argv[1]), sys.argv[2:]
mapped = []
for path in paths:
    file = os.open(path, os.O_RDONLY)
    for _ in range(2):
        for at in range(0, os.fstat(file).st_size, size):
            assert len(os.pread(file, size, at)) == size
    mapped.append(path in open("/proc/self/maps").read())
print(all(mapped), any(mapped))
"""
# How the reads are made, and whether files are mapped in the end.
READS = {
    "mapped": ({}, 1024, "True True"),
    "large": ({}, 1 << 20, "False False"),
    "mapping off": ({"HELIOSTAT_FILES": "0"}, 1024, "False False"),
    "without the stub": ({"HELIOSTAT_STUB": "/nonexistent"}, 1024, "False False"),
}


@pytest.mark.parametrize("reads", READS)
def test_programs_that_read_one_set_read_the_device_once(harness: Harness, tmp_path, reads):
    paths = device_reads.make_set(tmp_path, FILES, MIB)
    read(harness, paths, 1, reads)  # Programs and libraries come to memory.
    device_reads.forget(paths)
    one = read(harness, paths, 1, reads)
    if one == 0:
        pytest.skip(f"{tmp_path} is on no device whose reads the kernel counts for processes")
    assert one >= 0.95 * SIZE
    device_reads.forget(paths)
    assert 0.95 * SIZE <= read(harness, paths, PROGRAMS, reads) <= 1.05 * SIZE


def read(harness: Harness, paths: list, count: int, reads: str) -> int:
    """Bytes that devices were read for while `count` sealed programs read everything twice."""
    more, size, is_mapped = READS[reads]
    reader = device_reads.telling(["/usr/bin/python3", "-c", READER, size, *paths])
    words = command(Way.SEALED, Case(tuple(reader), (f"{paths[0].parent}:ro",)), None)
    environment = surroundings(paths[0].parent) | more
    before = device_reads.process_bytes(harness.control_plane())
    programs = [harness.start(Side.PLAIN, words, env=environment) for _ in range(count)]
    for program in programs:
        assert program.wait() == 0, program.errors()
        assert program.output().splitlines()[0] == is_mapped
    own = sum(device_reads.told(program.output()) for program in programs)
    return own + device_reads.process_bytes(harness.control_plane()) - before
