/* The control plane from within the seal: same user, same socket, other rights.
 *
 * The control plane trusts what the kernel says of a connection, and the kernel says "the same
 * user" of a sealed program. Records are docs/control-protocol.md's, byte by byte.
 */
#include "control.h"
#include <sys/socket.h>
#include <sys/un.h>

enum { HELLO = 1, OPEN = 4, STATUS = 6, EXPLAIN = 7, REVOKE = 9, STOP = 10, PUBLISH = 11, ATTACH = 12, DELEGATE = 18, REFUSED = 106, NOT_LEASED = 111 };
enum { ALLOW_REGIONS = 256, RESTRICT = 22, SHRINK = 2, GROW = 4, FUTURE_WRITE = 16 };
/* A region of 5000 bytes: its table with two places, and its pool of two colours. */
enum { REGION_BYTES = 5000, TABLE_BYTES = 8192, POOL_BYTES = 2 * (2 << 20), PINS_BYTES = 4096 };

long control(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const char *path = getenv("CONTROL_SOCKET");
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path ? path : "");
    long socket = CALL(socket, AF_UNIX, SOCK_SEQPACKET, 0);
    long result = CALL(connect, socket, &name, sizeof name);
    return result < 0 ? result : socket;
}

long ask_with(long socket, unsigned kind, const void *body, size_t length, const int *fds, size_t count, int *fd) {
    unsigned char request[REQUEST] = {'H', 'E', 'L', 'I', 1, 0, (unsigned char)kind, (unsigned char)(kind >> 8)}, reply[REPLY];
    union { struct cmsghdr head; char room[CMSG_SPACE(16 * sizeof(int))]; } with = {0};
    struct iovec part = {request, REQUEST};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    memcpy(request + 16, body, length);
    if (count > 0) {
        with.head = (struct cmsghdr){CMSG_LEN(count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&with.head), fds, count * sizeof(int));
        message.msg_control = &with;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    }
    long result = CALL(sendmsg, socket, &message, 0L);
    if (result < 0)
        return result;
    struct timeval { long seconds, micro; } wait = {5, 0};
    CALL(setsockopt, socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    part = (struct iovec){reply, REPLY};
    message = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1, .msg_control = &with, .msg_controllen = sizeof with};
    result = CALL(recvmsg, socket, &message, 0L);
    if (result < 0)
        return result;
    if (fd)
        *fd = message.msg_controllen ? *(int *)CMSG_DATA(&with.head) : -1;
    unsigned answer = result >= 16 ? reply[6] : REFUSED;
    return answer == REFUSED || answer == NOT_LEASED ? -EACCES : (long)answer;
}

static long ask(long socket, unsigned kind, const void *body, size_t length) {
    return socket < 0 ? socket : ask_with(socket, kind, body, length, NULL, 0, NULL);
}

long greet(long socket) {
    unsigned char body[8] = {4, 0, 0, 0, 'a', 't', 't', 'a'};
    return ask(socket, HELLO, body, sizeof body);
}

int sealed_memory(const char *name, size_t bytes, const void *head, size_t head_bytes, int seals) {
    int memory = (int)need(CALL(memfd_create, name, 2L), "memory");
    need(CALL(ftruncate, memory, bytes), "its length");
    need(CALL(pwrite64, memory, head, head_bytes, 0L), "its head");
    need(CALL(fcntl, memory, F_ADD_SEALS, seals), "its seals");
    return memory;
}

/* A region's name as records have it, behind `before` bytes that are there already. */
static size_t named(unsigned char *body, size_t before, const char *name) {
    uint32_t length = (uint32_t)strlen(name);
    memcpy(body + before, &length, 4);
    memcpy(body + before + 4, name, length);
    return before + 4 + 64;
}

static long publish(long socket, const char *name) {
    struct { char mark[4]; uint32_t version; uint64_t generation, length; uint32_t first, chunks, colours; } head = {
        {'H', 'S', 'N', 'T'}, 1, 1, REGION_BYTES, 0, 1, 2};
    int seals = SHRINK | GROW | FUTURE_WRITE;
    int memory[2] = {sealed_memory("table", TABLE_BYTES, &head, sizeof head, seals), sealed_memory("pool", POOL_BYTES, "", 1, seals)};
    unsigned char body[96] = {0};
    size_t length = named(body, 0, name);
    long result = socket < 0 ? socket : ask_with(socket, PUBLISH, body, length, memory, 2, NULL);
    CALL(close, memory[0]);
    CALL(close, memory[1]);
    return result;
}

static long attach(long socket, const char *name, uint32_t owner) {
    int pins = sealed_memory("pins", PINS_BYTES, "HSNP\1", 5, SHRINK);
    unsigned char body[96] = {0};
    memcpy(body, &owner, 4);
    size_t length = named(body, 4, name);
    long result = socket < 0 ? socket : ask_with(socket, ATTACH, body, length, &pins, 1, NULL);
    CALL(close, pins);
    return result;
}

static void control_commands(void) {
    uint32_t victim = (uint32_t)given("VICTIM");
    long socket = control();
    must_fail(ask(socket, STATUS, "", 0), "the state of everybody's sessions");
    must_fail(ask(socket, EXPLAIN, &victim, sizeof victim), "another process explained");
    must_fail(ask(socket, REVOKE, &victim, sizeof victim), "another process's grants revoked");
    must_fail(ask(socket, STOP, "", 0), "the control plane stopped");
    all_refused();
}

static void control_channels(void) {
    unsigned char address[20] = {4, 0, 0, 0, 127, 0, 0, 1};
    uint16_t port = (uint16_t)given("DENIED_PORT");
    memcpy(address + 2, &port, 2);
    long socket = control();
    // A session may be had, for what the policy grants; the supervisor has restricted it before.
    if (socket >= 0)
        greet(socket);
    must_fail(ask(socket, OPEN, address, sizeof address), "a channel to a port that was not granted");
    must_fail(attach(socket, "secret", UINT32_MAX), "a region of the same user");
    all_refused();
}

/* Records that are none; the control plane must still answer others afterwards, which the
 * runner looks at. */
static void control_forged(void) {
    unsigned char junk[4096];
    long socket = control();
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (unsigned char)(i * 37);
    memcpy(junk, "HELI\1", 5);
    for (long length = 0; socket >= 0 && length < (long)sizeof junk; length += 127)
        CALL(sendto, socket, junk, length, MSG_DONTWAIT, 0L, 0L);
    must_fail(ask(socket, STATUS, "", 0), "an answer after forged records");
    all_refused();
}

/* Services that the policy does not name. */
static void control_services(void) {
    long socket = control();
    if (socket >= 0)
        greet(socket);
    int window = sealed_memory("window", 8192, "", 1, SHRINK);
    must_fail(socket < 0 ? socket : ask_with(socket, DELEGATE, "", 0, &window, 1, NULL), "delegated operations");
    must_fail(publish(socket, "stolen"), "a region's name taken");
    must_fail(attach(socket, "stolen", UINT32_MAX), "a region read");
    all_refused();
}

/* The policy names `granted` and what begins with `granted/`, for both rights, of the own user's. */
static void regions_names(void) {
    long socket = need(control(), "the control plane");
    need(greet(socket), "a session");
    need(publish(socket, "granted/own"), "a granted name");
    need(attach(socket, "granted/own", UINT32_MAX), "a granted region");
    static const char *const names[] = {"stolen", "grante", "grantedly", "other/granted/own", "Granted/own"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        must_fail(publish(socket, names[i]), names[i]);
        must_fail(attach(socket, names[i], UINT32_MAX), names[i]);
    }
    uint32_t own = (uint32_t)CALL(getuid);
    must_fail(attach(socket, "granted/own", own + 1), "another user's region");
    unsigned char everything[96] = {1};
    everything[12] = 1;
    must_fail(ask(socket, ALLOW_REGIONS, everything, 88), "more regions allowed");
    unsigned char services[8] = {15};
    must_fail(ask(socket, RESTRICT, services, 8), "restricted anew, to more");
    all_refused();
}

static volatile long *told;

/* What the attack in the child came to, since its verdict would be its own. */
static void in_inheritor(void) {
    long socket = told[0];
    told[1] = publish(socket, "stolen");
    told[2] = ask(socket, STATUS, "", 0);
    told[3] = publish(socket, "granted/by-child");
}

/* A session that goes on in a child, which takes names for itself; and one of the child's own. */
static void regions_inherited(void) {
    told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int turn = 0; turn < 2; turn++) {
        told[0] = need(control(), "the control plane");
        if (turn == 0)
            need(greet(told[0]), "a session");
        if (in_child(in_inheritor))
            untried("the child was ended");
        must_fail(told[1], "a name taken by a child");
        must_fail(told[2], "everybody's sessions shown to a child");
        if (turn == 0)
            need(told[3], "a granted name by an inherited session");
    }
    all_refused();
}

const struct attack control_attacks[] = {
    ATTACK(control_commands, ANYONE),
    ATTACK(control_services, ANYONE),
    ATTACK(regions_names, ANYONE),
    ATTACK(regions_inherited, ANYONE),
    ATTACK(control_channels, NEVER), /* needs a listener of Heliostat's: verify/sealed/test_sealed_streams.py has both sides */
    ATTACK(control_forged, NEVER),   /* the control plane hangs up on anybody who forges */
    {0},
};
