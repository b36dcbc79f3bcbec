"""What a sealed program does all day, one thing after the other: each prints its name and `done`, or what went wrong.

program.py FOLDER PORT OWN OTHER: a folder that it may write to, a server, and two ports it may listen at.
"""

import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

FOLDER, SERVER, OWN, OTHER = sys.argv[1], *(int(word) for word in sys.argv[2:5])
HOST = "127.0.0.1"
SECONDS = 60


def expect(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def fails(number, what, *arguments):
    try:
        what(*arguments)
    except OSError as error:
        return expect(errno.errorcode[error.errno], errno.errorcode[number])
    raise AssertionError(f"no {errno.errorcode[number]}")


def echo(one, text):
    one.sendall(text)
    expect(one.recv(99), text)


def connected(**keywords):
    one = socket.socket(**keywords)
    one.settimeout(SECONDS)
    one.connect((HOST, SERVER))
    return one


def files():
    path = f"{FOLDER}/file"
    with open(path, "w") as file:
        file.write("text")
        file.flush()
        os.fchmod(file.fileno(), 0o600)
        os.utime(file.fileno(), (7, 7))
        os.fchown(file.fileno(), -1, -1)
    expect((open(path).read(), os.stat(path).st_mode & 0o777, os.stat(path).st_mtime), ("text", 0o600, 7))
    fails(errno.ENOENT, open, "/etc/shadow")


def nameless_file():
    fd = os.open(FOLDER, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, b"kept")
    here = os.open(FOLDER, os.O_RDONLY)
    os.link(f"/proc/self/fd/{fd}", f"{FOLDER}/kept", src_dir_fd=here, follow_symlinks=True)
    expect(open(f"{FOLDER}/kept").read(), "kept")


def reopened():
    reader, writer = os.pipe()
    fails(errno.EACCES, open, f"/dev/fd/{reader}", "w")
    with open(f"/dev/fd/{writer}", "w") as again:
        again.write("x")
    expect(os.read(reader, 9), b"x")


def lock():
    with open(f"{FOLDER}/lock", "w") as one, open(f"{FOLDER}/lock") as other:
        fcntl.flock(one, fcntl.LOCK_EX)
        fails(errno.EAGAIN, fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def children():
    expect(subprocess.run(["/bin/sh", "-c", "echo x | cat"], capture_output=True).stdout, b"x\n")


def connection():
    with connected() as one:
        echo(one, b"to and fro")


def connection_without_waiting():
    one = socket.socket()
    one.setblocking(False)
    if one.connect_ex((HOST, SERVER)) == errno.EINPROGRESS:
        expect(select.select([], [one], [], SECONDS)[1], [one])
    expect(one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
    one.setblocking(True)
    echo(one, b"later")
    if one.connect_ex((HOST, SERVER)) not in (0, errno.EISCONN):
        raise AssertionError("connected twice")


def other_addresses():
    one = socket.socket()
    fails(errno.EACCES, one.connect, (HOST, OTHER + 1 if OTHER + 1 != SERVER else OTHER + 2))
    one.connect((HOST, SERVER))
    echo(one, b"after a refusal")


def refused_and_again():
    one = socket.socket()
    fails(errno.ECONNREFUSED, one.connect, (HOST, OTHER))
    one.connect((HOST, SERVER))
    echo(one, b"the same socket")


def end_is_heard():
    """The supervisor keeps no connection alive that the program has closed."""
    with socket.create_server((HOST, OWN)) as listener:
        for _ in range(20):
            one = socket.create_connection((HOST, OWN))
            other, _ = listener.accept()
            one.close()
            other.settimeout(SECONDS)
            expect(other.recv(9), b"")
            other.close()


def end_of_waiting_connection_is_heard():
    with socket.create_server((HOST, OWN)) as listener:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex((HOST, OWN))
        other, _ = listener.accept()
        one.close()
        other.settimeout(SECONDS)
        expect(other.recv(9), b"")


def port_is_free_again():
    for _ in range(3):
        with socket.create_server((HOST, OWN)) as listener:
            listener.listen(7)
        with socket.socket(type=socket.SOCK_DGRAM) as one:
            one.bind((HOST, OWN))


def port_of_another_is_not():
    with socket.socket() as one, socket.socket() as other:
        one.bind((HOST, OWN))
        fails(errno.EADDRINUSE, other.bind, (HOST, OWN))


def datagrams():
    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as other:
        one.bind((HOST, OWN))
        one.settimeout(SECONDS)
        other.sendto(b"to", (HOST, OWN))
        other.connect((HOST, OWN))
        other.send(b"connected")
        other.sendmsg([b"mes", b"sage"])
        expect([one.recv(99) for _ in range(3)], [b"to", b"connected", b"message"])
        fails(errno.EACCES, other.sendto, b"no", (HOST, SERVER + 1 if SERVER + 1 not in (OWN, OTHER) else 9))


def duplicates_and_children():
    """A socket is known by whatever number, and in whatever process."""
    one = socket.socket(type=socket.SOCK_DGRAM)
    two = os.dup(one.fileno())
    one.close()
    with socket.socket(type=socket.SOCK_DGRAM) as reader:
        reader.bind((HOST, OWN))
        reader.settimeout(SECONDS)
        if os.fork() == 0:
            socket.socket(fileno=two).sendto(b"child", (HOST, OWN))
            os._exit(0)
        expect(reader.recv(9), b"child")
        os.wait()


def unix_sockets():
    os.chdir(FOLDER)
    os.umask(0o027)
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as one:
        listener.bind("here.sock")
        expect((listener.getsockname(), os.stat("here.sock").st_mode & 0o777), ("here.sock", 0o750))
        listener.listen()
        one.connect(f"{FOLDER}/here.sock")
        other, _ = listener.accept()
        one.sendall(b"local")
        expect(other.recv(9), b"local")
        one.close()
        expect(other.recv(9), b"")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        reader.bind(f"{FOLDER}/datagrams.sock")
        one.sendto(b"letter", f"{FOLDER}/datagrams.sock")
        expect(reader.recv(9), b"letter")


def descriptors_travel():
    one, other = socket.socketpair()
    with open(f"{FOLDER}/file") as file:
        if os.fork() == 0:
            socket.send_fds(one, [b"file"], [file.fileno()])
            os._exit(0)
        one.close()
        text, (number, *_), _, _ = socket.recv_fds(other, 9, 9)
        os.wait()
    expect((text, os.read(number, 9)), (b"file", b"text"))
    expect(other.recv(9), b"")


def connection_travels():
    one, other = socket.socketpair()
    with connected() as sent:
        socket.send_fds(one, [b"x"], [sent.fileno()])
    _, (number, *_), _, _ = socket.recv_fds(other, 9, 9)
    with socket.socket(fileno=number) as received:
        received.setblocking(True)
        echo(received, b"travelled")


def accepted_message():
    with socket.create_server((HOST, OWN)) as listener, socket.create_connection((HOST, OWN)) as one:
        other, _ = listener.accept()
        other.sendmsg([b"from ", b"accepted"])
        expect(one.recv(13, socket.MSG_WAITALL), b"from accepted")


def threads():
    """Several at once, as servers and clients with threads have them."""
    failed = []

    def work():
        try:
            for _ in range(20):
                with connected() as one:
                    echo(one, b"thread")
        except Exception:
            failed.append(traceback.format_exc())

    all_of_them = [threading.Thread(target=work) for _ in range(4)]
    for one in all_of_them:
        one.start()
    for one in all_of_them:
        one.join()
    expect(failed, [])


def many_sockets():
    """More than are open at once."""
    for _ in range(300):
        socket.socket(type=socket.SOCK_DGRAM).close()
    held = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(200)]
    for one in held:
        one.connect((HOST, SERVER))


def other_kinds():
    for kind in ((socket.AF_NETLINK, socket.SOCK_RAW), (socket.AF_PACKET, socket.SOCK_RAW)):
        fails(errno.EAFNOSUPPORT, socket.socket, *kind)
    fails(errno.EPERM, socket.socket, socket.AF_INET, socket.SOCK_RAW)
    libc, address = ctypes.CDLL(None, use_errno=True), bytes([socket.AF_INET, 0]) + bytes(14)
    for number, wanted in ((os.open(FOLDER, os.O_RDONLY), errno.ENOTSOCK), (999, errno.EBADF), (-1, errno.EBADF)):
        expect((libc.connect(number, address, 16), ctypes.get_errno()), (-1, wanted))


def main():
    signal.alarm(180)
    os.set_blocking(1, True)
    started = time.monotonic()
    for one in (files, nameless_file, reopened, lock, children, connection, connection_without_waiting, other_addresses,
                refused_and_again, end_is_heard, end_of_waiting_connection_is_heard, port_is_free_again, port_of_another_is_not,
                datagrams, duplicates_and_children, unix_sockets, descriptors_travel, connection_travels, accepted_message,
                other_kinds, threads, many_sockets):  # fmt: skip
        try:
            one()
            print(f"{one.__name__}: done")
        except Exception as error:
            print(f"{one.__name__}: {type(error).__name__}: {error}")
            traceback.print_exc()
    print(f"{time.monotonic() - started:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
