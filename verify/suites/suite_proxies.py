"""HAProxy, squid, lighttpd and stunnel before nginx, as they run as services: with users dropped."""

from __future__ import annotations

import shutil
import signal
import subprocess

import pytest
from case_run import CaseRun
from web import ALL_USERS, fetch, load, start_nginx, system_tool, write_files

HAPROXY = """
global
    user haproxy
    group haproxy
    chroot {empty}
    nbthread 2
defaults
    mode http
    timeout connect 10s
    timeout client 30s
    timeout server 30s
frontend web
    bind 127.0.0.1:{front}
    default_backend servers
frontend raw
    mode tcp
    bind 127.0.0.1:{raw}
    default_backend streams
backend servers
    server one 127.0.0.1:{back} check inter 500ms
backend streams
    mode tcp
    server one 127.0.0.1:{back}
"""

SQUID = """
http_port 127.0.0.1:{port}
cache deny all
http_access allow all
cache_effective_user proxy
pid_filename {folder}/squid.pid
cache_log {folder}/squid.log
access_log none
cache_store_log none
logfile_rotate 0
coredump_dir {folder}
netdb_filename none
pinger_enable off
shutdown_lifetime 0 seconds
via off
forwarded_for delete
"""
LIGHTTPD = """
server.modules = ("mod_proxy")
server.document-root = "{files}"
server.bind = "127.0.0.1"
server.port = {port}
server.username = "www-data"
server.groupname = "www-data"
$HTTP["url"] =~ "^/passed/" {{
    proxy.server = ("" => (("host" => "127.0.0.1", "port" => {back})))
    proxy.header = ("map-urlpath" => ("/passed/" => "/"))
}}
"""
STUNNEL = """
foreground = yes
pid =
debug = err
setuid = nobody
setgid = nogroup
[server]
accept = 127.0.0.1:{tls}
connect = 127.0.0.1:{back}
cert = {folder}/pair.pem
[client]
client = yes
accept = 127.0.0.1:{plain}
connect = 127.0.0.1:{tls}
"""


@pytest.mark.root
def test_haproxy_balances_requests_and_streams(compare):
    compare("proxies.haproxy", haproxy, configuration=ALL_USERS)


@pytest.mark.root
def test_squid_fetches_for_its_clients(compare):
    compare("proxies.squid", squid, configuration=ALL_USERS)


@pytest.mark.root
def test_lighttpd_serves_files_and_passes_requests_on(compare):
    compare("proxies.lighttpd", lighttpd, configuration=ALL_USERS)


@pytest.mark.root
def test_stunnel_encrypts_and_decrypts(compare):
    compare("proxies.stunnel", stunnel, configuration=ALL_USERS)


def haproxy(case: CaseRun) -> str:
    back = start_files(case)
    front, raw, empty = case.port(), case.port(), case.folder / "empty"
    empty.mkdir()
    configuration = case.folder / "haproxy.cfg"
    configuration.write_text(HAPROXY.format(front=front, raw=raw, back=back, empty=empty))
    case.serve(front, [system_tool("haproxy"), "-db", "-q", "-f", configuration])
    answers = []
    for port in (front, raw):
        address = f"http://127.0.0.1:{port}"
        answers += [fetch(case, f"{address}/{name}") for name in ("small.txt", "large.bin", "missing")]
        answers.append(load(case, f"{address}/small.txt", {"client": port, "upstream": back}))
    return "\n".join(answers)


def start_files(case: CaseRun) -> int:
    """nginx over the files, with workers of another user; its port."""
    files, port = write_files(case), case.port()
    start_nginx(case, port, f"server {{ listen 127.0.0.1:{port}; root {files}; }}", "back", "www-data")
    return port


def squid(case: CaseRun) -> str:
    back, port = start_files(case), case.port()
    configuration = case.folder / "squid.conf"
    configuration.write_text(SQUID.format(port=port, folder=case.folder))
    case.folder.chmod(0o777)  # squid writes its log as its own user
    case.serve(port, [system_tool("squid"), "-N", "-f", configuration])
    through, address = ["-x", f"http://127.0.0.1:{port}"], f"http://127.0.0.1:{back}"
    answers = [fetch(case, f"{address}/{name}", *through) for name in ("small.txt", "large.bin", "missing")]
    answers.append(fetch(case, f"{address}/large.bin", *through, "--proxytunnel"))
    # wrk knows of no proxies; a slow fetch stays long enough to be looked at.
    slow = case.start(["curl", "-sS", *through, "--limit-rate", "3M", "-o", "/dev/null", f"{address}/large.bin"])
    case.look("client", port)
    case.look("upstream", back)
    answers.append(case.finish(slow))
    return "\n".join(answers)


def lighttpd(case: CaseRun) -> str:
    back, port = start_files(case), case.port()
    configuration = case.folder / "lighttpd.conf"
    configuration.write_text(LIGHTTPD.format(files=case.folder / "files", port=port, back=back))
    # After SIGTERM it ends with 0 or 1, on plain Linux too; after SIGINT it finishes its requests.
    case.serve(port, [system_tool("lighttpd"), "-D", "-f", configuration], ending=signal.SIGINT)
    address = f"http://127.0.0.1:{port}"
    names = ("small.txt", "large.bin", "missing", "passed/small.txt", "passed/large.bin")
    answers = [fetch(case, f"{address}/{name}") for name in names]
    answers.append(load(case, f"{address}/small.txt", {"client": port}))
    answers.append(load(case, f"{address}/passed/large.bin", {"upstream": back}, connections=4))
    return "\n".join(answers)


def stunnel(case: CaseRun) -> str:
    back, tls, plain = start_files(case), case.port(), case.port()
    make_certificate(case)
    configuration = case.folder / "stunnel.conf"
    configuration.write_text(STUNNEL.format(folder=case.folder, tls=tls, plain=plain, back=back))
    case.serve(plain, [stunnel_tool(), configuration])
    answers = [fetch(case, f"http://127.0.0.1:{plain}/{name}") for name in ("small.txt", "large.bin", "missing")]
    answers.append(fetch(case, f"https://127.0.0.1:{tls}/large.bin", "-k"))
    kinds = {"client": plain, "encrypted": tls, "upstream": back}
    answers.append(load(case, f"http://127.0.0.1:{plain}/small.txt", kinds, connections=4))
    answers.append(load(case, f"https://127.0.0.1:{tls}/small.txt", {"encrypted": tls}, connections=4))
    return "\n".join(answers)


def make_certificate(case: CaseRun) -> None:
    """A key and a certificate of its own in one file."""
    pair = case.folder / "pair.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made = subprocess.run([*words, "-keyout", str(pair)], check=True, capture_output=True, text=True, timeout=60)
    with open(pair, "a") as file:
        file.write(made.stdout)


def stunnel_tool() -> str:
    """Debian names the program by its generation."""
    return "stunnel4" if shutil.which("stunnel4") else "stunnel"
