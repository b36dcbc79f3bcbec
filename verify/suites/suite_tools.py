"""iperf3, rsync's daemon, git's daemon and dovecot: servers that fork, pass and execute."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from case_run import CaseRun, digest
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


def test_iperf_moves_bytes_both_ways(compare):
    compare("tools.iperf3", iperf)


def test_rsync_daemon_gives_and_takes_files(compare):
    compare("tools.rsync", rsync)


def test_git_daemon_is_cloned_and_fetched(compare):
    compare("tools.git", git)


@pytest.mark.root
@pytest.mark.parametrize("name", KEPT)
def test_dovecot_keeps_mail(compare, name):
    compare(f"tools.{name}", lambda case: dovecot(case, KEPT[name]), configuration=ALL_USERS)


def iperf(case: CaseRun) -> str:
    port = case.port()
    case.serve(port, ["iperf3", "-s", "-B", "127.0.0.1", "-p", port])
    answers = []
    for options in ([], ["-R"], ["-P", "4"], ["--bidir"]):
        client = case.start(["iperf3", "-c", "127.0.0.1", "-p", port, "-t", "2", "-J", *options])
        case.look("stream", port, at_least=4)
        said = json.loads(case.finish(client))
        sums = said["end"]
        answers.append(f"{options} {len(said['start']['connected'])} {sums['sum_received']['bytes'] > 1_000_000}")
    counted = case.run(["iperf3", "-c", "127.0.0.1", "-p", port, "-n", "30M", "-J"])
    # The server counts until it is told of the end, by another connection, and may not have read all by then.
    sums = json.loads(counted)["end"]
    answers.append(f"{sums['sum_sent']['bytes'] >= 30 << 20} {sums['sum_received']['bytes'] > 1_000_000}")
    return "\n".join(answers)


def rsync(case: CaseRun) -> str:
    port, there, back = case.port(), case.folder / "there", case.folder / "back"
    make_tree(there)
    configuration = case.folder / "rsyncd.conf"
    configuration.write_text(
        f"use chroot = no\npid file = {case.folder}/rsyncd.pid\n{user_words()}"
        f"[files]\npath = {there}\nread only = no\n"
    )
    case.serve(port, ["rsync", "--daemon", "--no-detach", "--address=127.0.0.1", f"--port={port}", f"--config={configuration}"])
    place = f"rsync://127.0.0.1:{port}/files/"
    answers = [case.run(["rsync", "-a", "--stats", place, back]).count("Number of files: 61")]
    (back / "file 7").write_bytes(b"changed" * 1000)
    slow = case.start(["rsync", "-a", "--bwlimit=2m", "--ignore-times", "--whole-file", f"{back}/", place])
    case.look("client", port)
    case.finish(slow)
    case.run(["rsync", "-a", "--checksum", place, back])
    return f"{answers} {tree(there)} {tree(back)}"


def git(case: CaseRun) -> str:
    port, source, served = case.port(), case.folder / "source", case.folder / "served"
    served.mkdir()
    make_tree(source)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        run_git(source, *words)
    run_git(source, "clone", "-q", "--bare", str(source), str(served / "work.git"))
    case.serve(port, ["git", "daemon", "--reuseaddr", "--listen=127.0.0.1", f"--port={port}", "--export-all",
                       "--enable=receive-pack", f"--base-path={served}", served])  # fmt: skip
    place, copy = f"git://127.0.0.1:{port}/work.git", case.folder / "copy"
    case.run(["git", "clone", "-q", place, copy])
    (copy / "new").write_bytes(large())
    run_git(copy, "add", "-A")
    run_git(copy, "commit", "-q", "-m", "second")
    case.run(["git", "-C", copy, "push", "-q", "origin", "HEAD"])
    case.run(["git", "-C", source, "pull", "-q", place, "HEAD"])
    listed = case.run(["git", "ls-remote", place])
    return f"{len(listed.splitlines())} {run_git(source, 'log', '--format=%s')} {tree(source)} {tree(copy)}"


def dovecot(case: CaseRun, kept: str) -> str:
    port, mail = case.port(), case.folder / "mail"
    mail.mkdir()
    shutil.chown(mail, "mail", "mail")
    configuration = case.folder / "dovecot.conf"
    configuration.write_text(DOVECOT.format(folder=case.folder, port=port, kept=kept))
    case.serve(port, ["/usr/sbin/dovecot", "-F", "-c", configuration])
    client = case.start_python("imap.py", port)
    case.await_mark("connected", client)
    case.look("client", port)
    case.mark("looked")
    return case.finish(client)


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
