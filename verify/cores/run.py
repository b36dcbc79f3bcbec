"""Cores parted by real cpusets of control groups (version 2), and real interrupts moved, in an emulated guest (`make test-cores`).

Hosts differ in what they let a test do; the guest's kernel is Debian's, which has all of it. Each part runs with a
control plane and a control group of its own: root, with a crash in between; a user to whom a group was handed;
a user to whom none was; and a container, which sees its own group as the root of all.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "verify")]

from emulated_guest import PACKAGES, Guest  # noqa: E402

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PLACE = TARGET / "cores/guest"
BUILT = Path(os.environ.get("HELIOSTAT_BIN", TARGET / "release/heliostat")).parent
SECONDS = 900
INIT = """
mkdir -p /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control
chmod 1777 /tmp; mkdir -p -m 1777 /scratch
sh /job
echo "guest: ended with $?"
poweroff -f
"""
# A function returns what was found; `is` compares, and ends the guest where it is something else.
WORDS = """
CG=/sys/fs/cgroup
is() { [ "$1" = "$2" ] && echo "ok: $3" || { echo "FAILED: $3: '$1' and not '$2'"; exit 1; }; }
has() { case "$1" in *"$2"*) echo "ok: $3";; *) echo "FAILED: $3: '$1' has no '$2'"; exit 1;; esac; }
cores() { sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/$1/status; }
group() { sed -n 's/^0:://p' /proc/$1/cgroup; }
children() { find $CG/$1 -mindepth 1 -type d | wc -l; }
control() { cat $HELIOSTAT_SOCKET.pid; }
irq() { cat /proc/irq/${1}/smp_affinity_list; }
begin() { mkdir -p $1; export HOME=$1 XDG_RUNTIME_DIR=$1 HELIOSTAT_SOCKET=$1/control.sock; }
program() { heliostat run -- /usr/bin/sleep 900 & P=$!; until grep -q '^sleep' /proc/$P/comm; do sleep 0.2; done; }
"""
AS_ROOT = """
begin /scratch/root; mkdir $CG/app; echo $$ > $CG/app/cgroup.procs
has "$(heliostat cores)" "placed by cpusets" "root: cpusets are possible"
has "$(heliostat doctor)" "placed by cpusets" "root: doctor says so too"
program
said=$(heliostat cores --kernel-list 1 --interrupt-list 1); echo "$said"
has "$said" "by cpusets" "root: parted by a cpuset"
is "$(cores $P)" 0 "root: the program is kept to the application cores"
has "$(group $P)" /app/ "root: it is in a group beneath its own"
is "$(cat $CG$(group $P)/cgroup.type)" threaded "root: that is a group of threads"
is "$(irq 4)" 1 "root: an interrupt was moved"
is "$(irq 0)" 0-1 "root: the timer's is kept by the system"
has "$said" "kept by the system" "root: and that is told"
taskset 3 true 2>/dev/null; taskset -p 3 $P > /dev/null
is "$(cores $P)" 0 "root: a program cannot leave its cpuset"
kill -9 $(control); sleep 1
is "$(cores $P)" 0 "crash: the cpuset outlives the control plane"
is "$(irq 4)" 1 "crash: so does the interrupt's place"
heliostat cores reset
is "$(cores $P)" 0-1 "crash: reset gives the cores back"
is "$(group $P)" /app "crash: and the group"
is "$(children app)" 0 "crash: no group is left"
is "$(irq 4)" 0-1 "crash: the interrupt is where it was"
is "$(cat $CG/app/cgroup.subtree_control)" "" "crash: cpusets are not handed on any more"
heliostat cores --kernel-list 1 > /dev/null; G=$CG$(group $P); mkdir $G/busy
has "$(heliostat cores reset 2>&1)" "1 refused by the system" "busy: a group that cannot be removed is told"
is "$(cores $P)" 0-1 "busy: who was in it has the cores again"
is "$([ -s $HELIOSTAT_SOCKET.cores ] && echo kept)" kept "busy: the journal names it still"
rmdir $G/busy; heliostat cores reset
is "$(children app)" 0 "busy: the next reset removes it"
is "$([ -e $HELIOSTAT_SOCKET.cores ] || echo gone)" gone "busy: and the journal"
kill -9 $P; heliostat stop; echo $$ > $CG/cgroup.procs
"""
# Run by the user; the first argument names the group.
OF_USER = """
begin /scratch/$1; program
said=$(heliostat cores --kernel-list 1 --interrupt-list 1); echo "$said"
is "$(cores $P)" 0 "$1: the program is kept to the application cores"
has "$said" "0 interrupts moved" "$1: no interrupt is a user's to move"
is "$(irq 4)" 0-1 "$1: none was"
[ $1 = handed ] && is "$(children handed)" 1 "$1: by a cpuset of its own"
[ $1 = handed ] || { has "$said" "by affinity masks" "$1: by masks"; is "$(group $P)" /$1 "$1: in the group where it was"; }
heliostat cores reset
is "$(cores $P)" 0-1 "$1: everything comes back"
is "$(children $1)" 0 "$1: no group is left"
kill -9 $P; heliostat stop
"""
USERS = """
for name in handed other; do
    mkdir $CG/$name; echo $$ > $CG/$name/cgroup.procs
    [ $name = handed ] && chown 1000 $CG/$name $CG/$name/cgroup.procs $CG/$name/cgroup.threads $CG/$name/cgroup.subtree_control
    /usr/bin/setpriv --reuid=1000 --regid=1000 --clear-groups sh /of-user $name || exit 1
    echo $$ > $CG/cgroup.procs
done
"""
# The first argument says whether the container may write to its groups.
IN_CONTAINER = """
CG=/scratch/groups-$1; mkdir $CG; mount -t cgroup2 none $CG; umount /sys/fs/cgroup
[ $1 = ro ] && mount -o remount,ro,bind $CG
begin /scratch/container-$1; program
is "$(group $P)" / "container, $1: its own group is the root of all"
told=$(heliostat doctor)
[ $1 = ro ] && has "$told" "programs placed by affinity masks" "container, ro: doctor says that masks are what there is"
[ $1 = rw ] && has "$told" "programs placed by cpusets" "container, rw: doctor says that cpusets are possible"
has "$told" "kernel cores pay" "container, $1: doctor tells the rest of cores too"
said=$(heliostat cores --kernel-list 1); echo "$said"
is "$(cores $P)" 0 "container, $1: the program is kept to the application cores"
[ $1 = ro ] && has "$said" "by affinity masks" "container, ro: by masks"
[ $1 = rw ] && has "$said" "by cpusets" "container, rw: by a cpuset"
heliostat cores reset
is "$(cores $P)" 0-1 "container, $1: everything comes back"
kill -9 $P; heliostat stop
"""
CONTAINERS = """
for way in ro rw; do
    mkdir $CG/container-$way; echo $$ > $CG/container-$way/cgroup.procs
    /usr/bin/unshare -C -m sh /in-container $way || exit 1
    echo $$ > $CG/cgroup.procs
done
"""
JOB = WORDS + AS_ROOT + USERS + CONTAINERS
# What each part says: one that says less has left something out.
CHECKS = {"root": 10, "crash": 7, "busy": 5, "handed": 6, "other": 7, "container": 12}


def main() -> int:
    subprocess.run([ROOT / "verify/setup.sh", *PACKAGES], check=True)
    guest = Guest(PLACE, [], INIT, memory_mib=900)
    kernel = guest.prepare()
    for name, text in (("of-user", OF_USER), ("in-container", IN_CONTAINER)):
        (guest.root / name).write_text(WORDS + text)
    for program in ("heliostat", "heliostatd", "libheliostat_posix.so"):
        guest.add(BUILT / program, f"/bin/{program}")
        subprocess.run(["strip", guest.root / "bin" / program], check=True)
    for program in ("sleep", "setpriv", "unshare"):
        guest.add(Path("/usr/bin") / program)
    print("the guest boots; its processor is emulated, so this takes minutes", flush=True)
    status, said = guest.run(kernel, JOB, SECONDS)
    print(said[-8000:], flush=True)
    held = {part: len(re.findall(rf"ok: {part}\b", said)) for part in CHECKS}
    print(f"status {status}; things that are as they should be: {held} of {CHECKS}")
    return 0 if status == 0 and held == CHECKS and "FAILED" not in said else 1


if __name__ == "__main__":
    sys.exit(main())
