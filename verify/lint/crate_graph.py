"""The direction of crate dependencies, checked against `cargo metadata`.

Holds the one list of allowed edges between rooms. A crate's room is its folder; siblings
(two services, two bindings, two backends) never import each other. Any edge that is not
listed is refused, so a new room has to be written down here with its place in the order.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

LOWER = {"abi", "base"}
RULES: dict[str, set[str]] = {
    "abi": set(),
    "base": {"abi"},
    "ring": {"abi", "base"},
    "interpose": {"abi", "base"},
    "backend/*": LOWER,  # one mechanism of the kernel each
    "backend/ucx": LOWER | {"backend/transport"},  # one more of its transports
    "backend/block": LOWER | {"backend/uring"},  # devices, of which one is driven by that ring
    "backend/store": LOWER | {"backend/block", "storefile"},  # the format's steps, done on a device
    "backend/durable": LOWER | {"backend/log", "backend/block", "backend/uring"},  # files whose appends such a log keeps
    "backend/log": LOWER | {"backend/block"},  # a format and its order of writes, on any of those devices
    "backend/cores": LOWER | {"service/cores"},  # the plan's steps, done on a system
    "client": LOWER,  # of the control protocol
    "stub/link": LOWER | {"ring", "client"},  # a session with server loops, for every service that has some
    "stub/*": LOWER | {"ring", "backend/*", "client", "stub/link"},
    "stub/log": LOWER | {"backend/block", "backend/log", "client", "stub/store", "stub/lock"},  # logs lie in areas, one writer each
    "stub/posix": LOWER | {"ring", "backend/*", "client", "stub/link", "stub/log"},  # durable files' log may lie in an area
    "bind/posix": LOWER | {"ring", "client", "stub/posix", "interpose"},
    "bind/fuse": LOWER | {"names"},  # what the kernel asks, asked of names
    "bind/*": LOWER | {"ring", "client", "stub/*", "backend/pages"},
    "service/grant": {"abi"},  # what every service gives out, and to how many
    "service/*": {"abi", "service/grant"},  # net, snapshot, file
    "control": {"abi", "service/grant"},
    "server/loop": LOWER | {"ring", "backend/uring", "service/grant"},  # what is the same for every service on kernel cores
    "server/node": LOWER | {"backend/transport"},  # the node's thread: what is the same for every service between nodes
    "server/*": LOWER | {"server/loop", "server/node", "service/grant", "backend/uring", "backend/lease"},  # file, memory
    "server/network": LOWER | {"ring", "backend/tcp", "backend/socket", "service/grant"},  # lanes on one side, remote peers' sockets on the other, and what comes along on a shadow
    "server/store": LOWER | {"server/loop", "service/grant", "backend/block"},  # areas lie on a device of that interface
    "server/socket": LOWER | {"server/loop", "service/listener", "service/grant", "backend/uring"},  # whose turn a shared listener's next connection is
    "bind/lean": set(),  # C headers as text
    "server/listener": LOWER | {"service/listener", "service/grant", "backend/uring"},  # its decisions, carried out on a thread of their own
    "server/registry": LOWER | {"server/node", "backend/registry"},  # the registry that one node keeps for the others
    "server/replica": LOWER | {"server/node", "service/replica"},  # its state machines run on a thread of their own
    "heliostatd": LOWER | {"control", "service/*", "server/*", "backend/*", "storefile"},
    "supervisor": LOWER | {"control", "client", "backend/seal"},  # of sealed programs: one process each
    "snapfile": set(),  # a format: bytes in, bytes out
    "storefile": set(),  # another one
    "heliostat": LOWER | {"ring", "client", "stub/*", "backend/pages", "backend/log"},  # for programs in Rust
    "applications/*": {"heliostat"},  # what anybody could have written
    "names": LOWER | {"client", "stub/*", "backend/log"},  # what has a name, as folders and files
    "command": LOWER
    | {"interpose", "client", "stub/cluster", "stub/memory", "stub/lock", "stub/log", "stub/rpc", "stub/snapshot"}
    | {"stub/store", "service/cores"}
    | {"snapfile", "storefile", "supervisor", "control", "backend/*", "names", "bind/fuse"},
    "bench/*": {"*"},
    "verify/*": {"*"},
}

# Edges that tests alone may have: what the daemon's tests let speak to it, and rings, which are what
# tests write hostile records into.
TEST_EDGES = {
    ("heliostatd", "stub/posix"), ("heliostatd", "stub/snapshot"), ("heliostatd", "stub/file"), ("heliostatd", "client"),
    ("heliostatd", "backend/pages"), ("heliostatd", "ring"),
    ("server/file", "ring"), ("server/memory", "ring"), ("heliostatd", "stub/memory"),
    ("heliostatd", "stub/lock"), ("heliostatd", "verify/linearizability"), ("service/replica", "verify/linearizability"),
    ("server/store", "ring"), ("server/store", "backend/uring"), ("server/rpc", "ring"), ("server/socket", "ring"), ("bind/lean", "abi"), ("bind/lean", "ring"), ("heliostatd", "stub/rpc"), ("heliostatd", "stub/store"), ("server/registry", "backend/transport"),
    ("names", "backend/block"),
}  # fmt: skip


def rule_for(room: str) -> set[str] | None:
    """The rooms that `room` may import, or None when the room is not written down."""
    if room in RULES:
        return RULES[room]
    return RULES.get(room.split("/")[0] + "/*")


def allowed(room: str, imported: str) -> bool:
    """Whether a crate in folder `room` may depend on the crate in folder `imported`."""
    rule = rule_for(room) or set()
    family = imported.split("/")[0] + "/*"
    return "*" in rule or imported in rule or family in rule


def edges(metadata: dict) -> list[tuple[str, str, str]]:
    """Every (room, imported room, kind) inside the workspace."""
    root = Path(metadata["workspace_root"])
    rooms = {
        package["name"]: Path(package["manifest_path"]).parent.relative_to(root).as_posix()
        for package in metadata["packages"]
    }
    return [
        (rooms[package["name"]], rooms[dependency["name"]], dependency["kind"] or "normal")
        for package in metadata["packages"]
        for dependency in package["dependencies"]
        if dependency["name"] in rooms and dependency.get("path")
    ]


def violations(metadata: dict) -> list[str]:
    """One line for every edge that points the wrong way, and for every unknown room."""
    root = Path(metadata["workspace_root"])
    found = []
    for package in metadata["packages"]:
        room = Path(package["manifest_path"]).parent.relative_to(root).as_posix()
        if rule_for(room) is None:
            found.append(f"crate graph: room {room} is not in the list of rooms")
    for room, imported, kind in edges(metadata):
        if (room, imported) in TEST_EDGES and kind == "dev":
            continue
        if room != imported and not allowed(room, imported):
            found.append(f"crate graph: {room} may not import {imported} ({kind} dependency)")
    return found


def read_metadata(root: Path) -> dict:
    """What cargo says about the workspace at `root`, without outside dependencies."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"]
    return json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True).stdout)


def check(root: Path) -> list[str]:
    """The lint as lint.py runs it."""
    return violations(read_metadata(root))
