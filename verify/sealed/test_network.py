"""The network of sealed programs: what is granted works, and nothing else is reached.

Each case runs a small Python program sealed and compares what it printed. Servers and listeners
that it must not reach run here, outside, and count.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from heliostat_run import BINARY, copies_descriptors
from sealed_python import HELPERS, PYTHON, printed, server

pytestmark = pytest.mark.heliostat


def test_a_connection_is_made_where_it_is_granted_and_nowhere_else():
    program = """
    def hello(port, host="127.0.0.1", family=socket.AF_INET):
        with socket.socket(family) as one:
            one.connect((host, port))
            assert one.recv(9) == b"hello"
    granted, other = int(sys.argv[1]), int(sys.argv[2])
    print(attempt(hello, granted), attempt(hello, other))
    print(attempt(hello, granted, "::ffff:127.0.0.1", socket.AF_INET6))
    print(attempt(hello, granted, "0.0.0.0"), attempt(hello, other, "0.0.0.0"))
    print(attempt(hello, granted, "127.0.0.2"))
    nonblocking = socket.socket()
    nonblocking.setblocking(False)
    print(attempt(nonblocking.connect, ("127.0.0.1", other)))
    """
    with server() as (granted, welcome), server() as (other, unwanted):
        lines = printed(["--connect", f"127.0.0.1:{granted}"], program, str(granted), str(other))
    assert lines == ["done EACCES", "done", "done EACCES", "EACCES", "EACCES"]
    assert (len(welcome), len(unwanted)) == (3, 0)


def test_an_address_that_changes_while_it_is_judged_leads_nowhere_else():
    program = """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    address = ctypes.create_string_buffer(b"\\2\\0\\0\\0\\x7f\\0\\0\\1" + bytes(8), 16)
    ports = [int(word).to_bytes(2, "big") for word in sys.argv[1:3]]
    ends = False
    def toggle():
        while not ends:
            for port in ports:
                address[2:4] = port
    threading.Thread(target=toggle, daemon=True).start()
    made = 0
    for _ in range(400):
        one = socket.socket()
        made += libc.connect(one.fileno(), address, 16) == 0
        one.close()
    ends = True
    print(made > 0)
    """
    with server() as (granted, welcome), server() as (other, unwanted):
        lines = printed(["--connect", f"127.0.0.1:{granted}"], program, str(granted), str(other))
    assert lines == ["True"]
    assert len(unwanted) == 0 and len(welcome) > 0


def test_only_a_granted_port_is_listened_at():
    program = """
    def listen(address, bound=True):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound:
            one.bind(address)
        one.listen()
        return one
    granted = int(sys.argv[1])
    print(attempt(listen, ("127.0.0.1", granted + 1)), attempt(listen, ("127.0.0.1", 0)))
    print(attempt(listen, None, False), attempt(listen, ("0.0.0.0", granted)))
    one = listen(("127.0.0.1", granted))
    print("ready", flush=True)
    connection, _ = one.accept()
    print(connection.recv(9).decode())
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    text = HELPERS + textwrap.dedent(program)
    flags = ["--listen", f"127.0.0.1:{port}"]
    command = [str(BINARY), "run", "--sealed", *flags, "--", PYTHON, "-c", text, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "EACCES EACCES\n"
        assert program.stdout.readline() == "EACCES EACCES\n"
        assert program.stdout.readline() == "ready\n"
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"outside")
        assert program.stdout.read() == "outside\n"


def test_datagrams_go_to_granted_addresses_only():
    program = """
    granted, other = (("127.0.0.1", int(word)) for word in sys.argv[1:3])
    one = socket.socket(type=socket.SOCK_DGRAM)
    print(attempt(one.sendto, b"to", granted), attempt(one.sendto, b"no", other))
    print(attempt(one.sendmsg, [b"mes", b"sage"], [], 0, granted))
    print(attempt(one.sendmsg, [b"no"], [], 0, other))
    one.connect(granted)
    print(attempt(one.send, b"connected"), attempt(one.sendmsg, [b"connected too"]))
    print(attempt(one.connect, other), attempt(one.sendto, b"still", granted))
    """
    with socket.socket(type=socket.SOCK_DGRAM) as yes, socket.socket(type=socket.SOCK_DGRAM) as no:
        for one in (yes, no):
            one.bind(("127.0.0.1", 0))
            one.settimeout(60)
        ports = [str(one.getsockname()[1]) for one in (yes, no)]
        lines = printed(["--connect", f"127.0.0.1:{ports[0]}"], program, *ports)
        got = [yes.recv(99) for _ in range(5)]
        no.settimeout(0.1)
        with pytest.raises(TimeoutError):
            no.recv(99)
    assert lines == ["done EACCES", "done", "EACCES", "done done", "EACCES done"]
    assert got == [b"to", b"message", b"connected", b"connected too", b"still"]


def test_who_would_wait_for_the_end_of_a_copy_is_told_to_send_without_it():
    """As the kernel does, the flag is ignored where the socket's option is not set, and for nothing."""
    program = """
    SO_ZEROCOPY, MSG_ZEROCOPY = 60, 0x4000000
    granted = ("127.0.0.1", int(sys.argv[1]))
    one = socket.socket(type=socket.SOCK_DGRAM)
    print(attempt(one.sendto, b"to", MSG_ZEROCOPY, granted), attempt(one.sendmsg, [b"mes", b"sage"], [], MSG_ZEROCOPY, granted))
    one.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
    print(attempt(one.sendto, b"no", MSG_ZEROCOPY, granted), attempt(one.sendmsg, [b"no"], [], MSG_ZEROCOPY, granted))
    print(attempt(one.sendto, b"", MSG_ZEROCOPY, granted), attempt(one.sendto, b"then", granted))
    """
    with socket.socket(type=socket.SOCK_DGRAM) as there:
        there.bind(("127.0.0.1", 0))
        there.settimeout(60)
        port = str(there.getsockname()[1])
        lines = printed(["--connect", f"127.0.0.1:{port}"], program, port)
        assert lines == ["done done", "ENOBUFS ENOBUFS", "done done"]
        assert [there.recv(99) for _ in range(4)] == [b"to", b"message", b"", b"then"]


def test_unix_sockets_live_inside_writable_grants(tmp_path):
    program = """
    import os
    inside, outside, readable = sys.argv[1:4]
    def listen(path):
        one = socket.socket(socket.AF_UNIX)
        one.bind(path)
        one.listen()
        return one
    def connect(path):
        socket.socket(socket.AF_UNIX).connect(path)
    os.mkdir(inside + "/deep")
    one = listen(inside + "/deep/socket")
    print(one.getsockname() == inside + "/deep/socket", attempt(listen, inside + "/deep/socket"))
    os.chdir(inside)
    two = listen("short")
    print(two.getsockname(), attempt(connect, "short"), attempt(connect, inside + "/deep/socket"))
    print(attempt(listen, outside + "/new"), attempt(connect, outside + "/socket"))
    print(attempt(listen, readable + "/new"), attempt(connect, readable + "/socket"))
    os.symlink(outside, inside + "/link")
    print(attempt(listen, inside + "/link/new"), attempt(connect, inside + "/link/socket"))
    print(attempt(connect, "\\0abstract"), attempt(listen, "\\0abstract"))
    os.symlink(inside + "/short", inside + "/other")
    print(attempt(connect, "other"), oct(os.stat("short").st_mode & 0o777))
    """
    folders = [tmp_path / name for name in ("inside", "outside", "readable")]
    listeners = []
    for folder in folders:
        folder.mkdir()
    for folder in folders[1:]:
        listeners.append(socket.socket(socket.AF_UNIX))
        listeners[-1].bind(str(folder / "socket"))
        listeners[-1].listen()
    flags = ["--grant", f"{folders[0]}:rw", "--grant", f"{folders[2]}:ro"]
    lines = printed(flags, "import os; os.umask(0o022)\n" + textwrap.dedent(program), *map(str, folders))
    assert lines == [
        "True EADDRINUSE",
        "short done done",
        "ENOENT ENOENT",
        "EROFS EACCES",
        "ENOENT ENOENT",
        "ECONNREFUSED EACCES",
        "done 0o755",
    ]
    assert sorted(path.name for path in folders[1].iterdir()) == ["socket"]
    for listener in listeners:
        listener.close()


def test_a_socket_is_never_made_outside_however_folders_are_exchanged(tmp_path):
    program = """
    import os
    inside, outside = sys.argv[1:3]
    os.mkdir(inside + "/real")
    os.symlink(outside, inside + "/link")
    ends = False
    def exchange():
        import ctypes
        libc = ctypes.CDLL(None)
        one, other = (os.fsencode(inside + name) for name in ("/real", "/link"))
        while not ends:
            libc.renameat2(-100, one, -100, other, 2)
    threading.Thread(target=exchange, daemon=True).start()
    made = 0
    for place in range(200):
        one = socket.socket(socket.AF_UNIX)
        made += attempt(one.bind, f"{inside}/real/{place}") == "done"
        one.close()
    ends = True
    print(made > 0)
    """
    folders = [tmp_path / name for name in ("inside", "outside")]
    for folder in folders:
        folder.mkdir()
    assert printed(["--grant", f"{folders[0]}:rw"], program, *map(str, folders)) == ["True"]
    assert list(folders[1].iterdir()) == []


def test_descriptors_travel_among_sealed_processes(tmp_path):
    program = """
    import os
    one, other = socket.socketpair()
    if os.fork() == 0:
        with open(sys.argv[1]) as file, open(sys.argv[2]) as second:
            socket.send_fds(one, [b"two files"], [file.fileno(), second.fileno()])
        os._exit(0)
    text, numbers, _, _ = socket.recv_fds(other, 99, 9)
    print(text.decode(), [os.read(number, 9).decode() for number in numbers])
    os.wait()
    """
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    lines = printed(["--grant", str(tmp_path)], program, str(tmp_path / "a"), str(tmp_path / "b"))
    assert lines == ["two files ['a', 'b']"]


def test_messages_wait_break_and_count_as_the_kernels_do():
    program = """
    import signal
    one, other = socket.socketpair()
    whole = bytes(range(256)) * (3 << 12)
    got = bytearray()
    def read():
        while len(got) < len(whole):
            got.extend(other.recv(1 << 16))
    reader = threading.Thread(target=read)
    reader.start()
    sent = 0
    while sent < len(whole):
        sent += one.sendmsg([whole[sent:sent + 100000], whole[sent + 100000:]])
    reader.join()
    print(bytes(got) == whole)
    one.setblocking(False)
    def fill():
        while True:
            one.sendmsg([whole])
    print(attempt(fill))
    other.close()
    signal.signal(signal.SIGPIPE, lambda *_: print("SIGPIPE"))
    print(attempt(one.sendmsg, [b"x"]))
    print(attempt(one.sendmsg, [b"x"], [], socket.MSG_NOSIGNAL))
    packets = socket.socketpair(type=socket.SOCK_SEQPACKET)
    packets[0].sendmsg([b"a", b"b"])
    packets[0].sendmsg([b"c"])
    print(packets[1].recv(9), packets[1].recv(9))
    """
    # Where the supervisor has no copy, the stub's plain calls send the messages of programs with threads.
    lines = printed([], program, stub=not copies_descriptors())
    assert lines[0:2] == ["True", "EAGAIN"]
    assert sorted(lines[2:4]) == ["EPIPE", "SIGPIPE"]
    assert lines[4:] == ["EPIPE", "b'ab' b'c'"]


def test_other_kinds_of_sockets_do_not_exist_and_programs_go_on():
    program = """
    import subprocess
    def make(*kind):
        socket.socket(*kind).close()
    print(attempt(make, socket.AF_NETLINK, socket.SOCK_RAW), attempt(make, socket.AF_PACKET, socket.SOCK_RAW))
    print(attempt(make, socket.AF_INET, socket.SOCK_RAW), attempt(make, socket.AF_INET, socket.SOCK_STREAM, 132))
    print(attempt(make, socket.AF_VSOCK), attempt(make, socket.AF_INET, socket.SOCK_STREAM, 262))
    one = socket.socket()
    print(attempt(one.setsockopt, socket.IPPROTO_IP, socket.IP_OPTIONS, b"\\x83\\x07\\x04\\x0a\\0\\0\\1\\0"))
    print(attempt(one.setsockopt, socket.IPPROTO_IP, socket.IP_TOS, 16))
    print(attempt(one.setsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1))
    print(socket.getaddrinfo("localhost", 80, socket.AF_INET, socket.SOCK_STREAM)[0][4])
    """
    lines = printed([], program)
    # Containers refuse AF_VSOCK themselves, in their own words.
    lines[2] = lines[2].replace("EPERM ", "EAFNOSUPPORT ")
    assert lines == [
        "EAFNOSUPPORT EAFNOSUPPORT",
        "EPERM EPROTONOSUPPORT",
        "EAFNOSUPPORT EPROTONOSUPPORT",
        "EPERM",
        "done",
        "done",
        "('127.0.0.1', 80)",
    ]


def test_a_name_in_etc_hosts_grants_its_addresses():
    program = """
    with socket.create_connection(("localhost", int(sys.argv[1]))) as one:
        print(one.recv(9).decode())
    """
    with server() as (port, _):
        assert printed(["--connect", f"localhost:{port}"], program, str(port)) == ["hello"]


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("unshare"), reason="its name server takes namespaces")
@pytest.mark.parametrize("case", ["libc", "connected", "unconnected", "stream", "connect", "nothing"])
def test_names_are_looked_up_where_they_are_granted(case, tmp_path):
    """In a mount and network namespace with a name server of the test's own."""
    lookup_case = Path(__file__).parent / "network" / "lookup_case.py"
    command = ["unshare", "--mount", "--net", sys.executable, str(lookup_case), str(BINARY), case, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
