"""Pointers to nothing: an error of the call, never a fault of the program, and no byte lost."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import socket
import struct
import threading

from pair import Talk, read_all, read_exactly

PAGE = 4096
PROT_NONE, PROT_READ, PROT_WRITE = 0, 1, 2
PRIVATE_ANONYMOUS = 0x22
MESSAGE = b"0123456789"
EVERY = 0xFFFF_FFFF_FFFF_FFFF
# Numbers of x86-64's calls.
NUMBERS = {
    "read": 0, "write": 1, "poll": 7, "rt_sigaction": 13, "rt_sigprocmask": 14, "ioctl": 16, "readv": 19, "writev": 20,
    "select": 23, "sendfile": 40, "connect": 42, "sendto": 44, "recvfrom": 45, "sendmsg": 46, "recvmsg": 47,
    "getsockname": 51, "getpeername": 52, "setsockopt": 54, "getsockopt": 55, "fcntl": 72, "epoll_wait": 232,
    "epoll_ctl": 233, "pselect6": 270, "ppoll": 271, "epoll_pwait": 281, "accept4": 288, "recvmmsg": 299,
    "sendmmsg": 307, "openat2": 437, "epoll_pwait2": 441,
}  # fmt: skip
SIOCINQ, FIONBIO = 0x541B, 0x5421

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Memory:
    """A page to write in, and behind it one that nobody may touch."""

    def __init__(self):
        self.room = libc.mmap(None, 2 * PAGE, PROT_READ | PROT_WRITE, PRIVATE_ANONYMOUS, -1, 0)
        self.bad = self.room + PAGE
        assert libc.mprotect(self.bad, PAGE, PROT_NONE) == 0
        self.used = 0

    def put(self, layout: str, *values) -> int:
        """The address of a structure."""
        content = struct.pack(layout, *values)
        self.used = (self.used + 15) & ~15
        at = self.room + self.used
        ctypes.memmove(at, content, len(content))
        self.used += len(content)
        assert self.used < PAGE - 64
        return at

    def edge(self, count: int) -> int:
        """An address with `count` bytes before the forbidden page."""
        return self.bad - count

    def fresh(self) -> None:
        self.used = 0


def call(name: str, *arguments) -> str:
    """A raw call's result, or the name of its error."""
    result = libc.syscall(ctypes.c_long(NUMBERS[name]), *[ctypes.c_ulong(word & EVERY) for word in arguments])
    return str(result) if result >= 0 else errno.errorcode[ctypes.get_errno()]


def say(talk: Talk, memory: Memory, name: str, *variants) -> None:
    """Makes the call in each variant of its arguments."""
    talk.say(name, *[call(name, *arguments) for arguments in variants])
    memory.fresh()


def reads(talk: Talk, memory: Memory, fd: int) -> None:
    """Every way to read from a connection with ten bytes, none of which takes them."""
    bad, half = memory.bad, memory.edge(5)

    def parts(*addresses):
        return memory.put(f"{2 * len(addresses)}Q", *[word for address in addresses for word in (address, 5)])

    def message(array, count):
        return memory.put("QIxxxxQQQQixxxxIxxxx", 0, 0, array, count, 0, 0, 0, 0)

    room, nowhere = memory.room + 2048, 1 << 63
    say(talk, memory, "read", (fd, bad, 10), (fd, half, 10), (fd, nowhere, 10), (fd, room, EVERY))
    say(talk, memory, "recvfrom", (fd, bad, 10, 0, 0, 0), (fd, half, 10, 0, 0, 0), (fd, half, 10, socket.MSG_PEEK, 0, 0),
        (fd, half, 10, socket.MSG_WAITALL, 0, 0), (fd, nowhere, 10, 0, 0, 0))  # fmt: skip
    say(talk, memory, "recvfrom", (fd, room, 10, socket.MSG_PEEK, room, bad), (fd, room, 10, socket.MSG_PEEK, room, 0))
    say(talk, memory, "readv", (fd, bad, 1), (fd, memory.edge(8), 1), (fd, parts(room, bad), 2), (fd, parts(bad), 1),
        (fd, parts(0), 1), (fd, parts(nowhere), 1), (fd, memory.put("QQ", room, EVERY), 1), (fd, room, 1025))  # fmt: skip
    say(talk, memory, "recvmsg", (fd, bad, 0), (fd, memory.edge(16), 0), (fd, 0, 0), (fd, message(bad, 1), 0),
        (fd, message(parts(room, bad), 2), 0), (fd, message(parts(half, half), 2), socket.MSG_PEEK))  # fmt: skip
    say(talk, memory, "recvmmsg", (fd, bad, 1, socket.MSG_DONTWAIT, 0), (fd, memory.edge(32), 1, 0, 0))


def writes(talk: Talk, memory: Memory, fd: int) -> None:
    """Every way to write, none of which sends a byte."""
    bad, half = memory.bad, memory.edge(5)

    def parts(*addresses):
        return memory.put(f"{2 * len(addresses)}Q", *[word for address in addresses for word in (address, 5)])

    def message(array, count, control=0, length=0):
        return memory.put("QIxxxxQQQQixxxxIxxxx", 0, 0, array, count, control, length, 0, 0)

    room = memory.room + 2048
    say(talk, memory, "write", (fd, bad, 10), (fd, half, 10), (fd, 0, 10), (fd, bad, 0), (fd, room, EVERY))
    say(talk, memory, "sendto", (fd, bad, 10, 0, 0, 0), (fd, half, 10, 0, 0, 0), (fd, 1 << 63, 1, 0, 0, 0))
    say(talk, memory, "writev", (fd, bad, 1), (fd, memory.edge(8), 1), (fd, parts(room, bad), 2), (fd, parts(0), 1),
        (fd, parts(bad, room), 2), (fd, memory.put("QQ", room, EVERY), 1), (fd, room, 1025))  # fmt: skip
    say(talk, memory, "sendmsg", (fd, bad, 0), (fd, memory.edge(16), 0), (fd, 0, 0), (fd, message(bad, 1), 0),
        (fd, message(parts(room, bad), 2), 0), (fd, message(parts(room), 1, bad, 64), 0))  # fmt: skip
    say(talk, memory, "sendmmsg", (fd, bad, 1, 0), (fd, memory.edge(32), 1, 0))
    with open(__file__, "rb") as file:
        say(talk, memory, "sendfile", (fd, file.fileno(), bad, 10), (fd, file.fileno(), memory.edge(4), 10))


def waits(talk: Talk, memory: Memory, fd: int) -> None:
    """Waits on a connection that is readable."""
    bad, readable = memory.bad, select.POLLIN

    def entry():
        return memory.put("ihh", fd, readable, 0)

    def second(ns):
        return memory.put("qq", 0, ns)

    def bits():
        return memory.put("32I", *[1 << fd % 32 if place == fd // 32 else 0 for place in range(32)])

    say(talk, memory, "poll", (bad, 1, 0), (memory.edge(4), 1, 0), (0, 1, 0), (bad, 100, 0), (bad, 0, 0), (entry(), 1, 0))
    say(talk, memory, "ppoll", (entry(), 1, bad, 0, 8), (entry(), 1, second(1 << 40), 0, 8), (entry(), 1, second(-1), 0, 8),
        (entry(), 1, 0, bad, 8), (entry(), 1, 0, second(0), 4), (entry(), 1, second(0), second(0), 8))  # fmt: skip
    say(talk, memory, "select", (fd + 1, bad, 0, 0, 0), (fd + 1, bits(), bad, 0, 0), (fd + 1, bits(), 0, bad, second(0)),
        (fd + 1, bits(), 0, 0, bad), (fd + 1, bits(), 0, 0, second(-5)), (fd + 1, bits(), 0, 0, second(0)))  # fmt: skip
    say(talk, memory, "pselect6", (fd + 1, bad, 0, 0, 0, 0), (fd + 1, bits(), 0, 0, bad, 0), (fd + 1, bits(), 0, 0, 0, bad),
        (fd + 1, bits(), 0, 0, 0, memory.put("QQ", bad, 8)), (fd + 1, bits(), 0, 0, second(1 << 40), 0),
        (fd + 1, bits(), 0, 0, 0, memory.put("QQ", bits(), 7)))  # fmt: skip
    limit = memory.put("qq", 20, 0)
    talk.say("time left", call("select", fd + 1, bits(), 0, 0, limit), 10 < struct.unpack("q", ctypes.string_at(limit, 8))[0] < 20)
    memory.fresh()


def sets(talk: Talk, memory: Memory, fd: int) -> None:
    """An epoll set with the connection in it."""
    bad = memory.bad
    with select.epoll() as watch:
        own = watch.fileno()

        def event(mask):
            return memory.put("=IQ", mask, 7)

        add, change, remove = 1, 3, 2
        say(talk, memory, "epoll_ctl", (own, add, fd, bad), (own, add, fd, memory.edge(4)), (own, add, fd, 0),
            (own, change, fd, event(1)), (own, add, fd, event(1)), (own, change, fd, bad), (own, remove, fd, bad),
            (own, add, 0, bad), (own, add, fd, event(1)))  # fmt: skip
        say(talk, memory, "epoll_wait", (own, bad, 1, 0), (own, bad, 1, 1000), (own, memory.edge(6), 4, 0), (own, 1 << 63, 1, 0),
            (own, memory.room, 0, 0), (own, memory.room, -1, 0), (own, memory.edge(12), 4, 1000))  # fmt: skip
        say(talk, memory, "epoll_pwait", (own, memory.room, 1, 0, bad, 8), (own, memory.room, 1, 0, event(0), 7))
        say(talk, memory, "epoll_pwait2", (own, memory.room, 1, bad, 0, 8), (own, memory.room, 1, memory.put("qq", 0, -1), 0, 8),
            (own, bad, 1, memory.put("qq", 0, 0), 0, 8))  # fmt: skip
        once(talk, memory, own, fd)


def once(talk: Talk, memory: Memory, own: int, fd: int) -> None:
    """Events that are told once only: a wait that could not tell them has not used them up."""
    bad, room, change = memory.bad, memory.room + 2048, 3
    edge, one_shot = select.EPOLLIN | select.EPOLLET, select.EPOLLIN | select.EPOLLONESHOT
    for mask in (edge, one_shot, edge | one_shot):
        say(talk, memory, "epoll_ctl", (own, change, fd, memory.put("=IQ", mask, 7)))
        say(talk, memory, "epoll_wait", (own, bad, 1, 0), (own, bad, 8, 1000), (own, memory.edge(6), 4, 1000),
            (own, memory.edge(12), 4, 1000), (own, room, 4, 0))  # fmt: skip
    pipe = os.pipe()
    os.write(pipe[1], b"x")
    say(talk, memory, "epoll_ctl", (own, change, fd, memory.put("=IQ", edge, 7)), (own, 1, pipe[0], memory.put("=IQ", edge, 8)))
    say(talk, memory, "epoll_wait", (own, bad, 4, 1000), (own, memory.edge(18), 4, 1000), (own, room, 4, 0), (own, room, 4, 0))
    for end in pipe:
        os.close(end)


def options(talk: Talk, memory: Memory, fd: int) -> None:
    """What is asked of a connection, and what else a program points to."""
    bad, four = memory.bad, memory.put("i", 4)
    tcp, nodelay, error = socket.IPPROTO_TCP, socket.TCP_NODELAY, socket.SO_ERROR
    say(talk, memory, "setsockopt", (fd, tcp, nodelay, bad, 4), (fd, tcp, nodelay, memory.edge(2), 4), (fd, tcp, nodelay, four, 2),
        (fd, tcp, nodelay, four, 4), (fd, socket.SOL_SOCKET, socket.SO_LINGER, bad, 8))  # fmt: skip
    room = memory.put("q", 0)
    say(talk, memory, "getsockopt", (fd, tcp, nodelay, bad, memory.put("i", 4)), (fd, tcp, nodelay, room, bad),
        (fd, tcp, nodelay, room, memory.put("i", -1)), (fd, tcp, nodelay, room, 0), (fd, tcp, nodelay, room, memory.put("i", 4)),
        (fd, socket.SOL_SOCKET, error, bad, memory.put("i", 4)))  # fmt: skip
    say(talk, memory, "ioctl", (fd, SIOCINQ, bad), (fd, SIOCINQ, 0), (fd, SIOCINQ, room), (fd, FIONBIO, bad))
    say(talk, memory, "getpeername", (fd, bad, memory.put("i", 16)), (fd, room, bad))
    say(talk, memory, "getsockname", (fd, bad, memory.put("i", 16)), (fd, room, bad))
    with socket.socket() as other:
        say(talk, memory, "connect", (other.fileno(), bad, 16), (other.fileno(), memory.edge(8), 16), (other.fileno(), room, 2))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        say(talk, memory, "accept4", (listener.fileno(), bad, bad, 0), (listener.fileno(), bad, bad, 1))
    with open(__file__, "rb") as file:
        say(talk, memory, "fcntl", (file.fileno(), 6, bad), (file.fileno(), 5, bad), (file.fileno(), 5, memory.edge(8)))
    say(talk, memory, "openat2", (-100, bad, room, 24), (-100, memory.put("2s", b"."), bad, 24))
    say(talk, memory, "rt_sigaction", (signal.SIGUSR1, bad, 0, 8), (signal.SIGSEGV, 0, bad, 8), (signal.SIGUSR1, 0, 0, 7))
    say(talk, memory, "rt_sigprocmask", (0, bad, 0, 8), (0, 0, bad, 8), (0, 0, 0, 8))


def every(talk: Talk, connection: socket.socket) -> None:
    """All of it on a connection with ten bytes to read."""
    memory, fd = Memory(), connection.fileno()
    for part in (waits, sets, reads, writes, options):
        part(talk, memory, fd)
    talk.say("queued", connection.recv(len(MESSAGE), socket.MSG_PEEK))


class WildPointers:
    """Each call with each of its pointers wrong, by both ends; nothing is lost or sent by it."""

    def server(talk: Talk):
        connection = talk.accept()
        connection.sendall(MESSAGE)
        connection.recv(len(MESSAGE), socket.MSG_PEEK | socket.MSG_WAITALL)
        every(talk, connection)
        talk.say("read", read_exactly(connection, len(MESSAGE)))
        talk.mark("looked")
        connection.shutdown(socket.SHUT_WR)
        talk.say("rest", read_all(connection))

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(MESSAGE)
        connection.recv(len(MESSAGE), socket.MSG_PEEK | socket.MSG_WAITALL)
        every(talk, connection)
        talk.await_mark("looked")
        connection.shutdown(socket.SHUT_WR)
        talk.say("rest", read_all(connection))


class WildPointersInThreads:
    """The same from a thread of its own, and with the signals of faults blocked or taken."""

    def server(talk: Talk):
        connection, seen = talk.accept(), []
        signal.signal(signal.SIGSEGV, lambda number, _: seen.append(number))

        def body():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGSEGV, signal.SIGBUS])
            connection.recv(len(MESSAGE), socket.MSG_PEEK | socket.MSG_WAITALL)
            every(talk, connection)
            talk.say("still blocked", sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        talk.say("none came", seen)
        os.kill(os.getpid(), signal.SIGSEGV)
        talk.say("this one did", seen, "here nothing is blocked", signal.pthread_sigmask(signal.SIG_BLOCK, []))
        talk.say("read", read_exactly(connection, len(MESSAGE)))

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(MESSAGE)
        talk.say("end", talk.outcome(connection.recv, 1) in ("b''", "ECONNRESET"))


class WildPointersOfLargeTransfers:
    """A buffer that ends in the middle: what was in front of it is moved, or nothing."""

    def server(talk: Talk):
        connection = talk.accept()
        whole = libc.mmap(None, 256 * PAGE, PROT_READ | PROT_WRITE, PRIVATE_ANONYMOUS, -1, 0)
        ctypes.memset(whole, 0x61, 256 * PAGE)
        assert libc.mprotect(whole + 128 * PAGE, PAGE, PROT_NONE) == 0
        sent = libc.syscall(ctypes.c_long(1), connection.fileno(), ctypes.c_void_p(whole), ctypes.c_size_t(256 * PAGE))
        talk.say("some, not all", 0 < sent <= 128 * PAGE)
        talk.say("the next", call("write", connection.fileno(), whole + 128 * PAGE, 100))
        connection.shutdown(socket.SHUT_WR)
        talk.say("as many came", int(read_all(connection)) == sent)

    def client(talk: Talk):
        connection = talk.connect()
        content = read_all(connection)
        talk.say("only these", set(content) == {0x61})
        connection.sendall(str(len(content)).encode())
