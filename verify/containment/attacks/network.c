/* The network: every way to a port that was not granted, and every family that is no port.
 *
 * Granted are connects to 127.0.0.1:GRANTED_PORT and listening on LISTEN_PORT; somebody listens
 * on DENIED_PORT of 127.0.0.1 and ::1 and on GRANTED_PORT of 127.0.0.2, by TCP and UDP, and
 * reports whoever comes.
 */
#include "attack.h"
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static struct sockaddr_in to(uint32_t address, long port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(address)}};
}

static struct sockaddr_in denied(void) { return to(INADDR_LOOPBACK, given("DENIED_PORT")); }

static struct sockaddr_in6 mapped(long port) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &six.sin6_addr);
    return six;
}

static long stream(int family) { return CALL(socket, family, SOCK_STREAM, 0); }
static long datagram(int family) { return CALL(socket, family, SOCK_DGRAM, 0); }

static void tcp_connect(void) {
    struct sockaddr_in address = denied(), any = to(INADDR_ANY, given("DENIED_PORT")), other = to(0x7f000002, given("GRANTED_PORT"));
    must_fail(CALL(connect, stream(AF_INET), &address, sizeof address), "TCP to a port that was not granted");
    must_fail(CALL(connect, stream(AF_INET), &any, sizeof any), "the same port by 0.0.0.0");
    must_fail(CALL(connect, stream(AF_INET), &other, sizeof other), "the granted port of another address");
    must_fail(CALL(connect, stream(AF_INET), &address, 128L), "with a length that is too great");
    long late = stream(AF_INET);
    CALL(fcntl, late, F_SETFL, O_NONBLOCK);
    long result = CALL(connect, late, &address, sizeof address);
    must_fail(result == -EINPROGRESS ? 0 : result, "without waiting");
    all_refused();
}

/* "No address" from a socket that is bound to another own address is that address for the kernel,
 * where somebody listens at the granted number. */
static void unspecified_from_bound(void) {
    struct sockaddr_in own = to(0x7f000002, 0), any = to(INADDR_ANY, given("GRANTED_PORT")), peer = {0};
    struct sockaddr_in6 six = mapped(0), any_six = mapped(given("GRANTED_PORT"));
    inet_pton(AF_INET6, "::ffff:127.0.0.2", &six.sin6_addr);
    inet_pton(AF_INET6, "::ffff:0.0.0.0", &any_six.sin6_addr);
    for (long kind = SOCK_STREAM; kind <= SOCK_DGRAM; kind++) {
        long socket = CALL(socket, AF_INET, kind, 0), size = sizeof peer;
        need(CALL(bind, socket, &own, sizeof own), "bind");
        long result = CALL(connect, socket, &any, sizeof any);
        CALL(getpeername, socket, &peer, &size);
        bool is_granted = ntohl(peer.sin_addr.s_addr) == INADDR_LOOPBACK;
        must_fail(result == 0 && is_granted ? -EACCES : result, "0.0.0.0 from 127.0.0.2");
        struct sockaddr_in6 peer_six = {0};
        long second = CALL(socket, AF_INET6, kind, 0), size_six = sizeof peer_six;
        need(CALL(bind, second, &six, sizeof six), "bind, mapped");
        result = CALL(connect, second, &any_six, sizeof any_six);
        CALL(getpeername, second, &peer_six, &size_six);
        is_granted = peer_six.sin6_addr.s6_addr[15] == 1;
        must_fail(result == 0 && is_granted ? -EACCES : result, "0.0.0.0 from 127.0.0.2, mapped");
    }
    long letters = datagram(AF_INET);
    need(CALL(bind, letters, &own, sizeof own), "bind");
    CALL(sendto, letters, "attack", 6L, 0, &any, sizeof any);
    all_refused();
}

static void tcp_connect_six(void) {
    struct sockaddr_in6 address = mapped(given("DENIED_PORT")), six = {.sin6_family = AF_INET6, .sin6_port = address.sin6_port, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    must_fail(CALL(connect, stream(AF_INET6), &address, sizeof address), "by the mapped address");
    must_fail(CALL(connect, stream(AF_INET6), &six, sizeof six), "by ::1");
    inet_pton(AF_INET6, "::127.0.0.1", &six.sin6_addr);
    must_fail(CALL(connect, stream(AF_INET6), &six, sizeof six), "by the compatible address");
    struct sockaddr_in four = denied();
    must_fail(CALL(connect, stream(AF_INET6), &four, sizeof four), "an IPv4 address on an IPv6 socket");
    all_refused();
}

/* A socket that is connected where it may be is disconnected and connected anew. */
static void tcp_reconnect(void) {
    struct sockaddr_in granted = to(INADDR_LOOPBACK, given("GRANTED_PORT")), address = denied();
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    long socket = stream(AF_INET);
    CALL(connect, socket, &granted, sizeof granted);
    CALL(connect, socket, &none, sizeof none);
    must_fail(CALL(connect, socket, &address, sizeof address), "after AF_UNSPEC");
    struct sockaddr_in disguised = address;
    disguised.sin_family = AF_UNSPEC;
    long result = CALL(connect, datagram(AF_INET), &disguised, sizeof disguised);
    must_fail(result == 0 ? -EAFNOSUPPORT : result, "disguised as AF_UNSPEC");
    all_refused();
}

static void tcp_fast_open(void) {
    struct sockaddr_in address = denied();
    int on = 1;
    long result = CALL(sendto, stream(AF_INET), "x", 1L, 0x20000000L /* MSG_FASTOPEN */, &address, sizeof address);
    must_fail(result == -EINPROGRESS ? 0 : result, "sendto with MSG_FASTOPEN");
    struct iovec one = {"x", 1};
    struct msghdr message = {.msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &one, .msg_iovlen = 1};
    result = CALL(sendmsg, stream(AF_INET), &message, 0x20000000L);
    must_fail(result == -EINPROGRESS ? 0 : result, "sendmsg with MSG_FASTOPEN");
    long socket = stream(AF_INET);
    CALL(setsockopt, socket, IPPROTO_TCP, 30L /* TCP_FASTOPEN_CONNECT */, &on, sizeof on);
    must_fail(CALL(connect, socket, &address, sizeof address), "connect with TCP_FASTOPEN_CONNECT");
    all_refused();
}

static void udp_send(void) {
    struct sockaddr_in address = denied();
    struct iovec one = {"attack", 6};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &one, .msg_iovlen = 1}}};
    messages[1] = messages[0];
    long socket = datagram(AF_INET);
    must_fail(CALL(sendto, socket, "attack", 6L, 0, &address, sizeof address), "sendto");
    must_fail(CALL(sendmsg, socket, &messages[0].msg_hdr, 0), "sendmsg");
    must_fail(CALL(sendmmsg, socket, messages, 2L, 0), "sendmmsg");
    must_fail(CALL(connect, socket, &address, sizeof address), "connect");
    struct sockaddr_in6 six = mapped(given("DENIED_PORT"));
    must_fail(CALL(sendto, datagram(AF_INET6), "attack", 6L, 0, &six, sizeof six), "sendto the mapped address");
    struct sockaddr_in unspecified = address;
    unspecified.sin_family = AF_UNSPEC;
    must_fail(CALL(sendto, socket, "attack", 6L, 0, &unspecified, sizeof unspecified), "sendto with AF_UNSPEC, which means IPv4");
    all_refused();
}

/* A message for nobody first, then the address: the second of a batch is judged too. */
static void udp_send_batch(void) {
    struct sockaddr_in address = denied(), granted = to(INADDR_LOOPBACK, given("GRANTED_PORT"));
    struct iovec one = {"attack", 6};
    struct mmsghdr messages[3] = {{.msg_hdr = {.msg_name = &granted, .msg_namelen = sizeof granted, .msg_iov = &one, .msg_iovlen = 1}}};
    messages[1] = messages[2] = messages[0];
    messages[2].msg_hdr.msg_name = &address;
    long count = CALL(sendmmsg, datagram(AF_INET), messages, 3L, 0);
    must_fail(count == 3 ? 0 : -EACCES, "the third of a batch");
    all_refused();
}

static void listening(void) {
    struct sockaddr_in address = denied(), any = to(INADDR_ANY, given("FREE_PORT"));
    int on = 1;
    long without = stream(AF_INET);
    must_fail(CALL(listen, without, 5L), "listening without an address");
    long shared = stream(AF_INET);
    CALL(setsockopt, shared, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    must_fail(CALL(bind, shared, &address, sizeof address), "an outsider's port, shared");
    must_fail(CALL(bind, stream(AF_INET), &any, sizeof any), "a port that was not granted");
    must_fail(CALL(bind, datagram(AF_INET), &any, sizeof any), "a UDP port that was not granted");
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = any.sin_port};
    must_fail(CALL(bind, stream(AF_INET6), &six, sizeof six), "a port of IPv6 that was not granted");
    struct sockaddr_in unspecified = any;
    unspecified.sin_family = AF_UNSPEC;
    must_fail(CALL(bind, stream(AF_INET), &unspecified, sizeof unspecified), "with AF_UNSPEC, which means any address");
    all_refused();
}

static void other_families(void) {
    static const struct { int family, type, protocol; const char *name; } kinds[] = {
        {AF_INET, SOCK_RAW, IPPROTO_ICMP, "raw IP"},        {AF_INET6, SOCK_RAW, IPPROTO_RAW, "raw IPv6"},
        {AF_PACKET, SOCK_RAW, 0, "packets"},                {AF_PACKET, SOCK_DGRAM, 0, "packets"},
        {AF_INET, SOCK_DGRAM, IPPROTO_ICMP, "ping"},        {AF_INET, SOCK_STREAM, 262, "MPTCP"},
        {AF_INET, SOCK_STREAM, 132, "SCTP"},                {AF_INET, SOCK_DCCP, 33, "DCCP"},
        {AF_INET, SOCK_DGRAM, 136, "UDP lite"},             {AF_VSOCK, SOCK_STREAM, 0, "vsock"},
        {AF_ALG, SOCK_SEQPACKET, 0, "alg"},                 {AF_BLUETOOTH, SOCK_RAW, 1, "bluetooth"},
        {AF_NETLINK, SOCK_RAW, NETLINK_AUDIT, "audit"},     {AF_NETLINK, SOCK_RAW, 15, "uevents"},
        {AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG, "diag"},  {AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER, "netfilter"},
        {AF_NETLINK, SOCK_RAW, NETLINK_XFRM, "xfrm"},       {AF_NETLINK, SOCK_RAW, NETLINK_GENERIC, "generic"},
        {43 /* SMC */, SOCK_STREAM, 0, "SMC"},              {AF_XDP, SOCK_RAW, 0, "XDP"},
        {AF_KEY, SOCK_RAW, 2, "key"},                       {AF_TIPC, SOCK_STREAM, 0, "TIPC"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        must_fail(CALL(socket, kinds[i].family, kinds[i].type, kinds[i].protocol), kinds[i].name);
        int pair[2];
        must_fail(CALL(socketpair, kinds[i].family, kinds[i].type, kinds[i].protocol, pair), kinds[i].name);
    }
    all_refused();
}

static void network_settings(void) {
    char request[64] = "none";
    int on = 1;
    long socket = stream(AF_INET);
    must_be_denied(CALL(ioctl, socket, 0x8914L /* SIOCSIFFLAGS */, request), "an interface's flags");
    must_be_denied(CALL(ioctl, socket, 0x8916L /* SIOCSIFADDR */, request), "an interface's address");
    must_be_denied(CALL(setsockopt, socket, SOL_SOCKET, SO_MARK, &on, sizeof on), "SO_MARK");
    must_be_denied(CALL(setsockopt, socket, IPPROTO_IP, 19L /* IP_TRANSPARENT */, &on, sizeof on), "IP_TRANSPARENT");
    must_be_denied(CALL(setsockopt, socket, IPPROTO_IP, 64L /* IPT_SO_SET_REPLACE */, request, sizeof request), "iptables");
    must_be_denied(CALL(setsockopt, socket, IPPROTO_TCP, 19L /* TCP_REPAIR */, &on, sizeof on), "TCP_REPAIR");
    all_refused();
}

/* Options that send packets by themselves, with bytes of the program's choosing, that lead packets
 * elsewhere, or that put a program into the kernel. */
static void options_that_send(void) {
    struct ip_mreqn four = {.imr_multiaddr.s_addr = htonl(0xefabcdef), .imr_address.s_addr = htonl(INADDR_LOOPBACK)};
    struct ipv6_mreq six = {.ipv6mr_interface = 1};
    inet_pton(AF_INET6, "ff15::dead:beef", &six.ipv6mr_multiaddr);
    struct ip_mreq_source chosen = {four.imr_multiaddr, four.imr_address, {htonl(0xc0000201)}};
    struct group_req any = {.gr_interface = 1};
    memcpy(&any.gr_group, &(struct sockaddr_in){.sin_family = AF_INET, .sin_addr = four.imr_multiaddr}, sizeof(struct sockaddr_in));
    for (int kind = SOCK_STREAM; kind <= SOCK_DGRAM; kind++) {
        long of_four = CALL(socket, AF_INET, kind, 0), of_six = CALL(socket, AF_INET6, kind, 0);
        must_fail(CALL(setsockopt, of_four, IPPROTO_IP, 35L, &four, sizeof four), "IP_ADD_MEMBERSHIP");
        must_fail(CALL(setsockopt, of_four, IPPROTO_IP, 35L | 1L << 32, &four, 8L), "IP_ADD_MEMBERSHIP with high bits");
        must_fail(CALL(setsockopt, of_six, IPPROTO_IP, 35L, &four, sizeof four), "IP_ADD_MEMBERSHIP on IPv6");
        must_fail(CALL(setsockopt, of_four, IPPROTO_IP, 39L, &chosen, sizeof chosen), "IP_ADD_SOURCE_MEMBERSHIP");
        must_fail(CALL(setsockopt, of_four, IPPROTO_IP, 42L, &any, sizeof any), "MCAST_JOIN_GROUP");
        must_fail(CALL(setsockopt, of_six, IPPROTO_IPV6, 20L, &six, sizeof six), "IPV6_JOIN_GROUP");
        must_fail(CALL(setsockopt, of_six, IPPROTO_IPV6, 42L, &any, sizeof any), "MCAST_JOIN_GROUP on IPv6");
        must_fail(CALL(setsockopt, of_six, IPPROTO_IPV6, 27L, &six, sizeof six), "IPV6_JOIN_ANYCAST");
        for (long option = 39; option <= 48; option++)
            must_fail(option == 45 ? -EPERM : CALL(setsockopt, of_four, IPPROTO_IP, option, &any, sizeof any), "MCAST_*");
    }
    long datagrams = datagram(AF_INET);
    struct { unsigned short code; unsigned char yes, no; unsigned value; } accept = {6, 0, 0, 0xffffffff};
    struct { unsigned short length; void *code; } filter = {1, &accept};
    must_fail(CALL(setsockopt, datagrams, SOL_SOCKET, 25L, "lo", 3L), "SO_BINDTODEVICE");
    must_fail(CALL(setsockopt, datagrams, SOL_SOCKET, 26L, &filter, sizeof filter), "SO_ATTACH_FILTER");
    must_fail(CALL(setsockopt, datagrams, SOL_SOCKET, 51L, &filter, sizeof filter), "SO_ATTACH_REUSEPORT_CBPF");
    must_fail(CALL(setsockopt, datagrams, IPPROTO_IP, 50L, &any.gr_interface, 4L), "IP_UNICAST_IF");
    must_fail(CALL(setsockopt, datagrams, IPPROTO_UDP, 100L, &(int){2}, 4L), "UDP_ENCAP");
    must_fail(CALL(setsockopt, stream(AF_INET), IPPROTO_TCP, 31L, "tls", 3L), "TCP_ULP");
    all_refused();
}

const struct attack network_attacks[] = {
    ATTACK(tcp_connect, ANYONE),
    ATTACK(unspecified_from_bound, ANYONE),
    ATTACK(tcp_connect_six, ANYONE),
    ATTACK(tcp_reconnect, ANYONE),
    ATTACK(tcp_fast_open, ANYONE),
    ATTACK(udp_send, ANYONE),
    ATTACK(udp_send_batch, ANYONE),
    ATTACK(listening, ANYONE),
    ATTACK(other_families, ANYONE),
    ATTACK(network_settings, ROOT),
    ATTACK(options_that_send, ANYONE),
    {0},
};
