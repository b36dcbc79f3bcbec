"""Redis as a cluster, with replicas, and with Sentinel when the master is killed."""

from __future__ import annotations

import re
import signal

import kernel_view
from case_run import CaseRun


def test_cluster_moves_slots_between_its_nodes(compare):
    compare("redis.cluster", cluster)


def test_replica_follows_its_master(compare):
    compare("redis.replication", replication)


def test_sentinel_makes_a_replica_the_master(compare):
    compare("redis.sentinel", sentinel)


def cluster(case: CaseRun) -> str:
    nodes = [(case.port(), case.port()) for _ in range(3)]
    for port, bus in nodes:
        start_redis(case, port, "--cluster-enabled", "yes", "--cluster-port", bus,
                    "--cluster-config-file", f"nodes-{port}.conf", "--cluster-node-timeout", "5000")  # fmt: skip
    addresses = [f"127.0.0.1:{port}" for port, _ in nodes]
    made = case.run(["redis-cli", "--cluster", "create", *addresses, "--cluster-yes"])
    case.look("bus", nodes[0][1])
    program = case.start_python("redis_cluster.py", *[port for port, _ in nodes])
    case.await_mark("connected", program)
    case.look("client", nodes[0][0])
    case.mark("looked")
    said = case.finish(program)
    cli = ["redis-cli", "--cluster"]
    identity = case.run(["redis-cli", "-p", nodes[1][0], "CLUSTER", "MYID"]).strip()
    target = case.run(["redis-cli", "-p", nodes[0][0], "CLUSTER", "MYID"]).strip()
    moved = case.run([*cli, "reshard", addresses[0], "--cluster-from", identity, "--cluster-to", target,
                       "--cluster-slots", "500", "--cluster-yes"])  # fmt: skip
    checked = case.run([*cli, "check", addresses[0]])
    return "\n".join([*re.findall(r"\[OK\].*", made + checked), str(moved.count("Moving slot")), said])


def replication(case: CaseRun) -> str:
    first, second = case.port(), case.port()
    start_redis(case, first, "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")
    fill = "for i=1,50000 do redis.call('set', 'key:'..i, 'value:'..i) end return redis.call('dbsize')"
    answers = [case.run(["redis-cli", "-p", first, "EVAL", fill, "0"])]
    start_redis(case, second, "--replicaof", "127.0.0.1", first)
    await_replica(case, second)
    case.look("replica", first)
    case.run(["redis-benchmark", "-p", first, "-n", "20000", "-c", "10", "-P", "8", "-t", "incr,lpush", "-q"])
    answers.append(case.run(["redis-cli", "-p", first, "WAIT", "1", "10000"]))
    debug = [case.run(["redis-cli", "-p", port, "DEBUG", "DIGEST"]) for port in (first, second)]
    return "\n".join([*answers, str(debug[0] == debug[1]), case.run(["redis-cli", "-p", second, "DBSIZE"])])


def sentinel(case: CaseRun) -> str:
    first, second, watcher = case.port(), case.port(), case.port()
    master = start_redis(case, first)
    start_redis(case, second, "--replicaof", "127.0.0.1", first)
    await_replica(case, second)
    configuration = case.folder / "sentinel.conf"
    configuration.write_text(
        f"port {watcher}\nbind 127.0.0.1\nsentinel monitor work 127.0.0.1 {first} 1\n"
        "sentinel down-after-milliseconds work 1000\nsentinel failover-timeout work 5000\n"
    )
    case.serve(watcher, ["redis-server", configuration, "--sentinel"])
    ask = ["redis-cli", "-p", watcher, "SENTINEL"]
    kernel_view.wait_until(lambda: "num-slaves\n1" in case.run([*ask, "master", "work"]), 30, "the replica known")
    case.look("replica", first)
    case.look("watched", second)
    case.run(["redis-cli", "-p", first, "SET", "key", "value"])
    case.run(["redis-cli", "-p", first, "WAIT", "1", "10000"])
    master.kill(signal.SIGKILL)
    wanted = f"127.0.0.1\n{second}\n"
    get = [*ask, "get-master-addr-by-name", "work"]
    kernel_view.wait_until(lambda: case.run(get) == wanted, 60, "the replica as master")
    kernel_view.wait_until(lambda: "role:master" in case.run(["redis-cli", "-p", second, "INFO"]), 30, "its role")
    return case.run(get) + case.run(["redis-cli", "-p", second, "GET", "key"])


def start_redis(case: CaseRun, port: int, *options):
    """A server without persistence."""
    words = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", case.folder,
             "--dbfilename", f"{port}.rdb", "--enable-debug-command", "local"]  # fmt: skip
    return case.serve(port, [*words, *options])


def await_replica(case: CaseRun, port: int) -> None:
    """Waits until a replica has all that its master has."""
    info = ["redis-cli", "-p", port, "INFO", "replication"]
    kernel_view.wait_until(lambda: "master_link_status:up" in case.run(info), 30, "the replica in step")
