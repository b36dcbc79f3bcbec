"""Threads that wait in calls, and signals that one of them, or all, may handle."""

import ctypes
import os
import signal
import socket
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)


def opened(path: str) -> str:
    """open(2) once, without Python's own trying again: what it answered."""
    ctypes.set_errno(0)
    number = libc.open(path.encode(), os.O_RDONLY)
    return "opened" if number >= 0 else os.strerror(ctypes.get_errno())


def of_all():
    """A signal of the whole process finds one of two threads that wait."""
    heard, said = [], []
    signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    signal.siginterrupt(signal.SIGALRM, True)
    beside = threading.Thread(target=lambda: said.append(opened("second")))
    beside.start()
    time.sleep(0.3)
    # Again and again, for the first may come before the call on a busy machine.
    signal.setitimer(signal.ITIMER_REAL, 0.3, 1)
    print("first:", opened("first"), flush=True)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("heard:", bool(heard))
    os.close(os.open("second", os.O_WRONLY))
    beside.join()
    print("second:", *said)


def of_the_other():
    """The first thread blocks the signal, so the second handles it, and its call is made again."""
    said = []
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, False)

    def second():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        said.append(opened("second"))

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    beside = threading.Thread(target=second)
    beside.start()
    time.sleep(0.3)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    time.sleep(1)
    os.close(os.open("second", os.O_WRONLY))
    beside.join()
    print("second:", *said)


def broken_stream():
    """A thread that blocks SIGPIPE is told of a broken stream; nobody else hears of it."""
    ours, theirs = socket.socketpair()
    theirs.close()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)

    def send():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
        try:
            # Python asks for no signal, sendmsg(2) by itself does not.
            libc.sendmsg(ours.fileno(), message(b"x"), 0)
            print(os.strerror(ctypes.get_errno()))
        finally:
            print("pending:", signal.SIGPIPE in signal.sigpending())

    beside = threading.Thread(target=send)
    beside.start()
    beside.join()
    time.sleep(0.1)
    print("alive")


def long_message():
    """A stream takes a long message whole, however many bytes it has room for."""
    ours, theirs = socket.socketpair()
    parts = [bytes([number]) * (1 << 20) for number in range(6)] + [b"end"]
    seen = []

    def read():
        while data := theirs.recv(1 << 16):
            seen.append(data)

    beside = threading.Thread(target=read)
    beside.start()
    print(ours.sendmsg(parts))
    ours.close()
    beside.join()
    print(b"".join(seen) == b"".join(parts))


def crowd():
    """A hundred threads that wait for room in one queue all get their turn."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("listener")
    listener.listen(0)
    said = []

    def connect():
        one = socket.socket(socket.AF_UNIX)
        try:
            one.connect("listener")
            said.append("connected")
        except OSError as error:
            said.append(str(error))

    threads = [threading.Thread(target=connect) for _ in range(100)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    kept = []
    while said.count("connected") == len(said) < len(threads) or len(kept) < said.count("connected"):
        kept.append(listener.accept())
        time.sleep(0.01)
    print(len(kept), sorted(set(said)), flush=True)
    os._exit(0)


def message(data: bytes):
    """A `msghdr` with one buffer; the parts are kept alive by it."""
    buffer = ctypes.create_string_buffer(data, len(data))
    vector = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), len(data))
    header = (ctypes.c_uint64 * 7)(0, 0, ctypes.addressof(vector), 1, 0, 0, 0)
    header.parts = (buffer, vector)
    return header


for path in ("first", "second"):
    os.mkfifo(path)
globals()[sys.argv[1]]()
