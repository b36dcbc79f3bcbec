"""One way out of a program after an fdatasync(2): `python durable_ways.py WAY FILE FOLDER [PORT]`.

The program writes into FILE and flushes it, and notes in FILE when that returned, and how long it
took; what it does next somebody else can see. The other side (test_durable.py) notes when it saw
what was done: not before the device had answered.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

ROUNDS = 3
# Seconds of calls that look, and do nothing else.
YIELDED = 2


def flushed(file: int) -> tuple[float, float]:
    """Appends and flushes; when that returned, and how long the flush took."""
    os.write(file, b"x" * 100 + b"\n")
    began = time.monotonic()
    os.fdatasync(file)
    ended = time.monotonic()
    return ended, ended - began


class Ways:
    """Each method does one thing that shows; what it needs was made before the flush."""

    def __init__(self, folder: str, port: int) -> None:
        self.folder, self.out, self.other = folder, 1, os.open(f"{folder}/other", os.O_RDWR | os.O_CREAT)
        self.connection = socket.create_connection(("127.0.0.1", port)) if port else None
        self.local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if os.path.exists(f"{folder}/local"):
            self.local.connect(f"{folder}/local")
        self.source = os.open(__file__, os.O_RDONLY)
        self.ready = threading.Event()
        self.named = 0

    def name(self) -> str:
        self.named += 1
        return f"{self.folder}/name-{self.named}"

    # Pipes and files.
    def pipe(self) -> None:
        os.write(self.out, b"!")

    def pipe_vector(self) -> None:
        os.writev(self.out, [b"!", b""])

    def pipe_splice(self) -> None:
        os.splice(self.source, self.out, 1, offset_src=0)

    def pipe_sendfile(self) -> None:
        os.sendfile(self.out, self.source, 0, 1)

    def pipe_of_thread(self) -> None:
        thread = threading.Thread(target=self.pipe)
        thread.start()
        thread.join()

    def other_file(self) -> None:
        os.write(self.other, b"!")

    def other_file_at(self) -> None:
        os.pwrite(self.other, b"!", os.fstat(self.other).st_size)

    def other_file_copied(self) -> None:
        os.copy_file_range(self.source, self.other, 1, 0, os.fstat(self.other).st_size)

    def other_file_longer(self) -> None:
        os.ftruncate(self.other, os.fstat(self.other).st_size + 1)

    def folder_made(self) -> None:
        os.mkdir(self.name())

    def file_made(self) -> None:
        os.close(os.open(self.name(), os.O_CREAT | os.O_WRONLY))

    def link_made(self) -> None:
        os.symlink("/", self.name())

    # Sockets.
    def native_send(self) -> None:
        self.connection.send(b"!")

    def native_write(self) -> None:
        os.write(self.connection.fileno(), b"!")

    def native_message(self) -> None:
        self.connection.sendmsg([b"!"])

    def local_send(self) -> None:
        self.local.send(b"!")

    def descriptor_sent(self) -> None:
        socket.send_fds(self.local, [b"!"], [self.source])

    # Processes.
    def signal_sent(self) -> None:
        os.kill(os.getppid(), signal.SIGUSR1)

    def child_forked(self) -> None:
        child = os.fork()
        if child == 0:
            os.write(self.out, b"!")
            os._exit(0)
        os.waitpid(child, 0)

    def child_spawned(self) -> None:
        subprocess.run(["/bin/echo", "-n", "!"], stdout=self.out, check=True)

    def lock_released(self) -> None:
        fcntl.flock(self.other, fcntl.LOCK_UN)

    def mapping_made(self) -> None:
        with mmap.mmap(self.other, 4096) as memory:
            memory[self.named] = 33
        self.named += 1

    def end(self) -> None:
        os._exit(0)

    def image(self) -> None:
        os.execv("/bin/echo", ["echo", "-n", "!"])

    # Direct connections: one byte out, and then a wait of each kind.
    def direct_send_then_receive(self) -> None:
        self.connection.send(b"!")
        self.connection.recv(1)

    def direct_write_then_poll(self) -> None:
        os.write(self.connection.fileno(), b"!")
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        poll.poll()
        self.connection.recv(1)

    def direct_vector_then_select(self) -> None:
        os.writev(self.connection.fileno(), [b"!", b""])
        select.select([self.connection], [], [])
        self.connection.recv(1)

    def direct_message_then_epoll(self) -> None:
        with select.epoll() as epoll:
            epoll.register(self.connection, select.EPOLLIN)
            self.connection.sendmsg([b"!"])
            while not epoll.poll():
                pass
        self.connection.recv(1)

    def direct_more_then_receive(self) -> None:
        self.connection.send(b"!", socket.MSG_MORE)
        self.connection.recv(1)

    def direct_send_then_spin(self) -> None:
        self.connection.send(b"!")
        self.connection.setblocking(False)
        while True:
            try:
                self.connection.recv(1)
                break
            except BlockingIOError:
                pass
        self.connection.setblocking(True)

    def direct_send_then_sleep(self) -> None:
        self.connection.send(b"!")
        time.sleep(0.3)
        self.connection.recv(1)

    def direct_send_then_yield(self) -> None:
        self.connection.send(b"!")
        ends = time.monotonic() + YIELDED
        while time.monotonic() < ends:
            os.sched_yield()

    def direct_send_of_thread(self) -> None:
        thread = threading.Thread(target=self.connection.send, args=(b"!",))
        thread.start()
        thread.join()
        self.connection.recv(1)

    def direct_then_native(self) -> None:
        self.connection.send(b"!")
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self.connection.recv(1)

    def direct_left_before(self) -> None:
        # `main` has made it leave: what comes in has not followed yet, since nothing was read since.
        self.connection.send(b"!")
        self.connection.recv(1)

    def direct_sendfile(self) -> None:
        os.sendfile(self.connection.fileno(), self.source, 0, 1)
        self.connection.recv(1)

    def direct_shut(self) -> None:
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.recv(1)

    def direct_closed(self) -> None:
        self.connection.close()


# These can be done once only.
ONCE = {"end", "direct_send_then_yield", "image", "direct_shut", "direct_closed", "direct_then_native", "direct_left_before", "lock_released"}


def main() -> None:
    way, path, folder = sys.argv[1:4]
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    ways = Ways(folder, int(sys.argv[4]) if len(sys.argv) > 4 else 0)
    if way == "lock_released":
        fcntl.flock(ways.other, fcntl.LOCK_EX)
    if way == "mapping_made":
        os.ftruncate(ways.other, 4096)
    if ways.connection and way.startswith("direct"):
        # Both ends know each other before anything is measured.
        for _ in range(3):
            ways.connection.sendall(b"?")
            ways.connection.recv(1)
    if way == "direct_left_before":
        ways.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    for _ in range(1 if way in ONCE else ROUNDS):
        time.sleep(0.05)
        ended, took = flushed(file)
        os.write(file, f"{ended} {took}\n".encode())  # lets out no more than the write before
        getattr(ways, way)()


if __name__ == "__main__":
    main()
