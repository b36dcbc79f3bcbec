"""The testbed of one attack: grants, secrets, doors, and how all of it looks.

A testbed is a folder with the granted parts `rw` (read and write), `ro` (read), `data` (read and
write) with `data/sub/keys` and others inside it (read), `shown` and `data/looked` (attributes only), and with `outside`, which is granted to
nobody; besides that sockets, queues and segments outside. `appearance()` is everything that an
attack could change, as one flat dict: two of them are equal when nothing outside changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import stat
import subprocess
import tempfile
from pathlib import Path

import foreign

GRANTS = ("rw:rw", "ro:ro", "data:rw", "data/sub/keys:ro", "data/sub/hollow:ro", "data/pinned:ro", "shown:stat",
          "data/looked:stat", "kept:rw")  # fmt: skip
# Where an attack may do what it likes; everything else is compared.
FREE = ("rw", "data")
GUARDED = ("data/looked", "data/sub/keys", "data/sub/hollow", "data/pinned", "data/pinned-other", "data/twin")
# A folder below /tmp, of which these parts are granted.
SHELF_GRANTS = ("rw:rw", "ro:ro")
# Where the runner sees the message queues outside.
QUEUES = Path("/dev/shm/queues")
# What an outsider makes of two of them when an attack asks for it.
RENAMED = ("data/sub/renamed", "data/pinned-before", "rw/carried", "rw/pinned")
# What every program may open for writing, and nobody describe.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
SECRET = "secret of the testbed: "


class Testbed:
    """One testbed, owned by `user`; `close` removes it with all that belongs to it."""

    def __init__(self, tools: Path, user: int, turn: int):
        self.nonce = os.urandom(8).hex()
        self.word = SECRET + self.nonce
        self.user = user
        # Not in /tmp, which is a sealed program's own.
        self.folder = Path(tempfile.mkdtemp(prefix="containment-testbed-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.doors = Doors(self.folder, self.nonce, user)
        _plant(self.folder, tools, self.word)
        self.shelf = _shelf(self.word, user)
        _give(self.folder, user)
        _set_user_id(self.folder, tools)
        self.key = 0x48450000 + turn * 4
        self.ipc = (
            foreign.segment(self.key, self.word.encode()),
            foreign.semaphore(self.key),
            foreign.letters(self.key),
        )
        self.queue_name = f"/containment-{self.nonce}"
        self.queue = foreign.queue(self.queue_name)
        self.shared = Path(f"/dev/shm/containment-{self.nonce}")
        self.shared.write_text(self.word)
        os.chown(self.shared, user, user if os.geteuid() == 0 else -1)

    def grants(self) -> list[str]:
        """The grants as `heliostat run` takes them."""
        places = [f"{self.folder}/{grant}" for grant in GRANTS] + [f"{self.shelf}/{grant}" for grant in SHELF_GRANTS]
        return [word for place in places for word in ("--grant", place)]

    def environment(self) -> dict[str, str]:
        """What an attack is told; more than a real attacker would know."""
        kind, handle = foreign.handle_of(self.folder / "outside/secret")
        return {
            "TESTBED": str(self.folder),
            "SHELF": str(self.shelf),
            "SECRET_HANDLE": handle,
            "SECRET_HANDLE_TYPE": str(kind),
            "SHM_KEY": str(self.key),
            "SEM_KEY": str(self.key),
            "MSG_KEY": str(self.key),
            "SHM_ID": str(self.ipc[0]),
            "SEM_ID": str(self.ipc[1]),
            "MSG_ID": str(self.ipc[2]),
            "QUEUE": self.queue_name[1:],
            "SHM_NAME": self.shared.name,
            **self.doors.environment(),
        }

    def appearance(self) -> dict[str, object]:
        """Everything outside, as it is now."""
        seen: dict[str, object] = dict(_tree(self.folder))
        for kind in ("shm", "sem", "msg"):
            seen[f"System V {kind}"] = Path(f"/proc/sysvipc/{kind}").read_text()
        seen["POSIX queue"] = foreign.messages_in(self.queue)
        seen["POSIX queues"] = sorted(path.name for path in QUEUES.iterdir())
        seen |= {f"/tmp/{name}": how for name, how in _tree_of_shelf(self.shelf).items()}
        seen["/dev/shm"] = {path.name: path.read_bytes() for path in Path("/dev/shm").iterdir() if path.is_file()}
        for switch in ("hostname", "core_pattern", "randomize_va_space"):
            seen[switch] = Path("/proc/sys/kernel", switch).read_text()
        seen["devices"] = {name: _described(Path("/dev", name)) for name in DEVICES}
        seen["visitors"] = self.doors.visitors()
        return seen

    def move_if_asked(self) -> bool:
        """Acts as the outsider who moves a folder out of the grant; true when it was done now."""
        if (self.folder / "rw/please-rename").exists():
            self._rename_the_guarded()
            return True
        if (self.folder / "rw/please-carry").exists():
            (self.folder / "data/sub/keys").rename(self.folder / "rw/carried")
            (self.folder / "rw/pinned").hardlink_to(self.folder / "data/pinned")
            return True
        asked = self.folder / "rw/please-move"
        if not asked.exists():
            return False
        with contextlib.suppress(OSError):
            (self.folder / "rw/moving").rename(self.folder / "outside/moving")
        return True

    def _rename_the_guarded(self) -> None:
        """As an editor and an administrator would: another file in the place of one, a folder renamed."""
        pinned, before = self.folder / "data/pinned", self.folder / "data/pinned-before"
        before.hardlink_to(pinned)
        (self.folder / "outside/new").write_text("pinned anew\n")
        (self.folder / "outside/new").rename(pinned)
        (self.folder / "data/sub/keys").rename(self.folder / "data/sub/renamed")

    def moved(self) -> None:
        """Tells the attack that the folder has been moved."""
        for name in ("please-move", "please-rename", "please-carry"):
            (self.folder / "rw" / name).unlink(missing_ok=True)

    def close(self) -> None:
        self.doors.close()
        subprocess.run(["umount", str(self.folder / "data/twin")], check=False)
        foreign.remove_ipc(*self.ipc)
        foreign.remove_queue(self.queue_name, self.queue)
        more = f"{self.shared.name}-more"
        left = [self.shared.with_name(name) for name in (self.shared.name, more, f"sem.{more}")]
        for path in (*left, QUEUES / "heliostat-attack"):
            path.unlink(missing_ok=True)
        shelves = map(str, self.shelf.parent.glob(f"{self.shelf.name}*"))
        subprocess.run(["rm", "-rf", *shelves, str(self.folder)], check=False)  # which knows paths of any length


class Doors:
    """Sockets outside at which nobody may appear, and two that are granted."""

    def __init__(self, folder: Path, nonce: str, user: int):
        (folder / "outside").mkdir()
        self.nonce = nonce
        self.granted = _pair_of_ports(socket.AF_INET, "127.0.0.1")
        self.denied = _pair_of_ports(socket.AF_INET, "127.0.0.1")
        self.port = self.denied[0].getsockname()[1]
        self.six = _pair_of_ports(socket.AF_INET6, "::1", self.port)
        self.beside = _pair_of_ports(socket.AF_INET, "127.0.0.2", self.granted[0].getsockname()[1])
        self.unix = [
            _unix(socket.SOCK_STREAM, str(folder / "outside/door")),
            _unix(socket.SOCK_DGRAM, str(folder / "outside/letterbox")),
            _unix(socket.SOCK_STREAM, f"\0containment-{nonce}"),
            _unix(socket.SOCK_DGRAM, f"\0containment-{nonce}-box"),
        ]

    def environment(self) -> dict[str, str]:
        listen, free = _free_port(), _free_port()
        return {
            "GRANTED_PORT": str(self.granted[0].getsockname()[1]),
            "DENIED_PORT": str(self.port),
            "LISTEN_PORT": str(listen),
            "FREE_PORT": str(free),
            "ABSTRACT": f"containment-{self.nonce}",
            "ABSTRACT_BOX": f"containment-{self.nonce}-box",
            "ABSTRACT_FREE": f"containment-{self.nonce}-free",
        }

    def visitors(self) -> list[str]:
        """Who came to a door that is nobody's; a door keeps no visitor."""
        inet = ("TCP", "UDP", "TCP of IPv6", "UDP of IPv6", "TCP of 127.0.0.2", "UDP of 127.0.0.2")
        names = (*inet, "door", "letter box", "abstract door", "abstract box")
        doors = (*self.denied, *self.six, *self.beside, *self.unix)
        return [name for name, door in zip(names, doors) if _visited(door)]

    def close(self) -> None:
        for door in (*self.granted, *self.denied, *self.six, *self.beside, *self.unix):
            door.close()


def _pair_of_ports(family: int, host: str, port: int = 0) -> tuple[socket.socket, socket.socket]:
    """A listening TCP socket and a UDP socket with one number."""
    tcp, udp = socket.socket(family, socket.SOCK_STREAM), socket.socket(family, socket.SOCK_DGRAM)
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    tcp.bind((host, port))
    tcp.listen(4096)
    udp.bind((host, tcp.getsockname()[1]))
    tcp.setblocking(False)
    udp.setblocking(False)
    return tcp, udp


def _unix(kind: int, name: str) -> socket.socket:
    door = socket.socket(socket.AF_UNIX, kind)
    door.bind(name)
    if kind == socket.SOCK_STREAM:
        door.listen(16)
    door.setblocking(False)
    return door


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _visited(door: socket.socket) -> bool:
    try:
        if door.type == socket.SOCK_STREAM:
            door.accept()[0].close()
        else:
            door.recv(64)
    except BlockingIOError:
        return False
    return True


def _plant(folder: Path, tools: Path, word: str) -> None:
    for name in ("rw", "ro/sub", "data/sub/keys", "data/sub/hollow", "data/sub/free", "data/other/keys", "outside/empty", "shown",
                 "data/looked", "kept/closed", "data/open"):  # fmt: skip
        (folder / name).mkdir(parents=True)
    texts = {"rw/own": "own\n", "ro/public": "public\n", "ro/note": "note\n", "ro/sub/note": "note\n"}
    texts |= {"data/sub/keys/key": "key\n", "data/sub/free/file": "file\n", "data/pinned": "pinned\n"}
    texts |= {"data/other/keys/key": "another\n", "outside/secret": word, "outside/loose": "loose\n"}
    texts |= {"outside/log": word + "\n", "shown/secret": word, "data/looked/secret": word}
    texts |= {"kept/root-only": word, "kept/closed/inside": word}
    for name, text in texts.items():
        (folder / name).write_text(text)
    for name in ("ro/public", "ro/note", "outside/secret", "outside/loose", "shown/secret", "data/looked/secret"):
        os.setxattr(folder / name, "user.word", word.encode())
    (folder / "outside/secret").chmod(0o600)
    for name, mode in {"kept/root-only": 0o600, "kept/closed": 0o700, "kept": 0o755, "data/open": 0o777}.items():
        (folder / name).chmod(mode)
    (folder / "outside/loose").chmod(0o666)
    for link, target in {"rw/planted": "outside/secret", "rw/planted-folder": "outside", "ro/planted": "outside/loose"}.items():
        (folder / link).symlink_to(folder / target)
    (folder / "outside/link-to-secret").symlink_to("secret")
    _name_again(folder)
    for name, tool in {"ro/tool": "granted-tool", "outside/tool": "tool", "outside/dynamic-tool": "dynamic-tool"}.items():
        shutil.copy(tools / tool, folder / name)


def _shelf(word: str, user: int) -> Path:
    """A folder in /tmp, which a sealed program has its own one of."""
    shelf = Path(tempfile.mkdtemp(prefix="containment-shelf-", dir="/tmp"))
    for name, mode in {"": 0o755, "rw": 0o755, "ro": 0o755, "open": 0o777}.items():
        (shelf / name).mkdir(exist_ok=True)
        (shelf / name).chmod(mode)
    for name, text in {"secret": word, "ro/file": "file\n", "open/file": "file\n"}.items():
        (shelf / name).write_text(text)
    (shelf / "open/file").chmod(0o666)
    (shelf / "rw/link").symlink_to("../secret")
    _give(shelf, user)
    return shelf


def _tree_of_shelf(shelf: Path) -> dict[str, object]:
    """What is not granted for writing there, by whatever name it has now."""
    seen = {}
    for top in sorted(shelf.parent.glob(f"{shelf.name}*")):
        paths = [path for path in (top, *sorted(top.rglob("*"))) if path.relative_to(top).parts[:1] != ("rw",)]
        seen |= {str(path.relative_to(shelf.parent)): _look(path) for path in paths}
    return seen


def _name_again(folder: Path) -> None:
    """Second names in the wider grant of what is granted for reading in it: a file's, and a folder's.

    The folder's stands for the spellings that a file system may take for one name.
    """
    (folder / "data/pinned-other").hardlink_to(folder / "data/pinned")
    (folder / "data/twin").mkdir()
    subprocess.run(["mount", "--bind", str(folder / "data/sub/keys"), str(folder / "data/twin")], check=True)


def _give(folder: Path, user: int) -> None:
    """The testbed belongs to the user whose program attacks."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user if os.geteuid() == 0 else -1, follow_symlinks=False)


def _set_user_id(folder: Path, tools: Path) -> None:
    shutil.copy(tools / "set-user-id", folder / "ro/set-user-id")
    (folder / "ro/set-user-id").chmod(0o4755)


def _described(path: Path) -> tuple:
    status = path.stat()
    return oct(status.st_mode), status.st_uid, status.st_gid, status.st_nlink, status.st_mtime_ns, os.listxattr(path)


def _tree(folder: Path) -> dict[str, object]:
    """Every name outside the freely writable grants, with what it is; the guarded parts too."""
    seen = {".": _look(folder)}
    for top in [one for one in folder.iterdir() if one.name not in FREE] + [folder / one for one in (*GUARDED, *RENAMED)]:
        for path in (top, *(sorted(top.rglob("*")) if top.is_dir() else ())):
            seen[str(path.relative_to(folder))] = _look(path)
    return seen


def _look(path: Path) -> tuple:
    """Kind, mode, owner, links, times of content and of state, content and attributes."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return ("gone",)
    if stat.S_ISREG(status.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    else:
        content = os.readlink(path) if stat.S_ISLNK(status.st_mode) else ""
    attributes = {}
    if not stat.S_ISLNK(status.st_mode):
        attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    if path.name == "log":  # may be appended to, and no more
        return oct(status.st_mode), status.st_uid, status.st_nlink, path.read_text().splitlines()[:1], attributes
    numbers = (oct(status.st_mode), status.st_uid, status.st_gid, status.st_ino, status.st_nlink)
    return (*numbers, status.st_mtime_ns, status.st_ctime_ns, content, attributes)
