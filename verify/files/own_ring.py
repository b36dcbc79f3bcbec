"""Reads a file by the program's own io_uring, and maps another beside it: own_ring.py LIBRARY DEVICE_FILE CACHED_FILE.

Prints the way of the first read (5 is the own ring), its first byte, and what `heliostat explain` says.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

# HELIOSTAT_DIRECT, names.h.
DIRECT = 4


class Piece(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_uint64), ("bytes", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


class File(ctypes.Structure):
    _fields_ = [("index", ctypes.c_uint32), ("generation", ctypes.c_uint32), ("epoch", ctypes.c_uint64)]


class Operation(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32), ("timeout_us", ctypes.c_uint32), ("file", File), ("offset", ctypes.c_uint64),
        ("tag", ctypes.c_uint64), ("pieces", ctypes.POINTER(Piece)), ("count", ctypes.c_size_t), ("argument", ctypes.c_uint64),
    ]  # fmt: skip


class Completion(ctypes.Structure):
    _fields_ = [("tag", ctypes.c_uint64), ("result", ctypes.c_int64), ("way", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


def read_directly(library: ctypes.CDLL, path: str) -> Completion:
    """One page of a file that is shown for the device."""
    session, file, done, submitted = ctypes.c_void_p(), File(), Completion(), ctypes.c_size_t()
    assert library.heliostat_delegated_start(ctypes.c_size_t(1 << 20), ctypes.byref(session)) == 0
    descriptor = os.open(path, os.O_RDONLY)
    assert library.heliostat_delegated_show(session, descriptor, DIRECT, ctypes.byref(file)) == 0
    piece = Piece(0, 4096, 0)
    read = Operation(1, 0, file, 0, 7, ctypes.pointer(piece), 1, 0)
    assert library.heliostat_delegated_submit(session, ctypes.byref(read), ctypes.c_size_t(1), ctypes.byref(submitted)) == 0
    assert library.heliostat_delegated_wait(session, ctypes.c_int64(20_000), ctypes.byref(done)) == 0
    return done


def main() -> None:
    library, direct, cached = sys.argv[1:]
    done = read_directly(ctypes.CDLL(library), direct)
    print(f"way {done.way} result {done.result}", flush=True)
    descriptor = os.open(cached, os.O_RDONLY)
    assert all(os.pread(descriptor, 64, at) == bytes(64) for at in range(20_000))
    subprocess.run([os.environ["HELIOSTAT_BIN"], "explain", str(os.getpid())], check=True)


main()
