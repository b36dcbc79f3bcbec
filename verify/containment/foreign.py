"""Objects of the kernel that have no module in Python: file handles, System V and POSIX IPC.

Thin calls into libc for the testbed, which needs one of each kind that a sealed program must
not reach. Every function raises OSError with the call's name.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
IPC_CREAT, IPC_EXCL, IPC_RMID = 0o1000, 0o2000, 0
HANDLE_BYTES_MAX = 128
SIZE = 4096


class FileHandle(ctypes.Structure):
    """struct file_handle of name_to_handle_at(2)."""

    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * HANDLE_BYTES_MAX)]


class QueueAttributes(ctypes.Structure):
    """struct mq_attr."""

    _fields_ = [(name, ctypes.c_long) for name in ("flags", "most", "size", "now", "a", "b", "c", "d")]


def checked(result: int, call: str) -> int:
    """`result`, or the error that errno tells."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def handle_of(path: Path) -> tuple[int, str]:
    """The type and the bytes, in hexadecimal, of a file's handle."""
    handle, mount = FileHandle(HANDLE_BYTES_MAX), ctypes.c_int()
    call = LIBC.name_to_handle_at
    checked(call(-100, os.fsencode(path), ctypes.byref(handle), ctypes.byref(mount), 0), "name_to_handle_at")
    return handle.type, bytes(handle.data[: handle.bytes]).hex()


def segment(key: int, content: bytes) -> int:
    """A System V segment that everybody may use, holding `content`."""
    number = checked(LIBC.shmget(key, SIZE, IPC_CREAT | IPC_EXCL | 0o666), "shmget")
    LIBC.shmat.restype = ctypes.c_void_p
    address = LIBC.shmat(number, None, 0)
    ctypes.memmove(address, content, len(content))
    LIBC.shmdt(ctypes.c_void_p(address))
    return number


def semaphore(key: int) -> int:
    """A System V set of one semaphore that stands at 3."""
    number = checked(LIBC.semget(key, 1, IPC_CREAT | IPC_EXCL | 0o666), "semget")
    checked(LIBC.semctl(number, 0, 16, 3), "semctl")
    return number


def letters(key: int) -> int:
    """A System V message queue with one message in it."""
    number = checked(LIBC.msgget(key, IPC_CREAT | IPC_EXCL | 0o666), "msgget")
    message = ctypes.create_string_buffer(ctypes.string_at(ctypes.byref(ctypes.c_long(1)), 8) + b"letter")
    checked(LIBC.msgsnd(number, message, 6, 0), "msgsnd")
    return number


def remove_ipc(segment_id: int, semaphore_id: int, letters_id: int) -> None:
    """Removes the three; errors do not matter, an attack may have been faster."""
    LIBC.shmctl(segment_id, IPC_RMID, None)
    LIBC.semctl(semaphore_id, 0, IPC_RMID)
    LIBC.msgctl(letters_id, IPC_RMID, None)


def queue(name: str) -> int:
    """A POSIX message queue that everybody may use, with one message in it."""
    attributes = QueueAttributes(0, 4, 64)
    call = LIBC.mq_open
    number = checked(call(os.fsencode(name), os.O_CREAT | os.O_RDWR, 0o666, ctypes.byref(attributes)), "mq_open")
    checked(LIBC.mq_send(number, b"letter", 6, 0), "mq_send")
    return number


def messages_in(queue_number: int) -> int:
    """How many messages wait in a POSIX queue."""
    attributes = QueueAttributes()
    checked(LIBC.mq_getattr(queue_number, ctypes.byref(attributes)), "mq_getattr")
    return attributes.now


def remove_queue(name: str, number: int) -> None:
    """Removes a POSIX queue."""
    LIBC.mq_unlink(os.fsencode(name))
    LIBC.mq_close(number)
