"""A second network namespace, whose programs are remote peers: a pair of virtual devices leads to it.

Connections from it are the kernel's whatever the server is; what a server gains or loses is by
where it and the kernel's work for it run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field

# Programs that make a connection for each request would find no port free after the first sample.
SETTINGS = {"ip_local_port_range": "1024 65535", "tcp_tw_reuse": "1"}


@dataclass
class FarClients:
    """The namespace; gone with the block that it was entered for."""

    number: int = field(default_factory=lambda: os.getpid() % 200)

    @property
    def name(self) -> str:
        return f"helio-far-{os.getpid()}"

    @property
    def address(self) -> str:
        """Where servers listen for it."""
        return f"10.213.{self.number}.1"

    def __enter__(self) -> FarClients:
        if os.getuid() != 0 or not shutil.which("ip"):
            raise RuntimeError("remote peers need a network namespace of their own: root and ip(8)")
        near, far = f"hf{os.getpid()}", f"hg{os.getpid()}"
        ip("netns", "add", self.name)
        try:
            ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", self.name)
            ip("addr", "add", f"{self.address}/24", "dev", near)
            ip("link", "set", near, "up")
            ip("-n", self.name, "addr", "add", f"10.213.{self.number}.2/24", "dev", far)
            ip("-n", self.name, "link", "set", far, "up")
            for name, value in SETTINGS.items():
                ip("netns", "exec", self.name, "sh", "-c", f"echo {value} > /proc/sys/net/ipv4/{name}")
        except RuntimeError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        # The devices go with it.
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)

    def command(self, words: list) -> list[str]:
        """Words that run a program there."""
        return ["ip", "netns", "exec", self.name, *map(str, words)]


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")
