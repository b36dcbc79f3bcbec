"""Nodes over UCX's verbs: the transport's tests in a guest with Soft-RoCE (`make test-roce`).

What is tested is the suite of every transport. That messages went over verbs is taken from the device's own
count of packets. Skipped, with a reason, where the guest cannot be made.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from guest import PACKAGES, Guest

ROOT = Path(__file__).resolve().parents[2]
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


def main() -> int:
    subprocess.run([ROOT / "verify/setup.sh", *PACKAGES], check=True)
    guest = Guest(TARGET / "roce/guest")
    kernel = guest.prepare()
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
