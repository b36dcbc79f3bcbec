"""A small Linux guest with Soft-RoCE: an initial file system in memory, a Debian kernel, QEMU.

The host needs neither InfiniBand nor KVM: the guest's processor is emulated (QEMU's TCG). Everything that
runs in it is copied from the host with the libraries that it is linked to.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

# In an order in which each finds what it needs; `depmod` adds what they depend on.
# crc32 and crc32c are asked for by name when the device is made (rxe_icrc_init), not by a symbol.
MODULES = ["crc32_generic", "crc32c_generic", "veth", "ib_uverbs", "rdma_ucm", "rdma_rxe"]
PROVIDERS = Path("/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so")
DRIVER = Path("/etc/libibverbs.d/rxe.driver")
# What UCX loads at run time.
UCX_MODULES = Path("/usr/lib/x86_64-linux-gnu/ucx")
PACKAGES = ["qemu-system-x86", "busybox-static", "rdma-core", "ibverbs-providers", "ibverbs-utils", "kmod", "cpio"]
ENDED = re.compile(r"^guest: ended with (\d+)", re.MULTILINE)

INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /run
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t sysfs none /sys
/bin/busybox mount -t devtmpfs none /dev
/bin/busybox mkdir -p /dev/shm
/bin/busybox mount -t tmpfs none /dev/shm
/bin/busybox mount -t tmpfs none /tmp
export PATH=/sbin:/bin
/bin/busybox --install -s /bin
for module in $(cat /modules); do insmod $module || echo "guest: no module $module"; done
# busybox's shell takes its own `ip` before any other, and that one makes no pairs.
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


@dataclass
class Guest:
    """The guest's files, and what it is to run."""

    folder: Path
    files: dict[str, Path] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def add(self, program: Path, to: str = "") -> None:
        """Copies a file, and the libraries that it is linked to."""
        self.copy(program, to or str(program))
        found = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(?:=> )?(/\S+) \(0x", found):
            self.copy(Path(library), library)

    def copy(self, source: Path, to: str) -> None:
        target = self.root / to.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy2(source.resolve(), target)

    def prepare(self) -> Path:
        """Unpacks the kernel and fills the root; the kernel's path."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.root.mkdir(parents=True)
        kernel = self.kernel()
        for tool in ("rdma", "ibv_devinfo", "ip"):
            path = shutil.which(tool)
            if path is None:
                raise FileNotFoundError(f"{tool}: install {' '.join(PACKAGES)}")
            self.add(Path(path), f"/sbin/{tool}")
        self.copy(Path(shutil.which("busybox") or "/bin/busybox"), "/bin/busybox")
        self.add(PROVIDERS)
        self.copy(DRIVER, str(DRIVER))
        for library in sorted(UCX_MODULES.glob("*.so*")):
            self.add(library)
        for name in ("libucp.so.0", "libuct.so.0", "libucs.so.0", "libucm.so.0"):
            self.add(UCX_MODULES.parent / name)
        (self.root / "init").write_text(INIT)
        (self.root / "init").chmod(0o755)
        return kernel

    def kernel(self) -> Path:
        """Fetches and unpacks Debian's newest kernel, once; notes the modules to load."""
        cache = self.folder.parent / "kernel"
        if not list(cache.glob("boot/vmlinuz-*")):
            cache.mkdir(parents=True, exist_ok=True)
            depends = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True, check=True)
            package = re.search(r"Depends: (linux-image-\S+)", depends.stdout)
            if package is None:
                raise FileNotFoundError("no package of a kernel: linux-image-amd64")
            subprocess.run(["apt-get", "download", "-qq", package[1]], cwd=cache, check=True)
            subprocess.run(["dpkg-deb", "-x", next(cache.glob("*.deb")), cache], check=True)
        kernel = next(cache.glob("boot/vmlinuz-*"))
        version = kernel.name.removeprefix("vmlinuz-")
        subprocess.run(["depmod", "-b", cache, version], check=True)
        self.note_modules(cache / "lib/modules" / version)
        return kernel

    def note_modules(self, modules: Path) -> None:
        """Copies the modules and what they depend on; their order goes into /modules."""
        lines = (line.split(":") for line in (modules / "modules.dep").read_text().splitlines())
        needs = {path: rest.split() for path, rest in lines}
        by_name = {Path(path).name.split(".")[0].replace("-", "_"): path for path in needs}
        order: list[str] = []
        for name in MODULES:
            path = by_name.get(name)
            # One that is built in is not listed.
            for one in [*reversed(needs[path]), path] if path else []:
                if one not in order:
                    order.append(one)
        for one in order:
            self.copy(modules / one, f"/lib/modules/{one}")
        (self.root / "modules").write_text("".join(f"/lib/modules/{one}\n" for one in order))

    def run(self, kernel: Path, job: str, seconds: float) -> tuple[int, str]:
        """Boots, runs a shell script, and ends; its status and all that was printed."""
        (self.root / "job").write_text(job)
        image = self.folder / "initramfs.cpio.gz"
        pack = "find . | cpio -o -H newc --quiet | gzip -1 > ../initramfs.cpio.gz"
        subprocess.run(["sh", "-c", pack], cwd=self.root, check=True)
        words = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1500", "-nographic", "-no-reboot",
                 "-nic", "none", "-kernel", str(kernel), "-initrd", str(image),
                 "-append", "console=ttyS0 panic=-1 quiet mitigations=off no_timer_check"]  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=seconds, check=False)
        ended = ENDED.search(done.stdout)
        return (int(ended[1]) if ended else -1), done.stdout
