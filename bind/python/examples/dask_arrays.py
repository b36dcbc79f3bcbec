"""Dask tasks that hand over arrays as names in cluster memory, instead of as pickled bytes.

Each worker keeps what its tasks make in memory regions of its own. What travels between workers, and to
the client, is a `cluster.Array`, which is pickled as its name: whoever gets it reads the region where it
lies, without a copy on the same node. A region lives as long as somebody has its array: when Dask
releases a key, when the client ends, or when a worker is killed, its memory is given back.

    python dask_arrays.py [--kill]      # needs dask and distributed

Dask's own arrays are read from, and stored into, one large array that all workers share: `from_array`
and `store` take a `cluster.Array` as it is.
"""

import gc
import importlib.util
import os
import signal
import sys
import time

import numpy as np
from heliostat import cluster

ROWS, COLUMNS, CHUNK = 2000, 500, 500


def nodes() -> cluster.Cluster:
    """This worker's cluster, opened at its first task."""
    global _nodes
    if _nodes is None:
        _nodes = cluster.open()
    return _nodes


_nodes: cluster.Cluster | None = None


def make(seed: int) -> cluster.Array:
    """A task: its result is in cluster memory, and what Dask moves is its name."""
    return nodes().from_array(None, np.random.default_rng(seed).random((CHUNK, COLUMNS)))


def gram(a: cluster.Array) -> cluster.Array:
    """A task on the result of another one, which another worker may have."""
    block = np.asarray(a)  # the memory itself
    return nodes().from_array(None, block.T @ block)


def total(*parts: cluster.Array) -> cluster.Array:
    """The sum of several."""
    return nodes().from_array(None, sum(np.asarray(part) for part in parts))


def hand_over(client, kill: bool) -> None:
    """Tasks whose arguments and results are names."""
    made = [client.submit(make, seed, pure=False) for seed in range(ROWS // CHUNK)]
    squares = [client.submit(gram, one) for one in made]
    if kill:
        # Its arrays end with it. Dask makes them again, since it knows how.
        squares[0].result()
        victim = next(iter(client.who_has(squares[:1]).values()))[0]
        os.kill(client.run(os.getpid, workers=[victim])[victim], signal.SIGKILL)
    found = np.asarray(client.submit(total, *squares).result())
    rows = np.concatenate([np.random.default_rng(seed).random((CHUNK, COLUMNS)) for seed in range(4)])
    print("handed over as names:", np.allclose(found, rows.T @ rows))


def compute_between(client) -> None:
    """Dask's own arrays, from one array of the cluster into another."""
    import dask.array

    with nodes().create(None, (ROWS, COLUMNS)) as source, nodes().create(None, (ROWS, COLUMNS)) as sink:
        source[...] = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
        chunks = (CHUNK, COLUMNS)
        lazily = dask.array.from_array(source, chunks=chunks, name=False, asarray=False)
        # Threads write chunks of their own, so that nobody has to wait for a lock.
        dask.array.store(lazily - lazily.mean(axis=0), sink, lock=False)
        found, plain = np.asarray(sink), np.asarray(source)
        print("computed in place:", np.allclose(found, plain - plain.mean(axis=0)))


def regions() -> int:
    return len(nodes().memory.list("array/"))


def main() -> None:
    if importlib.util.find_spec("distributed") is None:
        print("dask and distributed are not installed: pip install dask distributed")
        return
    import dask
    from distributed import Client, LocalCluster

    # Temporary files and listening sockets stay on this machine, and nobody draws pages of them.
    dask.config.set({"distributed.admin.log-length": 0, "distributed.worker.daemon": True})
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as workers,
        Client(workers) as client,
    ):
        hand_over(client, "--kill" in sys.argv)
        compute_between(client)
        print("regions while results are wanted:", regions() > 0)
    # Graphs go in circles.
    gc.collect()
    # A worker's end is told to the control plane a moment later.
    until = time.monotonic() + 60
    while regions() and time.monotonic() < until:
        time.sleep(0.05)
    print("regions when the client has ended:", regions())


if __name__ == "__main__":
    main()
