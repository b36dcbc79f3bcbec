"""iperf3, rsync's daemon, git's daemon and dovecot: servers that fork, pass and execute."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from stage import Stage, digest
from web import ALL_USERS, large

# dovecot gives its processes only those variables of its own environment that it is told to.
KEPT = {"dovecot": "TZ", "dovecot_covered": "TZ LD_PRELOAD HELIOSTAT_SOCKET"}
DOVECOT = """
import_environment = {kept}
base_dir = {folder}/run
log_path = {folder}/dovecot.log
protocols = imap
ssl = no
disable_plaintext_auth = no
listen = 127.0.0.1
mail_location = maildir:{folder}/mail/%u
first_valid_uid = 1
passdb {{
  driver = static
  args = password=word
}}
userdb {{
  driver = static
  args = uid=mail gid=mail home={folder}/mail/%u
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
"""


def test_iperf_moves_bytes_both_ways(play):
    play("tools.iperf3", iperf)


def test_rsync_daemon_gives_and_takes_files(play):
    play("tools.rsync", rsync)


def test_git_daemon_is_cloned_and_fetched(play):
    play("tools.git", git)


@pytest.mark.root
@pytest.mark.parametrize("name", KEPT)
def test_dovecot_keeps_mail(play, name):
    play(f"tools.{name}", lambda stage: dovecot(stage, KEPT[name]), configuration=ALL_USERS)


def iperf(stage: Stage) -> str:
    port = stage.port()
    stage.serve(port, ["iperf3", "-s", "-B", "127.0.0.1", "-p", port])
    answers = []
    for options in ([], ["-R"], ["-P", "4"], ["--bidir"]):
        client = stage.start(["iperf3", "-c", "127.0.0.1", "-p", port, "-t", "2", "-J", *options])
        stage.look("stream", port, at_least=4)
        said = json.loads(stage.finish(client))
        sums = said["end"]
        answers.append(f"{options} {len(said['start']['connected'])} {sums['sum_received']['bytes'] > 1_000_000}")
    counted = stage.run(["iperf3", "-c", "127.0.0.1", "-p", port, "-n", "30M", "-J"])
    # The server counts until it is told of the end, by another connection, and may not have read all by then.
    sums = json.loads(counted)["end"]
    answers.append(f"{sums['sum_sent']['bytes'] >= 30 << 20} {sums['sum_received']['bytes'] > 1_000_000}")
    return "\n".join(answers)


def rsync(stage: Stage) -> str:
    port, there, back = stage.port(), stage.folder / "there", stage.folder / "back"
    make_tree(there)
    configuration = stage.folder / "rsyncd.conf"
    configuration.write_text(
        f"use chroot = no\npid file = {stage.folder}/rsyncd.pid\n{user_words()}"
        f"[files]\npath = {there}\nread only = no\n"
    )
    stage.serve(port, ["rsync", "--daemon", "--no-detach", "--address=127.0.0.1", f"--port={port}", f"--config={configuration}"])
    place = f"rsync://127.0.0.1:{port}/files/"
    answers = [stage.run(["rsync", "-a", "--stats", place, back]).count("Number of files: 61")]
    (back / "file 7").write_bytes(b"changed" * 1000)
    slow = stage.start(["rsync", "-a", "--bwlimit=2m", "--ignore-times", "--whole-file", f"{back}/", place])
    stage.look("client", port)
    stage.finish(slow)
    stage.run(["rsync", "-a", "--checksum", place, back])
    return f"{answers} {tree(there)} {tree(back)}"


def git(stage: Stage) -> str:
    port, source, served = stage.port(), stage.folder / "source", stage.folder / "served"
    served.mkdir()
    make_tree(source)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        run_git(source, *words)
    run_git(source, "clone", "-q", "--bare", str(source), str(served / "work.git"))
    stage.serve(port, ["git", "daemon", "--reuseaddr", "--listen=127.0.0.1", f"--port={port}", "--export-all",
                       "--enable=receive-pack", f"--base-path={served}", served])  # fmt: skip
    place, copy = f"git://127.0.0.1:{port}/work.git", stage.folder / "copy"
    stage.run(["git", "clone", "-q", place, copy])
    (copy / "new").write_bytes(large())
    run_git(copy, "add", "-A")
    run_git(copy, "commit", "-q", "-m", "second")
    stage.run(["git", "-C", copy, "push", "-q", "origin", "HEAD"])
    stage.run(["git", "-C", source, "pull", "-q", place, "HEAD"])
    listed = stage.run(["git", "ls-remote", place])
    return f"{len(listed.splitlines())} {run_git(source, 'log', '--format=%s')} {tree(source)} {tree(copy)}"


def dovecot(stage: Stage, kept: str) -> str:
    port, mail = stage.port(), stage.folder / "mail"
    mail.mkdir()
    shutil.chown(mail, "mail", "mail")
    configuration = stage.folder / "dovecot.conf"
    configuration.write_text(DOVECOT.format(folder=stage.folder, port=port, kept=kept))
    stage.serve(port, ["/usr/sbin/dovecot", "-F", "-c", configuration])
    client = stage.start_python("imap.py", port)
    stage.await_mark("connected", client)
    stage.look("client", port)
    stage.mark("looked")
    return stage.finish(client)


def make_tree(folder) -> None:
    """Sixty files of growing size."""
    folder.mkdir()
    for number in range(60):
        (folder / f"file {number}").write_bytes(large()[: number * 20_011])


def tree(folder) -> str:
    """Names and contents of a folder, but for git's own."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
    return digest(b"".join(str(path.relative_to(folder)).encode() + path.read_bytes() for path in files))


def user_words() -> str:
    """rsync's daemon is told to stay root where it is root."""
    return "uid = root\ngid = root\n" if os.getuid() == 0 else ""


def run_git(folder, *words: str) -> str:
    """git itself, plainly, as somebody."""
    who = ["-c", "user.name=suite", "-c", "user.email=suite@localhost"]
    command = ["git", "-C", str(folder), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
