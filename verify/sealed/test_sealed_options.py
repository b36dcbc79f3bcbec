"""Socket options of sealed programs: what programs set passes, groups that are granted are joined."""

from __future__ import annotations

import pytest
from sealed_python import sealed

pytestmark = pytest.mark.heliostat
OPTIONS = """
import errno, socket, struct
def tried(kind, family, level, option, value):
    with socket.socket(family, kind) as one:
        try:
            one.setsockopt(level, option, value)
        except OSError as error:
            return errno.errorcode[error.errno]
        return "set"
four, six, stream, datagram = socket.AF_INET, socket.AF_INET6, socket.SOCK_STREAM, socket.SOCK_DGRAM
set_by_programs = [
    (stream, four, socket.SOL_SOCKET, option, 1)
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT, socket.SO_KEEPALIVE, socket.SO_SNDBUF, socket.SO_RCVBUF,
                   socket.SO_OOBINLINE, socket.SO_INCOMING_CPU, socket.SO_RCVLOWAT, 29, 47, 60)
] + [
    (stream, four, socket.IPPROTO_TCP, option, 1)
    for option in (socket.TCP_NODELAY, socket.TCP_CORK, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT,
                   socket.TCP_DEFER_ACCEPT, socket.TCP_QUICKACK, socket.TCP_USER_TIMEOUT, socket.TCP_LINGER2, 25, 30)
] + [
    (datagram, four, socket.IPPROTO_IP, option, 1)
    for option in (socket.IP_TOS, socket.IP_TTL, 8, 10, 11, 12, 13, 24, socket.IP_MULTICAST_TTL, socket.IP_MULTICAST_LOOP)
] + [
    (datagram, six, socket.IPPROTO_IPV6, option, 1)
    for option in (socket.IPV6_V6ONLY, socket.IPV6_UNICAST_HOPS, socket.IPV6_MULTICAST_HOPS, 23, 25, 49, 51, 62, 66, 67)
] + [(datagram, four, socket.IPPROTO_UDP, option, 1) for option in (1, 104)]
for words in set_by_programs:
    assert tried(*words) == "set", words
assert tried(stream, four, socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 5)) == "set"
assert tried(stream, four, socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 1, 0)) == "set"
group = lambda text: socket.inet_aton(text) + socket.inet_aton("127.0.0.1")
join = lambda text: tried(datagram, four, socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group(text))
print(join("239.1.2.3"), join("239.1.2.4"))
request = struct.pack("I4xHH4s120x", 1, four, 0, socket.inet_aton("239.1.2.3"))
print(tried(datagram, four, socket.IPPROTO_IP, 42, request))
with socket.socket(four, datagram) as one:
    one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group("239.1.2.3"))
    one.setsockopt(socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, group("239.1.2.3"))
print(tried(stream, four, socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo"), tried(stream, four, 282, 1, 1))
"""


@pytest.mark.parametrize("stub", [False, True], ids=["raw", "stub"])
def test_options_that_programs_set_pass_and_groups_are_joined_that_are_granted(tmp_path, stub):
    """By the program's own calls and by those that the stub has taken over in libc's text."""
    place = {"HELIOSTAT_SOCKET": str(tmp_path / "control.sock")}
    done = sealed(["--connect", "239.1.2.3:5000"], OPTIONS, environment=place, stub=stub)
    assert done.stdout.splitlines() == ["set EPERM", "set", "EPERM ENOPROTOOPT"], done
    assert "--connect 239.1.2.4" in sealed(["--verbose"], OPTIONS.replace("239.1.2.3", "239.1.2.4")).stderr
