"""redis-server, redis-cli and redis-benchmark, unmodified, in every combination of sides."""

from __future__ import annotations

import re

import kernel_view
import pytest
from heliostat_run import Side
from real_programs import MODES, run_checked, run_python, start_redis

EVERY_MODE = [
    pytest.param(*sides, id=mode, marks=() if mode == "plain" else pytest.mark.heliostat)
    for mode, sides in MODES.items()
]
every_mode = pytest.mark.parametrize(("server", "client"), EVERY_MODE)

CONVERSATION = """
import sys, redis
r = redis.Redis(port=int(sys.argv[1]))
print(r.set("k", "v"), r.get("k"), r.incr("n"), r.lpush("l", *range(100)), r.lrange("l", 0, 3))
print(r.eval("local s=0 for i=1,1000 do s=s+i end redis.call('set','sum',s) return s", 0), r.get("sum"))
big = bytes(range(256)) * 40960
print(r.set("big", big), r.get("big") == big, r.strlen("big"))
pipe = r.pipeline(transaction=False)
for i in range(10000): pipe.set(f"p{i}", i)
print(sum(pipe.execute()))
pipe = r.pipeline(transaction=True)
for i in range(10000): pipe.get(f"p{i}")
print([int(x) for x in pipe.execute()] == list(range(10000)))
try: r.execute_command("NOSUCH")
except redis.ResponseError as error: print("error", str(error)[:20])
print(r.blpop("empty", timeout=1), r.dbsize())
"""

PUBLISH = """
import sys, threading, redis
r = redis.Redis(port=int(sys.argv[1]))
p = r.pubsub()
p.subscribe("news"); p.get_message(timeout=10)
def publish():
    other = redis.Redis(port=int(sys.argv[1]))
    for i in range(500): other.publish("news", f"item {i}")
t = threading.Thread(target=publish); t.start()
print([m["data"] for _, m in zip(range(500), p.listen())] == [b"item %d" % i for i in range(500)])
t.join()
with r.monitor() as m:
    r.set("watched", 1)
    print(m.next_command()["command"])
"""

# Ten processes with a connection each speak one after the other, in an order of chance, while the
# server sleeps: it has to serve them in that order.
ORDER = """
import os, random, socket, sys, redis
port, clients, chance = int(sys.argv[1]), 10, random.Random(7)
control = redis.Redis(port=port)
pipes = []
for number in range(clients):
    orders, done = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(orders[1])
        for other, _ in pipes: os.close(other)
        connection = socket.create_connection(("127.0.0.1", port))
        os.write(done[1], b"x")
        while order := os.read(orders[0], 100):
            if order == b"answer":
                answer = connection.recv(1000).split(b"\\r\\n")
                os.write(done[1], answer[-2])
                continue
            connection.sendall(order + b"\\r\\n")
            os.write(done[1], b"x")
        os._exit(0)
    os.close(orders[0]); os.close(done[1])
    os.read(done[0], 1)
    pipes.append((orders[1], done[0]))
def each(words, numbers):
    for number in numbers:
        os.write(pipes[number][0], words(number))
        os.read(pipes[number][1], 1)
def answer(number):
    os.write(pipes[number][0], b"answer")
    return int(os.read(pipes[number][1], 100).lstrip(b":"))
def while_it_sleeps(words):
    numbers = chance.sample(range(clients), clients)
    sleeper = redis.Redis(port=port)
    sleeper.ping()
    sleeper.connection_pool.get_connection().send_command("DEBUG", "SLEEP", "0.3")
    each(words, numbers)
    return numbers
each(lambda number: b"ECHO 1", range(clients))  # from here on all go the same way
[answer(number) for number in range(clients)]
for turn in range(5):
    control.delete("list")
    numbers = while_it_sleeps(lambda number: b"RPUSH list %d" % number)
    [answer(number) for number in numbers]
    print([int(one) for one in control.lrange("list", 0, -1)] == numbers)
for turn in range(3):
    numbers = while_it_sleeps(lambda number: b"BLPOP queue 0")
    control.rpush("queue", *range(clients))
    print([answer(number) for number in numbers] == list(range(clients)))
subscriber = control.pubsub()
subscriber.subscribe("news"); subscriber.get_message(timeout=10)
for turn in range(2):
    numbers = while_it_sleeps(lambda number: b"PUBLISH news %d" % number)
    print([int(m["data"]) for _, m in zip(numbers, subscriber.listen())] == numbers)
    [answer(number) for number in numbers]
"""

POPULATE = "for i=1,200000 do redis.call('set', 'key:'..i, 'value:'..i) end return 1"


@every_mode
def test_conversation_gives_the_answers_of_plain_redis(harness, server, client):
    port, _ = start_redis(harness, server)
    assert run_python(harness, client, CONVERSATION, port).splitlines() == [
        "True b'v' 1 100 [b'99', b'98', b'97', b'96']",
        "500500 b'500500'",
        "True True 10485760",
        "10000",
        "True",
        "error unknown command 'NOS",
        "None 10005",
    ]


@every_mode
def test_published_messages_arrive_in_order_and_monitor_sees_commands(harness, server, client):
    port, _ = start_redis(harness, server)
    assert run_python(harness, client, PUBLISH, port).splitlines() == ["True", "SET watched 1"]


@every_mode
def test_clients_are_served_in_the_order_in_which_they_spoke(harness, server, client):
    port, _ = start_redis(harness, server, "--enable-debug-command", "yes")
    assert run_python(harness, client, ORDER, port).split() == ["True"] * 10


@every_mode
def test_background_save_forks_while_clients_go_on(harness, server, client):
    port, program = start_redis(harness, server)
    cli = ["redis-cli", "-p", port]
    run_checked(harness, client, [*cli, "EVAL", POPULATE, "0"])
    load = harness.start(client, ["redis-benchmark", "-p", port, "-n", "100000", "-t", "set,get", "--csv"])
    assert "Background saving started" in run_checked(harness, client, [*cli, "BGSAVE"])
    assert load.wait(60) == 0
    kernel_view.wait_until(lambda: "DB saved" in program.output(), 60, "BGSAVE")
    assert "rdb_last_bgsave_status:ok" in run_checked(harness, client, [*cli, "INFO", "persistence"])
    assert (harness.folder / f"{port}.rdb").stat().st_size > 1_000_000


@every_mode
@pytest.mark.parametrize("options", [[], ["-P", "16"], ["-c", "1"], ["-d", "10000"], ["-k", "0"], ["--threads", "2"]], ids="".join)
def test_benchmark_finishes_every_command(harness, server, client, options):
    port, _ = start_redis(harness, server)
    words = ["redis-benchmark", "-p", port, "-n", "5000", "--csv", "-t", "ping,set,get,lpush,lrange_100,mset"]
    rows = re.findall(r'^"(.+?)",', run_checked(harness, client, [*words, *options], 100), re.M)
    assert [row.split()[0] for row in rows] == [
        "test", "PING_INLINE", "PING_MBULK", "SET", "GET", "LPUSH", "LPUSH", "LRANGE_100", "MSET"
    ]  # fmt: skip


@every_mode
def test_daemonised_server_answers_and_shuts_down(harness, server, client):
    port = kernel_view.free_port()
    pidfile = harness.folder / f"redis-{port}.pid"
    run_checked(harness, server, ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
                                "--daemonize", "yes", "--pidfile", pidfile, "--dir", harness.folder])  # fmt: skip
    kernel_view.wait_listening(port)
    cli = ["redis-cli", "-p", port]
    assert run_checked(harness, client, [*cli, "SET", "a", "1"]) == "OK\n"
    assert run_checked(harness, client, [*cli, "GET", "a"]) == "1\n"
    harness.run(client, [*cli, "SHUTDOWN", "NOSAVE"])
    kernel_view.wait_until(lambda: port not in kernel_view.listening_ports(), 60, "shutdown")


@pytest.mark.heliostat
def test_connections_between_both_ends_are_direct(harness):
    port, program = start_redis(harness, Side.HELIOSTAT)
    harness.start(Side.HELIOSTAT, ["redis-benchmark", "-p", port, "-c", "20", "-n", "100000000", "-t", "get", "-q"])
    found = kernel_view.wait_until(lambda: connected(harness, program.pid, 20), 60, "20 connections")
    assert {(one["path"], one["reason"]) for one in found} == {("direct", "None")}


@pytest.mark.heliostat
def test_connection_of_a_plain_client_is_native_with_a_reason(harness):
    port, program = start_redis(harness, Side.HELIOSTAT)
    harness.start(Side.PLAIN, ["redis-benchmark", "-p", port, "-c", "3", "-n", "100000000", "-t", "get", "-q"])
    found = kernel_view.wait_until(lambda: connected(harness, program.pid, 3), 60, "3 connections")
    assert {one["path"] for one in found} == {"native"}
    assert all(one["reason"] not in ("", "None") for one in found)


def connected(harness, pid: int, count: int) -> list[dict]:
    """The connections of a process once there are so many of them."""
    found = harness.explain(pid)
    return found if len(found) >= count else []
