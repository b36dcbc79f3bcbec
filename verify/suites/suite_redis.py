"""Redis as a cluster, with replicas, and with Sentinel when the master is killed."""

from __future__ import annotations

import re
import signal

import kernel_view
from stage import Stage


def test_cluster_moves_slots_between_its_nodes(play):
    play("redis.cluster", cluster)


def test_replica_follows_its_master(play):
    play("redis.replication", replication)


def test_sentinel_makes_a_replica_the_master(play):
    play("redis.sentinel", sentinel)


def cluster(stage: Stage) -> str:
    nodes = [(stage.port(), stage.port()) for _ in range(3)]
    for port, bus in nodes:
        start_redis(stage, port, "--cluster-enabled", "yes", "--cluster-port", bus,
                    "--cluster-config-file", f"nodes-{port}.conf", "--cluster-node-timeout", "5000")  # fmt: skip
    addresses = [f"127.0.0.1:{port}" for port, _ in nodes]
    made = stage.run(["redis-cli", "--cluster", "create", *addresses, "--cluster-yes"])
    stage.look("bus", nodes[0][1])
    program = stage.start_python("redis_cluster.py", *[port for port, _ in nodes])
    stage.await_mark("connected", program)
    stage.look("client", nodes[0][0])
    stage.mark("looked")
    said = stage.finish(program)
    cli = ["redis-cli", "--cluster"]
    identity = stage.run(["redis-cli", "-p", nodes[1][0], "CLUSTER", "MYID"]).strip()
    target = stage.run(["redis-cli", "-p", nodes[0][0], "CLUSTER", "MYID"]).strip()
    moved = stage.run([*cli, "reshard", addresses[0], "--cluster-from", identity, "--cluster-to", target,
                       "--cluster-slots", "500", "--cluster-yes"])  # fmt: skip
    checked = stage.run([*cli, "check", addresses[0]])
    return "\n".join([*re.findall(r"\[OK\].*", made + checked), str(moved.count("Moving slot")), said])


def replication(stage: Stage) -> str:
    first, second = stage.port(), stage.port()
    start_redis(stage, first, "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")
    fill = "for i=1,50000 do redis.call('set', 'key:'..i, 'value:'..i) end return redis.call('dbsize')"
    answers = [stage.run(["redis-cli", "-p", first, "EVAL", fill, "0"])]
    start_redis(stage, second, "--replicaof", "127.0.0.1", first)
    await_replica(stage, second)
    stage.look("replica", first)
    stage.run(["redis-benchmark", "-p", first, "-n", "20000", "-c", "10", "-P", "8", "-t", "incr,lpush", "-q"])
    answers.append(stage.run(["redis-cli", "-p", first, "WAIT", "1", "10000"]))
    debug = [stage.run(["redis-cli", "-p", port, "DEBUG", "DIGEST"]) for port in (first, second)]
    return "\n".join([*answers, str(debug[0] == debug[1]), stage.run(["redis-cli", "-p", second, "DBSIZE"])])


def sentinel(stage: Stage) -> str:
    first, second, watcher = stage.port(), stage.port(), stage.port()
    master = start_redis(stage, first)
    start_redis(stage, second, "--replicaof", "127.0.0.1", first)
    await_replica(stage, second)
    configuration = stage.folder / "sentinel.conf"
    configuration.write_text(
        f"port {watcher}\nbind 127.0.0.1\nsentinel monitor work 127.0.0.1 {first} 1\n"
        "sentinel down-after-milliseconds work 1000\nsentinel failover-timeout work 5000\n"
    )
    stage.serve(watcher, ["redis-server", configuration, "--sentinel"])
    ask = ["redis-cli", "-p", watcher, "SENTINEL"]
    kernel_view.wait_until(lambda: "num-slaves\n1" in stage.run([*ask, "master", "work"]), 30, "the replica known")
    stage.look("replica", first)
    stage.look("watched", second)
    stage.run(["redis-cli", "-p", first, "SET", "key", "value"])
    stage.run(["redis-cli", "-p", first, "WAIT", "1", "10000"])
    master.kill(signal.SIGKILL)
    wanted = f"127.0.0.1\n{second}\n"
    get = [*ask, "get-master-addr-by-name", "work"]
    kernel_view.wait_until(lambda: stage.run(get) == wanted, 60, "the replica as master")
    kernel_view.wait_until(lambda: "role:master" in stage.run(["redis-cli", "-p", second, "INFO"]), 30, "its role")
    return stage.run(get) + stage.run(["redis-cli", "-p", second, "GET", "key"])


def start_redis(stage: Stage, port: int, *options):
    """A server without persistence."""
    words = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", stage.folder,
             "--dbfilename", f"{port}.rdb", "--enable-debug-command", "local"]  # fmt: skip
    return stage.serve(port, [*words, *options])


def await_replica(stage: Stage, port: int) -> None:
    """Waits until a replica has all that its master has."""
    info = ["redis-cli", "-p", port, "INFO", "replication"]
    kernel_view.wait_until(lambda: "master_link_status:up" in stage.run(info), 30, "the replica in step")
