"""Ten lines of producer and of consumer; without an argument, both."""

import subprocess
import sys
import time

import heliostat
import numpy as np


def produce():
    heat = np.zeros((1000, 1000))
    with heliostat.Region.from_array(heat, name="example/heat") as region:
        for _ in range(50):
            heat += 1
            region.publish()
            time.sleep(0.01)


def consume():
    for snapshot in heliostat.attach("example/heat", timeout=10).versions():
        seen = snapshot.array()
        assert seen.min() == seen.max() == snapshot.number
        print(f"version {snapshot.number}: {seen.mean():.0f} everywhere, {snapshot.cost}")


if sys.argv[1:]:
    {"produce": produce, "consume": consume}[sys.argv[1]]()
else:
    producer = subprocess.Popen([sys.executable, __file__, "produce"])
    consume()
    sys.exit(producer.wait())
