"""One small web application, by WSGI for gunicorn and by ASGI for uvicorn."""

LARGE = b"0123456789abcdef" * 200_000


def answer(path: str, body: bytes) -> bytes:
    """The content at a path: a word, three megabytes, or what was sent."""
    return {"/hello": b"hello\n", "/large": LARGE, "/echo": body}.get(path, b"nothing here\n")


def wsgi(environment, start_response):
    length = int(environment.get("CONTENT_LENGTH") or 0)
    content = answer(environment["PATH_INFO"], environment["wsgi.input"].read(length))
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(content)))])
    return [content]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    parts, more = [], True
    while more:
        event = await receive()
        parts.append(event.get("body", b""))
        more = event.get("more_body", False)
    content = answer(scope["path"], b"".join(parts))
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})
