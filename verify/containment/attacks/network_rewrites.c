/* Addresses and messages rewritten between the check and the use. */
#include "attack.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_in address, good, bad;
static struct msghdr message, plain_message, addressed_message;
static struct iovec piece = {"attack", 6};

static void prepare(long good_port, long bad_port) {
    good = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)good_port)};
    good.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bad = good;
    bad.sin_port = htons((uint16_t)bad_port);
    address = good;
}

static void flip_address(void) {
    for (;;) {
        address = bad;
        address = good;
    }
}

static long port_of_peer(long socket) {
    struct sockaddr_in peer = {0};
    socklen_t length = sizeof peer;
    long result = CALL(getpeername, socket, &peer, &length);
    return result < 0 ? result : ntohs(peer.sin_port);
}

static void rewrite_connect(void) {
    prepare(given("GRANTED_PORT"), given("DENIED_PORT"));
    beside(flip_address);
    while (racing()) {
        long stream = CALL(socket, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), datagram = CALL(socket, AF_INET, SOCK_DGRAM, 0);
        CALL(connect, stream, &address, sizeof address);
        must_fail(port_of_peer(stream) == given("DENIED_PORT") ? 0 : -EACCES, "the address changed during connect");
        CALL(connect, datagram, &address, sizeof address);
        must_fail(port_of_peer(datagram) == given("DENIED_PORT") ? 0 : -EACCES, "the address changed during UDP's connect");
        CALL(close, stream);
        CALL(close, datagram);
    }
    all_refused();
}

static void rewrite_bind(void) {
    prepare(given("LISTEN_PORT"), given("FREE_PORT"));
    beside(flip_address);
    while (racing()) {
        struct sockaddr_in name = {0};
        socklen_t length = sizeof name;
        int on = 1;
        long stream = CALL(socket, AF_INET, SOCK_STREAM, 0);
        CALL(setsockopt, stream, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        long bound = CALL(bind, stream, &address, sizeof address);
        CALL(getsockname, stream, &name, &length);
        must_fail(bound == 0 && ntohs(name.sin_port) == given("FREE_PORT") ? 0 : -EACCES, "the port changed during bind");
        CALL(close, stream);
    }
    all_refused();
}

/* The runner's UDP socket tells whether anything came; here only the calls are made. */
static void flip_message(void) {
    for (;;) {
        message = plain_message;
        message = addressed_message;
    }
}

static void rewrite_sendmsg(void) {
    prepare(given("GRANTED_PORT"), given("DENIED_PORT"));
    plain_message = (struct msghdr){.msg_iov = &piece, .msg_iovlen = 1};
    addressed_message = plain_message;
    addressed_message.msg_name = &bad;
    addressed_message.msg_namelen = sizeof bad;
    message = plain_message;
    beside(flip_message);
    beside(flip_address);
    struct mmsghdr batch[2] = {{.msg_hdr = plain_message}, {.msg_hdr = plain_message}};
    batch[1].msg_hdr.msg_name = &address;
    batch[1].msg_hdr.msg_namelen = sizeof address;
    long socket = CALL(socket, AF_INET, SOCK_DGRAM, 0);
    CALL(connect, socket, &good, sizeof good);
    while (racing()) {
        CALL(sendmsg, socket, &message, 0);
        CALL(sendto, socket, "attack", 6L, 0, &address, sizeof address);
        CALL(sendmmsg, socket, batch, 2L, 0);
    }
    /* refused or not, the datagrams arrive in time before the socket outside is looked at */
    must_fail(getenv("PROVE") ? 0 : -EACCES, "datagrams were sent");
    all_refused();
}

/* A unix datagram socket: the name of an outsider's letter box appears in the message late. */
static struct sockaddr_un box;

static void flip_box(void) {
    char near[sizeof box.sun_path], far[sizeof box.sun_path];
    snprintf(near, sizeof near, "%s", at("rw/box"));
    snprintf(far, sizeof far, "%s", at("outside/letterbox"));
    for (;;) {
        memcpy(box.sun_path, far, sizeof far);
        memcpy(box.sun_path, near, sizeof near);
    }
}

static void rewrite_unix_name(void) {
    box.sun_family = AF_UNIX;
    snprintf(box.sun_path, sizeof box.sun_path, "%s", at("rw/box"));
    message = (struct msghdr){.msg_name = &box, .msg_namelen = sizeof box, .msg_iov = &piece, .msg_iovlen = 1};
    long socket = CALL(socket, AF_UNIX, SOCK_DGRAM, 0);
    long local = CALL(socket, AF_UNIX, SOCK_DGRAM, 0);
    CALL(bind, local, &box, sizeof box);
    beside(flip_box);
    while (racing()) {
        CALL(sendmsg, socket, &message, MSG_DONTWAIT);
        CALL(sendto, socket, "attack", 6L, MSG_DONTWAIT, &box, sizeof box);
        CALL(connect, socket, &box, sizeof box);
    }
    must_fail(getenv("PROVE") ? 0 : -EACCES, "letters were sent");
    all_refused();
}

const struct attack network_rewrite_attacks[] = {
    ATTACK(rewrite_connect, ANYONE),
    ATTACK(rewrite_bind, ANYONE),
    ATTACK(rewrite_sendmsg, ANYONE),
    ATTACK(rewrite_unix_name, ANYONE),
    {0},
};
