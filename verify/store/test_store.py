"""`heliostat store` and `heliostat area` as people use them: without root, on a disk, over kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from heliostat_run import BINARY

pytestmark = pytest.mark.heliostat

WATCHDOG_S = 60.0
# Owns nothing on any machine.
STRANGER = 65533


def is_gone(pid: int) -> bool:
    """Whether nothing of a process is left but what its parent may ask for."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return threads == [str(pid)] and state == "Z"


class Node:
    """A control plane that `heliostat start` starts in a folder, with the store that the environment names."""

    def __init__(self, folder: Path, store: Path | None, uid: int | None = None) -> None:
        self.environment = {
            "PATH": os.environ["PATH"],
            "HELIOSTAT_SOCKET": str(folder / "control.sock"),
            **({"HELIOSTAT_STORE": str(store)} if store else {}),
        }
        self.uid = uid

    def run(self, *words: str) -> subprocess.CompletedProcess:
        command = [str(BINARY), *words]
        identity = {} if self.uid is None else {"user": self.uid, "group": self.uid, "extra_groups": []}
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=WATCHDOG_S, check=False, **identity
        )

    def said(self, *words: str) -> str:
        ended = self.run(*words)
        assert ended.returncode == 0, (words, ended.stderr)
        return ended.stdout

    def refusal(self, *words: str) -> str:
        ended = self.run(*words)
        assert ended.returncode != 0, (words, ended.stdout)
        return ended.stderr

    def areas(self) -> dict[str, int]:
        return {area["name"]: area["bytes"] for area in json.loads(self.said("area", "list", "--json"))}

    def start(self) -> None:
        self.said("start")

    def pid(self) -> int:
        return json.loads(self.said("status", "--json"))["pid"]

    def kill(self) -> None:
        """Ends the control plane without mercy, and waits until its last thread is gone."""
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + WATCHDOG_S
        while not is_gone(pid):
            assert time.monotonic() < end, "it does not end"
            time.sleep(0.005)

    def stop(self) -> None:
        self.run("stop")


@pytest.fixture
def node(tmp_path):
    """Makes control planes that end with the test."""
    made = []

    def make(store: Path | None, uid: int | None = None) -> Node:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        if uid is not None:
            os.chown(folder, uid, uid)
            for parent in [tmp_path, *tmp_path.parents]:
                if parent.owner() == "root" and parent != Path("/"):
                    parent.chmod(parent.stat().st_mode | 0o011)
        one = Node(folder, store, uid)
        made.append(one)
        return one

    yield make
    for one in made:
        one.stop()


def test_areas_are_there_after_kill_9_of_a_control_plane_that_run_has_started(node, tmp_path):
    store = tmp_path / "store"
    one = node(store)
    one.said("store", "init", str(store), "--size", "16M")
    one.start()
    one.said("area", "create", "redis/log", "--size", "1M", "--kind", "log")
    one.said("area", "create", "b", "--size", "64K")
    for size in range(2, 7):
        one.said("area", "resize", "b", "--size", f"{size * 64}K")
        one.kill()
        one.start()
        assert one.areas() == {"redis/log": 1 << 20, "b": size << 16}
    one.said("area", "delete", "b")
    one.kill()
    one.start()
    assert one.areas() == {"redis/log": 1 << 20}


def test_somebody_without_root_has_a_store_in_a_file_of_his_own(node, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    one = node(None, STRANGER)
    store = Path(one.environment["HELIOSTAT_SOCKET"]).parent / "store"
    made = json.loads(one.said("store", "init", str(store), "--size", "16M", "--json"))
    assert made["durable_by"] in ("dsync", "flush", "dsync_alone")
    one.start()
    assert "0 areas" in one.said("store", "attach", str(store))
    one.said("area", "create", "mine", "--size", "64K")
    seen = json.loads(one.said("area", "inspect", "mine", "--json"))
    assert (seen["uid"], seen["way"]) == (STRANGER, "direct")
    foreign = tmp_path / "roots"
    subprocess.run([str(BINARY), "store", "init", str(foreign), "--size", "16M"], check=True, capture_output=True)
    one.said("store", "detach")
    assert "Permission denied" in one.refusal("store", "attach", str(foreign))
    assert one.said("store", "inspect").startswith("the control plane has no store")


def test_a_disk_holds_a_store_and_a_mounted_one_is_left_alone(node, tmp_path):
    image = tmp_path / "disk"
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    attached = subprocess.run(
        ["losetup", "--find", "--show", "--direct-io=on", str(image)], capture_output=True, text=True, check=False
    )
    if attached.returncode != 0:
        pytest.skip(f"no loop device: {attached.stderr.strip()}")
    disk = attached.stdout.strip()
    place = tmp_path / "mounted"
    place.mkdir()
    try:
        one = node(Path(disk))
        subprocess.run(["mkfs.ext4", "-q", disk], check=True, capture_output=True)
        assert "no store; --force" in one.refusal("store", "init", disk)
        mounted = subprocess.run(["mount", disk, str(place)], capture_output=True, check=False).returncode == 0
        if mounted:
            assert "in use" in one.refusal("store", "init", disk, "--force")
            subprocess.run(["umount", str(place)], check=True)
        one.said("store", "init", disk, "--force")
        one.start()
        one.said("area", "create", "a", "--size", "1M")
        assert disk in one.said("store", "inspect")
        one.kill()
        one.start()
        assert one.areas() == {"a": 1 << 20}
        one.stop()
    finally:
        subprocess.run(["umount", str(place)], capture_output=True, check=False)
        subprocess.run(["losetup", "--detach", disk], capture_output=True, check=False)
