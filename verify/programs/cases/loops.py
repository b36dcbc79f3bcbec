"""Event loops of the standard library: asyncio, selectors and socketserver."""

from __future__ import annotations

import asyncio
import selectors
import socketserver
import threading

from pair import Talk, digest, pattern

CLIENTS = 40
LARGE = 3 << 20


class AsyncEcho:
    """An asyncio server and 40 concurrent clients with large messages and half closes."""

    def server(talk: Talk):
        ends = []

        async def echo(reader, writer):
            while part := await reader.read(65536):
                writer.write(part)
                await writer.drain()
            writer.write_eof()
            writer.close()
            ends.append(1)

        async def main():
            server = await asyncio.start_server(echo, "127.0.0.1", talk.port, backlog=100)
            while len(ends) < CLIENTS:
                await asyncio.sleep(0.01)
            server.close()
            talk.say("served", len(ends))

        asyncio.run(main())

    def client(talk: Talk):
        async def one(number: int) -> bool:
            reader, writer = await asyncio.open_connection("127.0.0.1", talk.port)
            content = pattern(LARGE if number % 10 == 0 else 1000, number)

            async def send():
                writer.write(content)
                await writer.drain()
                writer.write_eof()

            _, back = await asyncio.gather(send(), reader.read())
            writer.close()
            await writer.wait_closed()
            return back == content

        async def main():
            talk.say("right", sum(await asyncio.gather(*map(one, range(CLIENTS)))))

        asyncio.run(main())


class AsyncWithProcesses:
    """asyncio with a subprocess's pipes and a timer beside a connection."""

    def server(talk: Talk):
        ended = []

        async def answer(reader, writer):
            line = (await reader.readline()).decode().strip()
            child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
            out, _ = await child.communicate(line.encode())
            writer.write(out + b"\n")
            await asyncio.sleep(0.05)
            writer.write(b"done\n")
            writer.close()
            await writer.wait_closed()
            ended.append(child.returncode)

        async def main():
            async with await asyncio.start_server(answer, "127.0.0.1", talk.port):
                while not ended:
                    await asyncio.sleep(0.01)
            talk.say("child", ended)

        asyncio.run(main())

    def client(talk: Talk):
        async def main():
            reader, writer = await asyncio.open_connection("127.0.0.1", talk.port)
            writer.write(b"through a child\n")
            talk.say(await reader.read())
            writer.close()

        asyncio.run(main())


def selector_echo(talk: Talk, kind: type) -> None:
    """An echo server over one kind of selector until ten clients have left."""
    selector, listener, left = kind(), talk.listen(), 10
    listener.setblocking(False)
    selector.register(listener, selectors.EVENT_READ)
    while left:
        for key, _ in selector.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                selector.register(connection, selectors.EVENT_READ)
                continue
            content = key.fileobj.recv(1000)
            key.fileobj.sendall(content)
            if not content:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                left -= 1
    talk.say("served by", kind.__name__)


def ten_clients(talk: Talk) -> None:
    """Ten clients at once, five messages each."""

    def one(number: int):
        with talk.connect() as connection:
            for turn in range(5):
                message = b"%d:%d" % (number, turn)
                connection.sendall(message)
                right.append(connection.recv(100) == message)

    right: list[bool] = []
    threads = [threading.Thread(target=one, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    talk.say("right", sum(right))


class EpollServer:
    def server(talk: Talk):
        selector_echo(talk, selectors.EpollSelector)

    client = ten_clients


class PollServer:
    def server(talk: Talk):
        selector_echo(talk, selectors.PollSelector)

    client = ten_clients


class SelectServer:
    def server(talk: Talk):
        selector_echo(talk, selectors.SelectSelector)

    client = ten_clients


class Upper(socketserver.StreamRequestHandler):
    """Answers each line in capitals until the client leaves."""

    def handle(self):
        for line in self.rfile:
            self.wfile.write(line.upper())


def serve_requests(talk: Talk, kind: type, requests: int) -> None:
    """Serves so many connections with one kind of socketserver."""
    kind.allow_reuse_address = True
    with kind(("127.0.0.1", talk.port), Upper) as server:
        for _ in range(requests):
            server.handle_request()
    talk.say("served by", kind.__name__)


def line_clients(talk: Talk) -> None:
    """Six clients one after the other, then three whose connections overlap."""
    for number in range(6):
        with talk.connect() as connection, connection.makefile("rw") as lines:
            for word in ("alpha", f"beta{number}"):
                print(word, file=lines, flush=True)
                talk.say(lines.readline().strip())
    open_ones = [talk.connect() for _ in range(3)]
    for number, connection in reversed(list(enumerate(open_ones))):
        connection.sendall(b"overlap%d\n" % number)
        talk.say(connection.makefile().readline().strip())


class ForkingServer:
    """socketserver.ForkingTCPServer: each connection is used in a child of the one that accepted."""

    def server(talk: Talk):
        serve_requests(talk, socketserver.ForkingTCPServer, 9)

    client = line_clients


class ThreadingServer:
    """socketserver.ThreadingTCPServer: each connection is used in another thread."""

    def server(talk: Talk):
        serve_requests(talk, socketserver.ThreadingTCPServer, 9)

    client = line_clients


class LargeAsyncStream:
    """One asyncio stream of 30 MB with back-pressure."""

    def server(talk: Talk):
        async def main():
            got = asyncio.get_running_loop().create_future()

            async def take(reader, writer):
                got.set_result(digest(await reader.read()))
                writer.close()

            async with await asyncio.start_server(take, "127.0.0.1", talk.port, limit=4096):
                talk.say("got", await got)

        asyncio.run(main())

    def client(talk: Talk):
        async def main():
            _, writer = await asyncio.open_connection("127.0.0.1", talk.port)
            content = pattern(30 << 20, 3)
            for start in range(0, len(content), 100_000):
                writer.write(content[start : start + 100_000])
                await writer.drain()
            writer.close()
            await writer.wait_closed()

        asyncio.run(main())
        talk.say("sent")
