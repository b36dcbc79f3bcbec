"""Nodes over UCX's verbs: the transport's tests in a guest with Soft-RoCE (`make test-roce`).

What is tested is the suite of every transport. That messages went over verbs is taken from the device's own
count of packets. Skipped, with a reason, where the guest cannot be made.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "verify")]

from emulated_guest import PACKAGES, Guest  # noqa: E402

TOOLS = ["rdma-core", "ibverbs-providers", "ibverbs-utils"]
# crc32 and crc32c are asked for by name when the device is made (rxe_icrc_init), not by a symbol.
MODULES = ["crc32_generic", "crc32c_generic", "veth", "ib_uverbs", "rdma_ucm", "rdma_rxe"]
PROVIDERS = Path("/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so")
DRIVER = Path("/etc/libibverbs.d/rxe.driver")
# What UCX loads at run time.
UCX_MODULES = Path("/usr/lib/x86_64-linux-gnu/ucx")
INIT = """# busybox's shell takes its own `ip` before any other, and that one makes no pairs.
ip=/sbin/ip
$ip link set lo up
$ip link add v0 type veth peer name v1
$ip address add 10.9.0.1/24 dev v0
$ip link set v0 up
$ip link set v1 up
rdma link add rxe0 type rxe netdev v0
sleep 1
ibv_devinfo -d rxe0 | grep -E 'state|transport'
sh /job
echo "guest: ended with $?"
poweroff -f
"""
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SECONDS = 1800
# UCX 1.13's own connection needs an auxiliary transport; over this device its datagrams abort.
JOB = """
export UCX_TLS=rc_verbs,tcp UCX_NET_DEVICES=rxe0:1,v0,lo HELIOSTAT_TEST_HOST=10.9.0.1 RUST_BACKTRACE=1
before=$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts)
/test --test-threads=1 {words}
ended=$?
after=$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts)
echo "guest: sent $((after - before)) packets"
exit $ended
"""
# Far fewer are sent by a suite that echoes megabytes over TCP.
PACKETS_MIN = 1000


def built() -> Path:
    """Builds the tests; their program."""
    words = [os.environ.get("CARGO", "cargo"), "test", "-p", "heliostat-backend-ucx", "--test", "loopback", "--no-run", "--message-format=json"]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    found = [it["executable"] for it in messages if it.get("executable") and it["target"]["name"] == "loopback"]
    return Path(found[-1])


def prepare(guest: Guest) -> Path:
    """Fills the root with what makes the device, and UCX; the kernel's path."""
    kernel = guest.prepare()
    for tool in ("rdma", "ibv_devinfo", "ip"):
        path = shutil.which(tool)
        if path is None:
            raise FileNotFoundError(f"{tool}: install {' '.join(TOOLS)}")
        guest.add(Path(path), f"/sbin/{tool}")
    guest.add(PROVIDERS)
    guest.copy(DRIVER, str(DRIVER))
    for library in sorted(UCX_MODULES.glob("*.so*")):
        guest.add(library)
    for name in ("libucp.so.0", "libuct.so.0", "libucs.so.0", "libucm.so.0"):
        guest.add(UCX_MODULES.parent / name)
    return kernel


def main() -> int:
    subprocess.run([ROOT / "verify/setup.sh", *PACKAGES, *TOOLS], check=True)
    guest = Guest(TARGET / "roce/guest", MODULES, INIT)
    kernel = prepare(guest)
    guest.add(built(), "/test")
    print("the guest boots; its processor is emulated, so this takes minutes", flush=True)
    status, said = guest.run(kernel, JOB.format(words=" ".join(sys.argv[1:])), SECONDS)
    print(said)
    sent = re.search(r"guest: sent (\d+) packets", said)
    if status == 0 and (sent is None or int(sent[1]) < PACKETS_MIN):
        print("the tests passed, but not over verbs")
        return 1
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
