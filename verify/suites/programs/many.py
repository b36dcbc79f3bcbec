"""Many connections at once, all of them in use: `many.py server PORT`, `many.py client PORT COUNT PROCESSES`."""

import hashlib
import os
import select
import signal
import socket
import sys

import marks

ROUNDS = 3
MESSAGE_BYTES = 200


def serve(port: int) -> None:
    """Sends back whatever comes on any connection."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(4096)
    listener.setblocking(False)
    watched, open_ones = select.epoll(), {}
    watched.register(listener, select.EPOLLIN)
    while True:
        for number, _ in watched.poll():
            if number == listener.fileno():
                accept(listener, watched, open_ones)
            elif content := open_ones[number].recv(65536):
                open_ones[number].sendall(content)
            else:
                open_ones.pop(number).close()


def accept(listener: socket.socket, watched: select.epoll, open_ones: dict[int, socket.socket]) -> None:
    """Takes every connection that waits."""
    while True:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            return
        open_ones[connection.fileno()] = connection
        watched.register(connection, select.EPOLLIN)


def converse(port: int, count: int, name: str) -> str:
    """Opens all connections, then speaks on all of them before it listens on any."""
    ours = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    for connection in ours:
        speak(connection, 0)
    equal = all(listen(connection) == message(connection, 0) for connection in ours)
    marks.make(f"connected-{name}")
    marks.wait("looked")
    for turn in range(1, ROUNDS):
        for connection in ours:
            speak(connection, turn)
        equal &= all(listen(connection) == message(connection, turn) for connection in reversed(ours))
    for connection in ours:
        connection.close()
    return f"{len(ours)} {equal}"


def message(connection: socket.socket, turn: int) -> bytes:
    """Bytes that no other connection and no other turn has."""
    seed = f"{connection.getsockname()[1]} {turn}".encode()
    return hashlib.shake_128(seed).digest(MESSAGE_BYTES)


def speak(connection: socket.socket, turn: int) -> None:
    connection.sendall(message(connection, turn))


def listen(connection: socket.socket) -> bytes:
    return connection.recv(MESSAGE_BYTES, socket.MSG_WAITALL)


def share(port: int, count: int, processes: int) -> None:
    """The connections spread over so many processes."""
    for process in range(processes):
        if os.fork() == 0:
            said = converse(port, count // processes, str(process))
            os.write(1, f"{said}\n".encode())
            os._exit(0)
    for _ in range(processes):
        os.wait()


if sys.argv[1] == "server":
    serve(int(sys.argv[2]))
else:
    share(*map(int, sys.argv[2:5]))
