"""Redis under `--durable` through losses of power, in an emulated guest (`make test-durable-guest`).

The guest's disk is a file of the host's. Killing QEMU is a loss of power for the guest: its memory is gone, page
cache included, and the disk holds what the guest had handed to it. The guest's clients print each acknowledged
write on the serial line, which outlives the guest. Then the guest boots again, its file system recovers, a
plain server reads the file, and each write that was printed has to be there. A server that does not flush
(`appendfsync no`) has to lose some: or this test would test nothing.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "verify")]

import kernel_view  # noqa: E402
from emulated_guest import ENDED, PACKAGES, Guest  # noqa: E402

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PLACE = TARGET / "durable/guest"
BUILT = Path(os.environ.get("HELIOSTAT_BIN", TARGET / "release/heliostat")).parent
LOSSES = int(os.environ.get("HELIOSTAT_KILLS", 5))
SEED = int(os.environ.get("HELIOSTAT_SEED", 1))
# Nothing here goes by the clock: a guest has failed when it has computed so long, or slept so long, and got no
# further. On a busy machine it computes little, and is waited for.
STILL_CPU_S = 600
STILL_S = 1800
# Nothing is wrong with a counter that is asked for between two writes; after so many times the writes there is.
UNCOUNTED = 20
DISK_BYTES = 320 << 20
MODULES = ["crc32c_generic", "ext4", "virtio_pci", "virtio_blk"]
INIT = """
ifconfig lo up
mkdir -p /data
sh /job
echo "guest: ended with $?"
poweroff -f
"""
BEGIN = """
mount -t ext4 /dev/vda /data || exit 1
mkdir -p /scratch
export HOME=/scratch XDG_RUNTIME_DIR=/scratch HELIOSTAT_SOCKET=/scratch/control.sock
redis="redis-server --port 7000 --bind 127.0.0.1 --save '' --appendonly yes --dir /data --logfile /scratch/log"
cli="redis-cli -p 7000"
served() { until $cli ping 2>&1 | grep -q PONG; do kill -0 $! || { cat /scratch/log; exit 2; }; sleep 0.2; done; }
"""
# Each client writes keys of its own; half of them are under Heliostat.
LOAD = """
eval "{server} $redis --appendfsync {flushes}" &
served
write() {{ i=0; while :; do i=$((i+1)); echo "SET {round}:$1:$i {round}:$1:$i"; done; }}
say() {{ i=0; while read answer; do i=$((i+1)); [ "$answer" = OK ] && echo "kept {round}:$1:$i"; done; }}
for one in 1 2 3 4; do
    [ $((one % 2)) = 0 ] && way="{client}" || way=""
    (write $one | eval "$way $cli" | say $one) &
done
(while sleep 1; do {status}; done) &
sleep {rewriting}
$cli bgrewriteaof
while sleep 1; do :; done
"""
STATUS = "heliostat status --json | tr -d ' \\n' | grep -oE '\"(held_sends|logged_flushes)\":[0-9]+'"
CHECK = BEGIN + """
if [ -e /data/log ]; then heliostat recover /data/log; rm /data/log; fi
redis-check-aof /data/appendonlydir/appendonly.aof.manifest 2>&1 | tail -n 1 | grep -qE '(is|are) valid' || {
    echo "guest: a torn end"
    yes | redis-check-aof --fix /data/appendonlydir/appendonly.aof.manifest | tail -n 3
}
eval "$redis" &
served
# Twice: a message of the kernel's may cut a line of the console in two.
for turn in 1 2; do $cli --raw keys '*' | sed 's/^/found /'; done
echo "size $($cli --raw dbsize)"
echo "wrong $($cli --raw eval "local wrong = 0; for _, key in ipairs(redis.call('keys', '*')) do if redis.call('get', key) ~= key then wrong = wrong + 1 end end; return wrong" 0)"
$cli shutdown
sync
umount /data
"""
KEPT = re.compile(r"^kept (\d+:\d+:\d+)\r?$", re.MULTILINE)
FOUND = re.compile(r"^found (\d+:\d+:\d+)\r?$", re.MULTILINE)
SIZE = re.compile(r"^size (\d+)\r?$", re.MULTILINE)
WRONG = re.compile(r"^wrong (\d+)\r?$", re.MULTILINE)
STATUS_LINE = re.compile(r'^"(held_sends|logged_flushes)":(\d+)\r*\n', re.MULTILINE)
# How a server of ours is started, and what shows that it does what is tested: a reply held back for a flush of the
# file, or a flush that was a write of the log (which may have ended before there is a reply).
WAYS = [
    ("heliostat run --durable '*.aof' --log /data/log --", "logged_flushes"),
    ("heliostat run --durable '*.aof' --", "held_sends"),
]


class Still:
    """How long a guest has said nothing new but its status, by its processor's time and by the clock."""

    def __init__(self, pid: int) -> None:
        self.pid, self.told, self.since = pid, -1, (0.0, 0.0)

    def is_over(self, said: str) -> bool:
        told = len(STATUS_LINE.sub("", said))
        now = (kernel_view.cpu_ns(self.pid) / 1e9, time.monotonic())
        if told > self.told:
            self.told, self.since = told, now
        return now[0] - self.since[0] > STILL_CPU_S or now[1] - self.since[1] > STILL_S


def most(said: str, counter: str) -> int:
    return max((int(count) for name, count in STATUS_LINE.findall(said) if name == counter), default=0)


@dataclass
class Machine:
    """The guest, and its disk."""

    guest: Guest
    kernel: Path
    disk: Path

    def drive(self) -> list[str]:
        return ["-drive", f"file={self.disk},if=virtio,format=raw,cache=writeback"]

    def make_disk(self) -> None:
        self.disk.unlink(missing_ok=True)
        with open(self.disk, "wb") as file:
            file.truncate(DISK_BYTES)
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", self.disk], check=True)

    def load(self, job: str, wanted: int, more_s: float, counter: str) -> str:
        """Boots, waits for so many acknowledged writes, until the counter, if one is named, counts, and a while
        longer, and loses power; what was printed."""

        def is_enough(told: str) -> bool:
            writes = len(KEPT.findall(told))
            if counter and writes >= wanted * UNCOUNTED and most(told, counter) == 0:
                raise RuntimeError(f"{writes} writes, and {counter} counts nothing\n{told[-3000:]}")
            return writes >= wanted and (most(told, counter) > 0 or not counter)

        said = self.follow(job, is_enough, more_s)
        if not is_enough(said):
            raise RuntimeError(f"the guest has ended after {len(KEPT.findall(said))} of {wanted} writes\n{said[-3000:]}")
        return said

    def follow(self, job: str, is_enough: Callable[[str], bool], more_s: float = 0) -> str:
        """Boots and runs a script until it has said enough, or has ended; what was printed."""
        words = self.guest.command(self.kernel, self.guest.pack(job), *self.drive())
        said = self.disk.with_suffix(".said")
        with open(said, "wb") as output:
            running = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            told, still = "", Still(running.pid)
            while not is_enough(told) and running.poll() is None:
                if still.is_over(told):
                    raise RuntimeError(f"the guest goes no further\n{told[-3000:]}")
                time.sleep(0.2)
                told = said.read_text(errors="replace")
            time.sleep(more_s)
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()
        return said.read_text(errors="replace")

    def check(self) -> set[str]:
        """Boots again; the keys that a plain server finds, each with its value."""
        said = self.follow(CHECK, lambda _: False)
        ended, wrong = ENDED.search(said), WRONG.search(said)
        if ended is None or int(ended[1]) or wrong is None or int(wrong[1]):
            raise AssertionError(said[-3000:])
        print("".join(f"  {line}\n" for line in said.splitlines() if "recover" in line), end="")
        if "a torn end" in said:
            print("  the file had a torn end, which redis-check-aof has cut off")
        found, size = set(FOUND.findall(said)), SIZE.search(said)
        if size is None or len(found) != int(size[1]):
            raise AssertionError(f"{len(found)} keys were printed of {size and size[1]}\n{said[-3000:]}")
        return found


def machine() -> Machine:
    subprocess.run([ROOT / "verify/setup.sh", *PACKAGES, "e2fsprogs"], check=True)
    guest = Guest(PLACE / "root-of-guest", MODULES, INIT)
    kernel = guest.prepare()
    for name in ("redis-server", "redis-check-aof", "redis-cli"):
        guest.add(Path("/usr/bin") / name, f"/bin/{name}")
    for name in ("heliostat", "heliostatd", "libheliostat_posix.so"):
        guest.add(BUILT / name, f"/bin/{name}")
        subprocess.run(["strip", guest.root / "bin" / name], check=True)
    return Machine(guest, kernel, PLACE / "disk.img")


def lose(machine: Machine, number: int, chosen: random.Random, counter: str = "", **words: str) -> tuple[set[str], set[str]]:
    """One loss of power: what was acknowledged before, and what is there after."""
    job = BEGIN + LOAD.format(round=number, rewriting=chosen.choice([1, 2, 4]), status=STATUS if counter else ":", **words)
    said = machine.load(job, 200, chosen.uniform(0, 3), counter)
    kept, found = set(KEPT.findall(said)), machine.check()
    counted = f"; {counter}: {most(said, counter)}" if counter else ""
    print(f"  loss {number}: {len(kept)} writes acknowledged, {len(kept - found)} of them lost{counted}", flush=True)
    return kept, found


def main() -> int:
    here = machine()
    print("a server that does not flush has to lose some", flush=True)
    here.make_disk()
    kept, found = lose(here, 0, random.Random(SEED), server="", client="", flushes="no")
    if kept <= found:
        print("power_loss: 0 passed, 1 failed: it has lost nothing, so that nothing is tested here")
        return 1
    here.make_disk()
    acknowledged: set[str] = set()
    for number in range(1, LOSSES + 1):
        # By turns the file's own flushes, and the log in its place.
        server, counter = WAYS[number % 2]
        print(f"seed {SEED}, loss {number}: {server}", flush=True)
        chosen = random.Random(f"{SEED} {number}")
        kept, found = lose(here, number, chosen, counter, server=server, client="heliostat run --", flushes="always")
        acknowledged |= kept
        if lost := sorted(acknowledged - found):
            print(f"power_loss: {number} passed, 1 failed: lost {len(lost)}: {lost[:5]}")
            return 1
    print(f"power_loss: {LOSSES + 1} passed, 0 failed; {len(acknowledged)} writes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
