"""A client of a Redis cluster, and its publish and subscribe: `redis_cluster.py PORT...`."""

import sys

import marks
import redis
from redis.cluster import ClusterNode, RedisCluster

KEYS = 2000


def main() -> None:
    nodes = [ClusterNode("127.0.0.1", int(port)) for port in sys.argv[1:]]
    cluster = RedisCluster(startup_nodes=nodes)
    print(all(cluster.set(f"key:{number}", "x" * number) for number in range(KEYS)))
    # One connection to each node stays open in the client.
    marks.make("connected")
    marks.wait("looked")
    print(sum(len(cluster.get(f"key:{number}")) for number in range(KEYS)))
    pipeline = cluster.pipeline()
    for number in range(KEYS):
        pipeline.strlen(f"key:{number}")
    print(sum(pipeline.execute()), cluster.dbsize(target_nodes=RedisCluster.PRIMARIES))
    listener = redis.Redis(port=int(sys.argv[1])).pubsub()
    listener.subscribe("news")
    listener.get_message(timeout=10)
    other = redis.Redis(port=int(sys.argv[2]))
    for number in range(200):
        other.publish("news", number)
    heard = [int(message["data"]) for _, message in zip(range(200), listener.listen())]
    print(heard == list(range(200)))


main()
