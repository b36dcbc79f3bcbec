"""The preloaded library stays small: its tables begin as zeros, which take no room in a file.

Every program under Heliostat maps this file. A table of places that does not begin as zeros (an
empty Vec is no zero, nor is every None) is copied whole into the file, 24 MB for the connections.
"""

import struct

from heliostat_run import BINARY

LIBRARY = BINARY.parent / "libheliostat_posix.so"
# With room for what a build without optimization has more; a table that is stored has megabytes.
DATA_BYTES_MAX = 512 << 10
ZEROS_BYTES_MIN = 16 << 20

NOBITS, WRITE = 8, 1


def sections(elf: bytes) -> list[tuple[int, int, int]]:
    """(type, flags, bytes) of each section of a 64-bit ELF file."""
    assert elf[:5] == b"\x7fELF\x02"
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    rows = (struct.unpack_from("<IIQQQQ", elf, table + place * size) for place in range(count))
    return [(kind, flags, length) for _, kind, flags, _, _, length in rows]


def test_tables_of_the_library_take_no_room_in_its_file():
    found = sections(LIBRARY.read_bytes())
    stored = sum(length for kind, flags, length in found if flags & WRITE and kind != NOBITS)
    zeros = sum(length for kind, flags, length in found if flags & WRITE and kind == NOBITS)
    assert zeros > ZEROS_BYTES_MIN, "the tables are not where this test looks for them"
    assert stored < DATA_BYTES_MAX, f"{stored} bytes of writable data: which static is not zero? nm -S --size-sort"
