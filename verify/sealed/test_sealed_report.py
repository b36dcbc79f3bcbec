"""What people are told of a sealed program: the policy of a traced run, refusals, limits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import textwrap
import tomllib

import pytest
from heliostat_run import BINARY
from sealed_python import HELPERS, PYTHON, printed, sealed, server

pytestmark = pytest.mark.heliostat
PROGRAM = """
import socket
folder, port = sys.argv[1:3]
with open(folder + "/input") as file, open(folder + "/made", "w") as made:
    made.write(file.read())
with socket.create_connection(("127.0.0.1", int(port))) as one:
    print(one.recv(9).decode())
"""


def test_a_traced_run_writes_the_policy_that_is_needed(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/input").write_text("text")
    policy = tmp_path / "policy.toml"
    with server() as (port, _):
        arguments = [PROGRAM, str(tmp_path / "data"), str(port)]
        assert printed(["--trace-policy", str(policy)], *arguments) == ["hello"]
        read = tomllib.loads(policy.read_text())
        assert read["connect"] == [f"127.0.0.1:{port}"] and "listen" not in read
        assert [grant for grant in read["grant"] if str(tmp_path) in grant] == [f"{tmp_path}/data:rw"]
        assert printed(["--policy", str(policy)], *arguments) == ["hello"]
        policy.write_text(policy.read_text().replace(f'"{tmp_path}/data:rw"', f'"{tmp_path}/data:ro"'))
        assert sealed(["--policy", str(policy)], *arguments).returncode != 0


def test_refused_file_of_another_file_system_is_told_the_first_time(tmp_path):
    """Nobody has asked for it since its file system was mounted: the kernel remembers nothing of it."""
    (tmp_path / "content").mkdir()
    (tmp_path / "content/secret").write_text("secret")
    (tmp_path / "mounted").mkdir()
    image, place = tmp_path / "image", tmp_path / "mounted"
    image.write_bytes(bytes(8 << 20))
    made = shutil.which("mkfs.ext4") and subprocess.run(["mkfs.ext4", "-q", "-d", tmp_path / "content", image])
    if not made or subprocess.run(["mount", "-o", "loop", image, place]).returncode != 0:
        pytest.skip("no file system can be mounted here")
    environment = dict(os.environ, HELIOSTAT_STUB="/nonexistent", HELIOSTAT_SOCKET=str(tmp_path / "control.sock"))
    command = [str(BINARY), "run", "--sealed", "--verbose", "--", "cat", str(place / "secret")]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    finally:
        subprocess.run(["umount", place], check=True)
    assert f"--grant {place}/secret:ro would grant" in done.stderr


def test_a_refused_call_is_explained_with_the_flag_that_grants_it(tmp_path):
    program = """
    attempt(socket.socket().connect, ("127.0.0.1", 9))
    attempt(open, sys.argv[1])
    attempt(open, sys.argv[1] + "-that-is-nowhere")
    attempt(os.mkdir, "/usr/lib/made")
    print("ready", flush=True)
    sys.stdin.read()
    """
    place = dict(os.environ, HELIOSTAT_STUB="/nonexistent", HELIOSTAT_SOCKET=str(tmp_path / "control.sock"))
    text = HELPERS + textwrap.dedent(program)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    command = [str(BINARY), "run", "--sealed", "--verbose", "--", PYTHON, "-c", text, str(secret)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=place, text=True, **pipes) as front:
        assert front.stdout.readline() == "ready\n"
        below = [int(word) for word in subprocess.check_output(["pgrep", "-f", str(tmp_path / "secret")]).split()]
        explained = [
            subprocess.run([str(BINARY), "explain", "--json", str(pid)], env=place, capture_output=True, text=True)
            for pid in below
        ]
        said = front.communicate("")[1]
    found = [json.loads(one.stdout)["refused"] for one in explained if one.returncode == 0]
    assert found, explained
    wanted = [
        "connect: to connect or send to 127.0.0.1:9, which --connect 127.0.0.1:9 would grant",
        f"openat: to read {secret}, which --grant {secret}:ro would grant",
        "mkdir: to write /usr/lib, which --grant /usr/lib:rw would grant",
    ]
    assert all(one in refused for one in wanted for refused in found), found
    assert all(f"refused: {one}" in said for one in wanted) and "nowhere" not in said, said
    assert not list(tmp_path.glob("*sealed-*"))


@pytest.mark.parametrize("stub", ["/nonexistent", ""], ids=["alone", "with the stub"])
def test_a_program_that_ends_with_an_error_says_how_much_was_refused(tmp_path, stub):
    (tmp_path / "one").write_text("secret")
    (tmp_path / "two").write_text("secret")
    place = {"PATH": os.environ["PATH"], "HELIOSTAT_STUB": stub, "HELIOSTAT_SOCKET": str(tmp_path / "control.sock")}

    def said(script: str, *flags: str) -> str:
        words = [str(BINARY), "run", "--sealed", *flags, "--", "sh", "-c", f"cat $0/one $0/one {script}", str(tmp_path)]
        done = subprocess.run(words, env=place, cwd="/usr", capture_output=True, text=True, timeout=60)
        return "".join(line for line in done.stderr.splitlines() if line.startswith("heliostat: "))

    assert said("$0/two; exit 3") == "heliostat: 2 refusals; --verbose names them"
    assert said("$0/two; kill -TERM $$") == "heliostat: 2 refusals; --verbose names them"
    assert said("; exit 3") == "heliostat: 1 refusal; --verbose names it"
    assert said("; exit 0") == said("2> /dev/null < /dev/null; exit 0") == ""
    assert "would grant" in (told := said("; exit 3", "--verbose")) and "1 refusal" not in told, told


def test_variables_that_are_harmless_or_named_cross_and_no_others(tmp_path):
    outside = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TOKEN": "t", "AWS_A": "a", "AWS_B": "b", "NUMBER": "1"}
    place = outside | {"HELIOSTAT_STUB": "/nonexistent", "HELIOSTAT_SOCKET": str(tmp_path / "control.sock")}

    def told(*flags: str) -> dict[str, str]:
        words = [str(BINARY), "run", "--sealed", *flags, "--", "env"]
        done = subprocess.run(words, env=place, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        lines = (line.split("=", 1) for line in done.stdout.splitlines())
        # Where /tmp is not its own a variable names the folder that is (docs/sealed.md, Temporary files).
        own = {name: value for name, value in lines if not (name == "TMPDIR" and "/heliostat-sealed-" in value)}
        return {name: value for name, value in own.items() if not name.startswith("HELIOSTAT_")}

    harmless = {name: outside[name] for name in ("PATH", "LC_ALL")}
    assert told() == harmless
    assert told("--env", "TOKEN", "--env", "NONE", "--env", "NUMBER=2=3") == harmless | {"TOKEN": "t", "NUMBER": "2=3"}
    assert told("--env", "AWS_*") == harmless | {"AWS_A": "a", "AWS_B": "b"}
    assert told("--clear-env", "--env", "PATH") == {"PATH": "/usr/bin:/bin"}
    assert told("--env", "*") == outside
    policy, traced = tmp_path / "policy.toml", tmp_path / "traced.toml"
    policy.write_text('env = ["TOKEN", "NUMBER=7"]\n')
    assert told("--policy", str(policy), "--env", "NUMBER=8", "--trace-policy", str(traced)) == harmless | {
        "TOKEN": "t",
        "NUMBER": "8",
    }
    assert tomllib.loads(traced.read_text())["env"] == ["TOKEN", "NUMBER=8"]
    assert "# Set outside, and not told to the program: AWS_A, AWS_B\n" in traced.read_text()


def test_a_program_of_roots_that_cannot_become_another_is_told_so():
    """Others' programs have never been able to, and are told nothing."""
    is_root = os.getuid() == 0
    program = "print(attempt(os.setgid, 33), attempt(os.setuid, 33))"
    done, told = sealed([], program), sealed(["--verbose"], program).stderr
    assert done.stdout == "EPERM EPERM\n"
    assert done.stderr.count("refused to become another user or group") == is_root, done.stderr
    assert ("to become group 33" in told) == is_root, told
    assert sealed([], "os.setgid(os.getgid()), os.setuid(os.getuid())").stderr == ""


RINGS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for number in (425, 426, 427):
    libc.syscall(number, 8, ctypes.byref(ctypes.create_string_buffer(512)), 0, 0, 0, 0)
    print(errno.errorcode[ctypes.get_errno()])
"""


def test_rings_do_not_exist_and_are_no_refusal():
    """io_uring_setup, io_uring_enter, io_uring_register: libuv and others go on without at ENOSYS."""
    done = sealed(["--verbose"], RINGS)
    assert done.stdout.split() == ["ENOSYS"] * 3 and "io_uring" not in done.stderr, done


def test_a_look_up_without_any_grant_is_told_as_a_look_up():
    named = [line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver ")]
    address = (named or ["127.0.0.1"])[0]
    family = "socket.AF_INET6" if ":" in address else "socket.AF_INET"
    program = f"print(attempt(socket.socket({family}, socket.SOCK_DGRAM).connect, ({address!r}, 53)))"
    done = sealed(["--verbose"], program)
    assert done.stdout == "EACCES\n" and "connect: to look names up, which --lookup NAME would grant" in done.stderr
    assert "--connect" not in done.stderr, done.stderr


def test_refusals_that_nobody_reads_any_more_hold_nobody_up(tmp_path):
    """As with `| head`: standard error is a pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    text = "import os\nfor path in ('/home', '/var', '/srv'):\n    os.path.exists(path)"
    words = [str(BINARY), "run", "--sealed", "--verbose", "--", PYTHON, "-c", text]
    place = dict(os.environ, HELIOSTAT_STUB="/nonexistent", HELIOSTAT_SOCKET=str(tmp_path / "control.sock"))
    done = subprocess.run(words, env=place, stdout=subprocess.PIPE, stderr=writer, timeout=60)
    os.close(writer)
    assert done.returncode == 0, done


def test_a_policy_that_cannot_be_written_is_said_before_the_program_runs(tmp_path):
    done = sealed(["--trace-policy", str(tmp_path / "none/policy.toml")], "print('ran')")
    assert done.returncode == 125 and done.stdout == ""
    assert f"--trace-policy {tmp_path}/none/policy.toml: No such file" in done.stderr


def test_memory_is_limited_by_group_or_by_process():
    program = """
    try:
        whole = bytearray(1 << 30)
        whole[::4096] = b"x" * (len(whole) // 4096)
        print("had it")
    except MemoryError:
        print("refused")
    """
    done = sealed(["--memory", "300M"], program)
    # A group's limit ends the program, a process's own lets the call fail.
    assert done.stdout != "had it\n" and (done.returncode == -9 or done.stdout == "refused\n"), done
    assert printed(["--memory", "4G"], program) == ["had it"]


def test_a_mistake_in_a_policy_names_its_place_and_what_to_write(tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text("system = true\nconnect = [9000]\n")
    done = sealed(["--policy", str(policy)], "print(1)")
    assert done.returncode == 125 and done.stdout == ""
    assert "policy.toml: line 2: connect[1]: " in done.stderr and "write 127.0.0.1:9000" in done.stderr
