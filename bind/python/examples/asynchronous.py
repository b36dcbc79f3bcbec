"""One event loop that follows two regions, and does something else meanwhile."""

import asyncio
import threading
import time

import heliostat
import numpy as np


def produce(name: str, pause: float) -> None:
    with heliostat.Region.from_array(np.zeros(1000), name=name) as region:
        for _ in range(20):
            region.array += 1
            region.publish()
            time.sleep(pause)


async def follow(name: str) -> int:
    count = 0
    async for snapshot in heliostat.attach(name, timeout=10).versions_async():
        count += 1
        print(f"{name}: version {snapshot.number}, mean {snapshot.array().mean():.0f}")
    return count


async def tick() -> None:
    while True:
        await asyncio.sleep(0.2)
        print("tick")


async def main() -> None:
    names = {"example/fast": 0.02, "example/slow": 0.05}
    for arguments in names.items():
        threading.Thread(target=produce, args=arguments).start()
    ticking = asyncio.create_task(tick())
    print(await asyncio.gather(*map(follow, names)), "versions seen")
    ticking.cancel()


asyncio.run(main())
