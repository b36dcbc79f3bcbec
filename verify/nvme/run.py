"""Stores on a namespace of an NVMe device, by its own commands, in an emulated guest (`make test-nvme`).

The device is QEMU's; the guest's kernel is Debian's, whose io_uring carries its commands (NVME_URING_CMD_IO).
Parts: the device's tests, also as a user whose commands the kernel refuses (`backend/block/tests/namespace.rs`);
a store by the command line, over a kill -9 of its control plane; the control plane's own tests with their stores
on the namespace; and a loss of power: QEMU is killed, and what was acknowledged is there in the next guest. (What
forced unit access does is not shown: QEMU's device takes it for a plain write.) An argument names the parts to run.
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
echo root:x:0:0::/scratch:/bin/sh > /etc/passwd
echo somebody:x:65533:65533::/scratch:/bin/sh >> /etc/passwd
i=0; until [ -e /dev/ng0n1 ] || [ $i -ge 100 ]; do i=$((i+1)); sleep 0.1; done
[ -e /dev/ng0n1 ] || { echo "guest: no namespace"; ls /dev | grep nvme; }
sh /job
echo "guest: ended with $?"
poweroff -f
"""
BEGIN = """
export HOME=/scratch XDG_RUNTIME_DIR=/scratch HELIOSTAT_SOCKET=/scratch/control.sock HELIOSTATD=/bin/heliostatd RUST_BACKTRACE=1
export HELIOSTAT_NAMESPACE=/dev/ng0n1
chmod 1777 /tmp /dev/shm; mkdir -p -m 1777 /scratch
chmod 666 /dev/null /dev/ng0n1 /dev/nvme0n1
wrong() { echo "guest: wrong: $*"; exit 1; }
does() { echo "+ $*"; "$@" || wrong "$*"; }
# What a command says has these words in it.
says() { words=$1; shift; echo "+ $*"; said=$("$@" 2>&1); echo "$said"; case $said in *"$words"*) ;; *) wrong "not '$words': $*" ;; esac; }
refuses() { words=$1; shift; "$@" >/dev/null 2>&1 && wrong "it was done: $*"; says "$words" "$@"; }
"""
TESTS = BEGIN + """
/namespace --test-threads=1 --nocapture || exit 1
su -s /bin/sh somebody -c '/namespace --ignored --exact --nocapture without_privilege_its_disk_is_driven_where_the_kernel_refuses_commands'
"""
COMMANDS = "driven by the commands of its NVMe namespace"
STORE = BEGIN + f"""
says 'a store is driven by the commands of its NVMe namespace' heliostat doctor
refuses 'the device is empty' heliostat store inspect /dev/ng0n1
refuses 'leave --size out' heliostat store init /dev/ng0n1 --size 1M
says '{COMMANDS}' heliostat store init /dev/ng0n1
refuses 'neither a file nor a disk' heliostat store inspect /dev/null
refuses 'a store already' heliostat store init /dev/ng0n1
does heliostat start
says 0 heliostat store attach /dev/ng0n1
says '{COMMANDS}' heliostat store inspect
does heliostat area create ledger --size 8M
says directly heliostat area inspect ledger
says ledger heliostat store inspect /dev/ng0n1
says '{COMMANDS}' heliostat store inspect /dev/ng0n1
refuses 'in use' heliostat store init /dev/ng0n1 --force
refuses 'in use' heliostat store init /dev/nvme0n1 --force
does kill -9 $(cat /scratch/control.sock.pid)
sleep 1
says ledger heliostat store inspect /dev/ng0n1
does heliostat start
says /dev/ng0n1 heliostat store inspect
says directly heliostat area inspect ledger
does heliostat area resize ledger --size 1M
does heliostat area delete ledger
says 'nvme_commands' heliostat store inspect --json
sleep 2
does heliostat store detach
says "the kernel's block layer" su -s /bin/sh somebody -c 'HELIOSTAT_SOCKET=/scratch/other.sock heliostat doctor'
says "the kernel's block layer: its namespace takes no commands from here" su -s /bin/sh somebody -c 'heliostat store inspect /dev/ng0n1'
says "driven by the kernel's block layer: the disk was named" heliostat store inspect /dev/nvme0n1
"""
CONTROL = BEGIN + """
export HELIOSTAT_KILLS=5
/store_ways --test-threads=1 && /store_killed --test-threads=1 || exit 1
/store --test-threads=1 areas_are_made what_was_deleted || exit 1
# One needs a small store.
/store_programs --test-threads=1 --skip a_full_store_refuses
"""
PARTS = {"device": TESTS, "store": STORE, "control": CONTROL}
POWER = "power"
# Which tests a part runs, by folder of their package.
DEVICE = ("backend/block", ["namespace"])
SUITES = {"device": DEVICE, POWER: DEVICE, "control": ("heliostatd", ["store", "store_ways", "store_killed", "store_programs"])}
LOAD = BEGIN + "/namespace --ignored --exact --nocapture durable_writes_until_the_power_is_lost\n"
CHECK = "HELIOSTAT_KEPT={kept} /namespace --ignored --exact --nocapture durable_writes_are_there_after_the_power_was_lost\n"
KEPT = re.compile(r"^kept (\d+)\r?$", re.MULTILINE)
PASSED = re.compile(r"test result: ok\. (\d+) passed")


def built(parts: list[str]) -> dict[str, Path]:
    """Builds the tests of these parts; their programs, by name."""
    suites = [SUITES[part] for part in parts if part in SUITES]
    wanted = {(ROOT / folder / "Cargo.toml", test) for folder, tests in suites for test in tests}
    if not wanted:
        return {}
    # Not by -p: that chooses other features of what others use, and builds all of it a second time.
    words = [os.environ.get("CARGO", "cargo"), "test", "--workspace", "--no-run", "--message-format=json"]
    words += [word for test in sorted({test for _, test in wanted}) for word in ("--test", test)]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    made = [it for it in messages if it.get("executable")]
    # Another package may have a test of the same name.
    return {it["target"]["name"]: Path(it["executable"]) for it in made if (Path(it["manifest_path"]), it["target"]["name"]) in wanted}


def drive(disk: Path) -> list[str]:
    """QEMU's words for a namespace that lies in a file, takes sectors back, and writes through its cache."""
    return ["-drive", f"file={disk},if=none,id=d0,format=raw,cache=writeback,discard=unmap", "-device", "nvme,drive=d0,serial=helio0"]


def made(disk: Path) -> Path:
    disk.unlink(missing_ok=True)
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    return disk


def machine(parts: list[str]) -> tuple[Guest, Path]:
    """The guest with all programs of these parts, and its kernel."""
    guest = Guest(PLACE, MODULES, INIT)
    kernel = guest.prepare()
    (guest.root / "etc").mkdir()
    programs = {f"/{name}": path for name, path in built(parts).items()}
    programs |= {f"/bin/{name}": BUILT / name for name in ("heliostat", "heliostatd")}
    for to, program in programs.items():
        guest.add(program, to)
        subprocess.run(["strip", guest.root / to.lstrip("/")], check=True)
    return guest, kernel


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


def run_part(guest: Guest, kernel: Path, disk: Path, name: str) -> str:
    """Why a part has failed, if it has."""
    begun = time.monotonic()
    try:
        status, said = guest.run(kernel, PARTS[name], SECONDS, *drive(made(disk)))
    except subprocess.TimeoutExpired as late:
        status, said = -1, (late.stdout or b"").decode(errors="replace")
    failed = status != 0 or "guest: no namespace" in said or "skipped:" in said
    print(said[-12000:], flush=True)
    tests = sum(map(int, PASSED.findall(said)))
    print(f"{name}: {'failed' if failed else 'passed'}, {tests} tests, {time.monotonic() - begun:.0f} s", flush=True)
    return f"{name}: {status}" if failed else ""


def run_power(guest: Guest, kernel: Path, disk: Path) -> str:
    """The same of the loss of power."""
    kept = lose_power(guest, kernel, made(disk))
    status, said = guest.run(kernel, BEGIN + CHECK.format(kept=kept), SECONDS, *drive(disk))
    print(said[-3000:], flush=True)
    print(f"{POWER}: {kept} durable writes were acknowledged", flush=True)
    return f"{POWER}: {kept} were acknowledged, {status}" if kept < 100 or status != 0 else ""


def main() -> int:
    wanted = sys.argv[1:] or [*PARTS, POWER]
    subprocess.run([ROOT / "verify/setup.sh", *PACKAGES, "binutils"], check=True)
    guest, kernel = machine(wanted)
    print("the guest boots; its processor is emulated, so this takes minutes", flush=True)
    disk = PLACE.parent / "disk"
    parts = [run_power if name == POWER else lambda *at, name=name: run_part(*at, name) for name in wanted]
    failed = [why for part in parts if (why := part(guest, kernel, disk))]
    print("nvme: " + ("failed: " + "; ".join(failed) if failed else f"passed: {', '.join(wanted)}"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
