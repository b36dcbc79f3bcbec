"""Runs a command as default Docker and Kubernetes would: behind their filter, with their rights.

    container.py [--user UID] [--namespaces] [--plain] -- COMMAND [WORD ...]

Without a container: the filter and the capabilities are what makes the difference to programs that
seal others. `--namespaces` lets namespaces and mounts pass, as where nested containers are allowed;
`--user` is an ordinary user without any capability; `--plain` leaves the filter out. The filter is
this file's own, by what moby's and containerd's profiles refuse without further capabilities.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import signal
import struct
import sys
from pathlib import Path

NUMBERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
EPERM, ENOSYS = 1, 38
# Refused whatever the arguments are, by what the capability for it would be: administration, other
# processes, other users' files, clocks, modules, devices, placement of memory, the kernel's log.
REFUSED = """
    bpf fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount mount_setattr move_mount open_tree
    perf_event_open quotactl quotactl_fd setdomainname sethostname setns umount2 unshare pivot_root swapon swapoff
    kcmp pidfd_getfd process_madvise
    open_by_handle_at
    settimeofday clock_settime
    delete_module init_module finit_module create_module query_module get_kernel_syms kexec_load kexec_file_load
    iopl ioperm vhangup acct reboot
    get_mempolicy mbind set_mempolicy set_mempolicy_home_node migrate_pages move_pages
    syslog
    add_key keyctl request_key userfaultfd io_uring_setup io_uring_enter io_uring_register
    nfsservctl uselib ustat sysfs _sysctl
""".split()
# Let through where containers may be nested.
OF_NAMESPACES = """
    fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree setns umount2 unshare pivot_root
    sethostname setdomainname
""".split()
NAMESPACES = 0x7E020000
PERSONALITIES = [0, 8, 0x20000, 0x20008, 0xFFFFFFFF]
# AF_ALG and AF_VSOCK.
REFUSED_DOMAINS = [38, 40]
# What the profile does not know does not exist: calls of later kernels.
KNOWN_BELOW = 467
# CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, NET_RAW, SYS_CHROOT,
# MKNOD, AUDIT_WRITE, SETFCAP (linux/capability.h).
CAPABILITIES = [0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31]
CAPABILITIES_MAX, CAP_SYS_ADMIN = 64, 21

# Instructions (linux/bpf_common.h), verdicts (linux/seccomp.h) and offsets in seccomp_data.
LOAD, EQUAL, AT_LEAST, ANY_BIT, END = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000
NUMBER, ARCH, FIRST_ARGUMENT = 0, 4, 16
X86_64 = 0xC000003E
# prctl(2): numbers of options.
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 24, 38, 22, 2
CAPABILITY_VERSION = 0x20080522

libc = ctypes.CDLL(None, use_errno=True)


def step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def numbers() -> dict[str, int]:
    """Every call of this machine's headers."""
    found = re.findall(r"#define __NR_(\w+) (\d+)", NUMBERS.read_text())
    return {name: int(number) for name, number in found}


def by_first_argument(number: int, tests: list[bytes], matches: int, otherwise: int) -> list[bytes]:
    """Of one call: `matches` where a test of its first argument holds."""
    own = [step(LOAD, FIRST_ARGUMENT)]
    for place, test in enumerate(tests):
        code, operand = struct.unpack("=HxxI", test)
        own.append(step(code, operand, len(tests) - place, 0))
    own += [step(END, otherwise), step(END, matches)]
    return [step(EQUAL, number, 0, len(own)), *own]


def assemble(namespaces: bool) -> bytes:
    """The whole filter."""
    known, refused = numbers(), {FAIL | EPERM: REFUSED, FAIL | ENOSYS: ["clone3"]}
    whole = [step(LOAD, ARCH), step(EQUAL, X86_64, 1, 0), step(END, FAIL | ENOSYS), step(LOAD, NUMBER)]
    whole += [step(AT_LEAST, KNOWN_BELOW, 0, 1), step(END, FAIL | ENOSYS)]
    for verdict, names in refused.items():
        for name in names:
            if name in known and not (namespaces and name in OF_NAMESPACES):
                whole += [step(EQUAL, known[name], 0, 1), step(END, verdict)]
    if not namespaces:
        whole += by_first_argument(known["clone"], [step(ANY_BIT, NAMESPACES)], FAIL | EPERM, ALLOW)
    equal = [step(EQUAL, value) for value in PERSONALITIES]
    whole += by_first_argument(known["personality"], equal, ALLOW, FAIL | EPERM)
    domains = [step(EQUAL, value) for value in REFUSED_DOMAINS]
    whole += by_first_argument(known["socket"], domains, FAIL | EPERM, ALLOW)
    return b"".join([*whole, step(END, ALLOW)])


def call(name: str, *arguments: object) -> None:
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def rights() -> int:
    """The capabilities of this process, a bit for each."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"^CapEff:\s*(\w+)", status, re.MULTILINE).group(1), 16)


def limit_rights(user: int | None) -> None:
    """Docker's capabilities for root; none for a user. Who is a user already has none."""
    if os.geteuid() != 0:
        return
    kept = [] if user is not None else CAPABILITIES
    for number in range(CAPABILITIES_MAX):
        if number not in kept:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        return
    mask = rights() & sum(1 << number for number in CAPABILITIES)
    sets = struct.pack("=6I", mask, mask, 0, 0, 0, 0)
    call("capset", struct.pack("=Ii", CAPABILITY_VERSION, 0), sets)


def limit_calls(namespaces: bool) -> None:
    """Puts the filter up. Root's programs may gain rights behind it, as in containers."""
    if not rights() & 1 << CAP_SYS_ADMIN:
        call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    program = assemble(namespaces)
    text = ctypes.create_string_buffer(program, len(program))
    whole = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(text))
    call("prctl", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, whole, 0, 0)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--user", type=int, metavar="UID")
    words.add_argument("--namespaces", action="store_true")
    words.add_argument("--plain", action="store_true")
    words.add_argument("command", nargs="+")
    given = words.parse_args()
    # Who has become another may not read its own any more.
    environment = surroundings()
    if not given.plain:
        # Before rights are limited, as afterwards a filter would take no_new_privs.
        limit_calls(given.namespaces)
    limit_rights(given.user)
    # Python ignores these, and programs inherit what is ignored.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(given.command[0], given.command, environment)


def surroundings() -> dict[bytes, bytes]:
    """The environment as it was handed in: Python adds a locale to one without."""
    whole = Path("/proc/self/environ").read_bytes().split(b"\0")
    return dict(one.split(b"=", 1) for one in whole if b"=" in one)


def run() -> None:
    try:
        main()
    except OSError as error:
        sys.exit(f"container.py: {error}")


if __name__ == "__main__":
    run()
