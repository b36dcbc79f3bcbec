"""Twenty uvloop clients that ask for pages, large ones among them: `fetching.py PORT`."""

import asyncio
import hashlib
import sys

import uvloop

PORT = int(sys.argv[1])
CLIENTS = 20


async def ask(path: str, body: bytes = b"") -> bytes:
    """One request on a connection of its own, which the server closes; the body of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.partition(b"\r\n\r\n")[2]


async def visit(number: int) -> str:
    """What one client hears, in order."""
    content = bytes([number]) * (number * 30_000 + 1)
    heard = [await ask("/hello"), await ask("/echo", content), await ask("/large")]
    return f"{number} {heard[1] == content} {hashlib.sha256(b''.join(heard)).hexdigest()[:16]}"


async def main() -> None:
    for line in await asyncio.gather(*(visit(number) for number in range(CLIENTS))):
        print(line)


uvloop.run(main())
