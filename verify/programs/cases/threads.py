"""Connections that several threads use, wake each other on, or sleep on."""

from __future__ import annotations

import socket
import threading
import time

from pair import Talk, digest, pattern, read_all, read_exactly


class ThreadsShareOne:
    """One thread reads and two write on one connection; every block arrives whole."""

    def server(talk: Talk):
        connection = talk.accept()
        blocks = [read_exactly(connection, 64) for _ in range(4000)]
        talk.say("whole", sum(len(set(block)) == 1 for block in blocks))
        talk.say("of each", sum(b[0] == 1 for b in blocks), sum(b[0] == 2 for b in blocks))

    def client(talk: Talk):
        connection = talk.connect()

        def write(number: int):
            for _ in range(2000):
                connection.send(bytes([number]) * 64)

        threads = [threading.Thread(target=write, args=(number,)) for number in (1, 2)]
        for thread in threads:
            thread.start()
        talk.say("end", connection.recv(1))
        for thread in threads:
            thread.join()


class ShutdownWakesReader:
    """A thread blocked in a read is woken when another shuts the connection down."""

    def server(talk: Talk):
        connection = talk.accept()
        threading.Timer(0.1, connection.shutdown, [socket.SHUT_RDWR]).start()
        talk.say("woken", connection.recv(1))

    def client(talk: Talk):
        talk.say("end", talk.connect().recv(1))


class ServerToItself:
    """Both ends in one process: a client thread connects to the process's own listener."""

    def server(talk: Talk):
        listener = talk.listen()

        def speak():
            with socket.create_connection(("127.0.0.1", talk.port)) as connection:
                connection.sendall(pattern(1 << 20))
                connection.shutdown(socket.SHUT_WR)
                talk.say("back", digest(read_all(connection)))

        outside = listener.accept()[0]
        speaker = threading.Thread(target=speak)
        speaker.start()
        inside = listener.accept()[0]
        inside.sendall(read_all(inside)[::-1])
        inside.close()
        speaker.join()
        outside.sendall(b"done")

    def client(talk: Talk):
        talk.say(read_exactly(talk.connect(), 4))


class SleepBetween:
    """Pauses longer than any spin: each side sleeps in the kernel and is woken every time."""

    def server(talk: Talk):
        connection = talk.accept()
        while word := connection.recv(10):
            time.sleep(0.02)
            connection.sendall(word)

    def client(talk: Talk):
        connection = talk.connect()
        for number in range(20):
            time.sleep(0.02)
            connection.sendall(b"%02d" % number)
            talk.say(read_exactly(connection, 2))
