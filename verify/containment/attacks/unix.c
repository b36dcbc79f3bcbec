/* Unix sockets: doors outside by path and by abstract name, descriptors given and taken.
 *
 * CVE-2020-15257 (containerd-shim) was an abstract socket that every container of the host's
 * network could reach, and answered whoever asked.
 */
#include "attack.h"
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un name_of(const char *path) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    return name;
}

static long knock(const char *path) {
    struct sockaddr_un name = name_of(path);
    return CALL(connect, CALL(socket, AF_UNIX, SOCK_STREAM, 0), &name, sizeof name);
}

static void unix_path(void) {
    must_fail(knock(at("outside/door")), "connect by path");
    must_fail(knock(at("rw/../outside/door")), "connect with dots");
    need(CALL(symlink, at("outside/door"), at("rw/door")), "symlink");
    must_fail(knock(at("rw/door")), "connect by a link");
    need(CALL(chdir, at("rw")), "chdir");
    must_fail(knock("../outside/door"), "connect relative");
    must_fail(knock("door"), "connect by a link, relative");
    struct sockaddr_un exact = name_of(at("outside/door"));
    long length = (long)(offsetof(struct sockaddr_un, sun_path) + strlen(exact.sun_path));
    must_fail(CALL(connect, CALL(socket, AF_UNIX, SOCK_STREAM, 0), &exact, length), "connect without a NUL");
    all_refused();
}

static void unix_datagram(void) {
    struct sockaddr_un name = name_of(at("outside/letterbox"));
    struct iovec one = {"attack", 6};
    struct mmsghdr message = {.msg_hdr = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &one, .msg_iovlen = 1}};
    long socket = CALL(socket, AF_UNIX, SOCK_DGRAM, 0);
    must_fail(CALL(sendto, socket, "attack", 6L, 0, &name, sizeof name), "sendto");
    must_fail(CALL(sendmsg, socket, &message.msg_hdr, 0), "sendmsg");
    must_fail(CALL(sendmmsg, socket, &message, 1L, 0), "sendmmsg");
    must_fail(CALL(connect, socket, &name, sizeof name), "connect");
    int pair[2];
    need(CALL(socketpair, AF_UNIX, SOCK_DGRAM, 0, pair), "socketpair");
    must_fail(CALL(sendto, pair[0], "attack", 6L, 0, &name, sizeof name), "sendto from a pair");
    must_fail(CALL(sendmsg, pair[0], &message.msg_hdr, 0), "sendmsg from a pair");
    all_refused();
}

static struct sockaddr_un abstract(const char *variable, socklen_t *length) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int count = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "%s", getenv(variable));
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)count);
    return name;
}

static void unix_abstract(void) {
    socklen_t length;
    struct sockaddr_un name = abstract("ABSTRACT", &length), box = abstract("ABSTRACT_BOX", &length);
    name = abstract("ABSTRACT", &length);
    must_fail(CALL(connect, CALL(socket, AF_UNIX, SOCK_STREAM, 0), &name, length), "connect");
    box = abstract("ABSTRACT_BOX", &length);
    long socket = CALL(socket, AF_UNIX, SOCK_DGRAM, 0);
    must_fail(CALL(sendto, socket, "attack", 6L, 0, &box, length), "sendto");
    must_fail(CALL(connect, socket, &box, length), "connect of a datagram socket");
    int pair[2];
    need(CALL(socketpair, AF_UNIX, SOCK_DGRAM, 0, pair), "socketpair");
    must_fail(CALL(sendto, pair[0], "attack", 6L, 0, &box, length), "sendto from a pair");
    all_refused();
}

/* A name that anybody outside can find: a way for descriptors in and out. */
static void unix_abstract_bound(void) {
    socklen_t length;
    struct sockaddr_un name = abstract("ABSTRACT_FREE", &length);
    long socket = CALL(socket, AF_UNIX, SOCK_STREAM, 0);
    long bound = CALL(bind, socket, &name, length);
    CALL(listen, socket, 5L);
    must_fail(bound, "an abstract name of its own");
    sa_family_t family = AF_UNIX;
    must_fail(CALL(bind, CALL(socket, AF_UNIX, SOCK_DGRAM, 0), &family, sizeof family), "an abstract name chosen by the kernel");
    all_refused();
}

static void unix_bound_outside(void) {
    struct sockaddr_un name = name_of(at("outside/mine")), ro = name_of(at("ro/mine")), up = name_of("../outside/mine");
    must_fail(CALL(bind, CALL(socket, AF_UNIX, SOCK_STREAM, 0), &name, sizeof name), "bound outside");
    must_fail(CALL(bind, CALL(socket, AF_UNIX, SOCK_STREAM, 0), &ro, sizeof ro), "bound in a read-only grant");
    need(CALL(chdir, at("rw")), "chdir");
    must_fail(CALL(bind, CALL(socket, AF_UNIX, SOCK_STREAM, 0), &up, sizeof up), "bound outside, relative");
    need(CALL(symlink, at("outside/mine"), at("rw/mine")), "symlink");
    struct sockaddr_un link = name_of(at("rw/mine"));
    must_fail(CALL(bind, CALL(socket, AF_UNIX, SOCK_DGRAM, 0), &link, sizeof link) == 0 && CALL(access, at("outside/mine"), F_OK) == 0 ? 0 : -EADDRINUSE,
              "bound outside by a link");
    all_refused();
}

/* /proc/self is somebody else's for whoever acts on the caller's behalf: a number there must lead
 * to the caller's folder, and to no folder that the supervisor has open. Where a name was made in
 * a guarded part of the grant, the runner sees it. */
static void unix_bound_by_number(void) {
    long folder = need(CALL(openat, AT_FDCWD, at("data"), O_RDONLY | O_DIRECTORY), "the grant");
    long guarded = need(CALL(openat, AT_FDCWD, at("data/sub/keys"), O_RDONLY | O_DIRECTORY), "a guarded part");
    for (long number = 10; number < 200; number++) {
        char path[64];
        if (number == folder || number == guarded)
            continue;
        CALL(dup2, folder, number);
        snprintf(path, sizeof path, "/proc/self/fd/%ld/made-%ld", number, number);
        struct sockaddr_un name = name_of(path);
        CALL(bind, CALL(socket, AF_UNIX, SOCK_STREAM, 0), &name, sizeof name);
        CALL(dup2, guarded, number);
        must_fail(CALL(bind, CALL(socket, AF_UNIX, SOCK_STREAM, 0), &name, sizeof name), "bound in a guarded part");
        CALL(close, number);
    }
    all_refused();
}

/* Credentials that name somebody else, where a server trusts them. */
static void forged_credentials(void) {
    int pair[2], on = 1;
    need(CALL(socketpair, AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
    CALL(setsockopt, pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    struct { int process; unsigned user, group; } who = {(int)given("VICTIM"), getuid(), getgid()};
    char byte = 'x', room[CMSG_SPACE(sizeof who)] __attribute__((aligned(8))) = {0};
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof who), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS};
    memcpy(CMSG_DATA(head), &who, sizeof who);
    must_fail(CALL(sendmsg, pair[0], &message, 0), "a message in the victim's name");
    all_refused();
}

/* SO_PEERPIDFD turns a socket into a hold on the process at its other end. */
static void peer_by_descriptor(void) {
    int process = -1;
    for (long number = 0; number < 64; number++) {
        socklen_t length = sizeof process;
        if (CALL(getsockopt, number, SOL_SOCKET, 77L /* SO_PEERPIDFD */, &process, &length) == 0)
            must_fail(CALL(pidfd_send_signal, process, SIGUSR1, 0L, 0), "the process at a socket's other end");
    }
    socklen_t length;
    struct sockaddr_un name = abstract("ABSTRACT", &length);
    long socket = CALL(socket, AF_UNIX, SOCK_STREAM, 0);
    long connected = CALL(connect, socket, &name, length);
    must_fail(connected, "an outsider's socket");
    length = sizeof process;
    long got = CALL(getsockopt, socket, SOL_SOCKET, 77L, &process, &length);
    must_fail(got < 0 ? got : CALL(pidfd_send_signal, process, 0, 0L, 0), "its process");
    all_refused();
}

const struct attack unix_attacks[] = {
    ATTACK(unix_path, ANYONE),
    ATTACK(unix_datagram, ANYONE),
    ATTACK(unix_abstract, ANYONE),
    ATTACK(unix_abstract_bound, ANYONE),
    ATTACK(unix_bound_outside, ANYONE),
    ATTACK(unix_bound_by_number, ANYONE),
    ATTACK(forged_credentials, ROOT),
    ATTACK(peer_by_descriptor, ANYONE),
    {0},
};
