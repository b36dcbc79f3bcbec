"""A small Linux guest: an initial file system in memory, a Debian kernel, QEMU.

The host needs no KVM: the guest's processor is emulated (QEMU's TCG). Everything that runs in it is copied
from the host with the libraries that it is linked to.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ["qemu-system-x86", "busybox-static", "kmod", "cpio"]
ENDED = re.compile(r"^guest: ended with (\d+)", re.MULTILINE)

# What each guest does first; a job follows.
BEGIN = """#!/bin/busybox sh
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
"""


@dataclass
class Guest:
    """The guest's files, and what it is to run."""

    folder: Path
    # In an order in which each finds what it needs; `depmod` adds what they depend on.
    modules: list[str]
    # What runs after BEGIN, as the first process.
    init: str
    memory_mib: int = 1500

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
        """Unpacks the kernel and begins the root; the kernel's path."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.root.mkdir(parents=True)
        kernel = self.kernel()
        self.copy(Path(shutil.which("busybox") or "/bin/busybox"), "/bin/busybox")
        (self.root / "init").write_text(BEGIN + self.init)
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
        for name in self.modules:
            path = by_name.get(name)
            # One that is built in is not listed.
            for one in [*reversed(needs[path]), path] if path else []:
                if one not in order:
                    order.append(one)
        for one in order:
            self.copy(modules / one, f"/lib/modules/{one}")
        (self.root / "modules").write_text("".join(f"/lib/modules/{one}\n" for one in order))

    def pack(self, job: str) -> Path:
        """The root with a shell script as its job, as the image that the kernel unpacks."""
        (self.root / "job").write_text(job)
        pack = "find . | cpio -o -H newc --quiet | gzip -1 > ../initramfs.cpio.gz"
        subprocess.run(["sh", "-c", pack], cwd=self.root, check=True)
        return self.folder / "initramfs.cpio.gz"

    def command(self, kernel: Path, image: Path, *more: str) -> list[str]:
        """QEMU's words; it dies with this process."""
        return ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", str(self.memory_mib), "-nographic", "-no-reboot",
                "-nic", "none", "-kernel", str(kernel), "-initrd", str(image),
                "-append", "console=ttyS0 panic=-1 quiet mitigations=off no_timer_check", *more]  # fmt: skip

    def run(self, kernel: Path, job: str, seconds: float, *more: str) -> tuple[int, str]:
        """Boots, runs a shell script, and ends; its status and all that was printed."""
        words = self.command(kernel, self.pack(job), *more)
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=seconds, check=False)
        ended = ENDED.search(done.stdout)
        return (int(ended[1]) if ended else -1), done.stdout
