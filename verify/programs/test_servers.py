"""memcached, nginx, curl, wrk and Python's http.server, unmodified, in every combination."""

from __future__ import annotations

import hashlib
import re

import pytest
from nginx_server import SMALL, start_nginx
from real_programs import run_checked, run_python, start_http_server, start_memcached
from test_redis import every_mode

LARGE_BYTES = 20 << 20

MEMCACHED = """
import sys, threading
from pymemcache.client.base import Client
def work(number):
    c = Client(("127.0.0.1", int(sys.argv[1])))
    ok = all(c.set(f"{number}:{i}", b"v%d" % i, noreply=False) for i in range(300))
    many = c.get_many([f"{number}:{i}" for i in range(300)])
    ok = ok and all(many[f"{number}:{i}"] == b"v%d" % i for i in range(300))
    big = bytes(range(256)) * 3000
    ok = ok and c.set(f"big{number}", big, noreply=False) and c.get(f"big{number}") == big
    ok = ok and c.set("n%d" % number, "1", noreply=False) and c.incr("n%d" % number, 5, noreply=False) == 6
    results.append(ok); c.close()
results = []
threads = [threading.Thread(target=work, args=(i,)) for i in range(12)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(results), all(results))
"""


@every_mode
@pytest.mark.parametrize("threads", [1, 4])
def test_memcached_answers_twelve_client_threads(harness, server, client, threads):
    port, _ = start_memcached(harness, server, threads)
    assert run_python(harness, client, MEMCACHED, port) == "12 True\n"


@pytest.fixture
def served(harness, server, tmp_path):
    """nginx with two workers and a 20 MB file."""
    port, _ = start_nginx(harness, server, tmp_path, workers=2, large_bytes=LARGE_BYTES)
    return f"http://127.0.0.1:{port}", tmp_path


@every_mode
def test_nginx_serves_small_and_large_files_unchanged(harness, served, client):
    address, folder = served
    assert run_checked(harness, client, ["curl", "-sS", f"{address}/small.txt"]).encode() == SMALL
    target = folder / "fetched"
    run_checked(harness, client, ["curl", "-sS", "-o", target, f"{address}/large.bin"])
    assert checksum(target) == checksum(folder / "files/large.bin")


@every_mode
def test_nginx_keeps_connections_alive_over_many_requests(harness, served, client):
    address, _ = served
    words = ["curl", "-sS", "-o", "/dev/null", "-w", "%{num_connects} %{http_code}\n"]
    said = run_checked(harness, client, [*words, f"{address}/small.txt", "-o", "/dev/null", f"{address}/fixed"])
    assert said == "1 200\n0 200\n"


@every_mode
def test_nginx_serves_a_range_and_a_missing_file_as_it_should(harness, served, client):
    address, folder = served
    part = run_checked(harness, client, ["curl", "-sS", "-r", "1000-1009", f"{address}/large.bin", "-o", folder / "part"])
    assert part == "" and (folder / "part").read_bytes() == (folder / "files/large.bin").read_bytes()[1000:1010]
    assert run_checked(harness, client, ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", f"{address}/no"]) == "404"


@every_mode
@pytest.mark.parametrize("path", ["/fixed", "/small.txt", "/large.bin"])
def test_nginx_under_wrk_has_no_errors(harness, served, client, path):
    address, _ = served
    said = run_checked(harness, client, ["wrk", "-t2", "-c20", "-d1s", "--timeout", "60s", f"{address}{path}"])
    assert not re.search(r"Socket errors|Non-2xx", said)
    assert int(re.search(r"(\d+) requests in", said)[1]) > 0


@every_mode
def test_http_server_gives_curl_the_file(harness, server, client, tmp_path):
    content = bytes(range(256)) * 5000
    (tmp_path / "file").write_bytes(content)
    port, _ = start_http_server(harness, server, tmp_path)
    for number in range(3):
        target = tmp_path / f"fetched{number}"
        run_checked(harness, client, ["curl", "-sS", "-o", target, f"http://127.0.0.1:{port}/file"])
        assert target.read_bytes() == content


@every_mode
def test_eight_curls_at_once_get_the_large_file(harness, served, client):
    address, folder = served
    words = ["curl", "-sS", "-Z", "--parallel-max", "8"]
    for number in range(8):
        words += ["-o", folder / f"f{number}", f"{address}/large.bin"]
    run_checked(harness, client, words)
    assert {checksum(folder / f"f{number}") for number in range(8)} == {checksum(folder / "files/large.bin")}


def checksum(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
