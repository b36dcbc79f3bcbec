"""Stores on a namespace of an NVMe device, by its own commands, in an emulated guest (`make test-nvme`).

The device is QEMU's; the guest's kernel is Debian's, whose io_uring carries its commands (NVME_URING_CMD_IO).
Three parts: the device's tests (`backend/block/tests/namespace.rs`); a control plane with a store on the namespace,
an area and a log in it, over its kill -9; and a loss of power: QEMU is killed, and what was acknowledged by
forced unit access is there in the next guest.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "verify")]

from emulated_guest import PACKAGES, Guest  # noqa: E402

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PLACE = TARGET / "nvme/guest"
BUILT = Path(os.environ.get("HELIOSTAT_BIN", TARGET / "release/heliostat")).parent
SECONDS = 600
DISK_BYTES = 64 << 20
MODULES = ["crc32c_generic", "nvme"]
INIT = """
ifconfig lo up
i=0; until [ -e /dev/ng0n1 ] || [ $i -ge 100 ]; do i=$((i+1)); sleep 0.1; done
[ -e /dev/ng0n1 ] || { echo "guest: no namespace"; ls /dev | grep nvme; }
sh /job
echo "guest: ended with $?"
poweroff -f
"""
SURROUNDINGS = "export HOME=/tmp XDG_RUNTIME_DIR=/tmp HELIOSTAT_SOCKET=/tmp/control.sock HELIOSTAT_NAMESPACE=/dev/ng0n1 RUST_BACKTRACE=1\n"
TESTS = SURROUNDINGS + "/namespace --test-threads=1 --nocapture\n"
STORE = SURROUNDINGS + """
heliostat doctor | grep -i nvme
heliostat store init /dev/ng0n1 --force || exit 1
heliostat start && heliostat store attach /dev/ng0n1 && heliostat store inspect || exit 2
heliostat area create ledger --size 8M && heliostat area inspect ledger || exit 3
kill -9 $(cat /tmp/control.sock.pid)
sleep 1
rm -f /tmp/control.sock
heliostat start && heliostat store inspect | grep -q /dev/ng0n1 || exit 5
heliostat area resize ledger --size 1M && heliostat area delete ledger || exit 6
heliostat store inspect --json
heliostat store detach || exit 7
"""
LOAD = SURROUNDINGS + "/namespace --ignored --exact --nocapture durable_writes_until_the_power_is_lost\n"
CHECK = SURROUNDINGS + "HELIOSTAT_KEPT={kept} /namespace --ignored --exact --nocapture durable_writes_are_there_after_the_power_was_lost\n"
KEPT = re.compile(r"^kept (\d+)\r?$", re.MULTILINE)


def built() -> Path:
    """Builds the tests; their program."""
    words = [os.environ.get("CARGO", "cargo"), "test", "-p", "heliostat-backend-block", "--test", "namespace", "--no-run", "--message-format=json"]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    found = [it["executable"] for it in messages if it.get("executable") and it["target"]["name"] == "namespace"]
    return Path(found[-1])


def drive(disk: Path) -> list[str]:
    """QEMU's words for a namespace that lies in a file, takes sectors back, and writes through its cache."""
    return ["-drive", f"file={disk},if=none,id=d0,format=raw,cache=writeback,discard=unmap", "-device", "nvme,drive=d0,serial=helio0"]


def made(disk: Path) -> Path:
    disk.unlink(missing_ok=True)
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    return disk


def lose_power(guest: Guest, kernel: Path, disk: Path) -> int:
    """Writes until QEMU is killed; how many were acknowledged."""
    command = guest.command(kernel, guest.pack(LOAD), *drive(disk))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, errors="replace") as machine:
        until, said = time.monotonic() + SECONDS, []
        for line in machine.stdout:
            said.append(line)
            kept = KEPT.match(line)
            if time.monotonic() > until or "guest: ended" in line or (kept and int(kept[1]) >= 200):
                break
        machine.kill()
        said += machine.stdout.readlines()
    return max((int(one) for one in KEPT.findall("".join(said))), default=0)


def main() -> int:
    subprocess.run([ROOT / "verify/setup.sh", *PACKAGES], check=True)
    guest = Guest(PLACE, MODULES, INIT, memory_mib=700)
    kernel = guest.prepare()
    guest.add(built(), "/namespace")
    for program in ("heliostat", "heliostatd"):
        guest.add(BUILT / program, f"/bin/{program}")
    print("the guest boots; its processor is emulated, so this takes minutes", flush=True)
    disk = PLACE.parent / "disk"
    failed = []
    for name, job in (("the device", TESTS), ("a store", STORE)):
        status, said = guest.run(kernel, job, SECONDS, *drive(made(disk)))
        print(said[-6000:], flush=True)
        if status != 0 or "guest: no namespace" in said or "skipped" in said:
            failed.append(f"{name}: {status}")
    kept = lose_power(guest, kernel, made(disk))
    status, said = guest.run(kernel, CHECK.format(kept=kept), SECONDS, *drive(disk))
    print(said[-3000:], flush=True)
    if kept < 100 or status != 0:
        failed.append(f"loss of power: {kept} were acknowledged, {status}")
    print(f"a loss of power after {kept} durable writes: " + ("failed: " + "; ".join(failed) if failed else "all are there"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
