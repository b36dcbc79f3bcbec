/* The control plane from within the seal: same user, same socket, other rights.
 *
 * The control plane trusts what the kernel says of a connection, and the kernel says "the same
 * user" of a sealed program. Records are docs/control-protocol.md's, byte by byte.
 */
#include "attack.h"
#include <sys/socket.h>
#include <sys/un.h>

enum { HELLO = 1, OPEN = 4, STATUS = 6, EXPLAIN = 7, REVOKE = 9, STOP = 10, ATTACH = 12, LEASE = 16, REQUEST = 128, REPLY = 544, REFUSED = 106, NOT_LEASED = 111 };

static long control(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const char *path = getenv("CONTROL_SOCKET");
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path ? path : "");
    long socket = CALL(socket, AF_UNIX, SOCK_SEQPACKET, 0);
    long result = CALL(connect, socket, &name, sizeof name);
    return result < 0 ? result : socket;
}

/* One request and its reply's kind; a refusal is -EACCES. */
static long ask(long socket, unsigned kind, const void *body, size_t length, unsigned char reply[REPLY]) {
    unsigned char request[REQUEST] = {'H', 'E', 'L', 'I', 1, 0, (unsigned char)kind};
    memcpy(request + 16, body, length);
    long result = CALL(sendto, socket, request, REQUEST, 0, 0L, 0L);
    if (result < 0)
        return result;
    struct timeval { long seconds, micro; } wait = {2, 0};
    CALL(setsockopt, socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    result = CALL(recvfrom, socket, reply, REPLY, 0, 0L, 0L);
    if (result < 0)
        return result;
    unsigned answer = result >= 16 ? reply[6] : REFUSED;
    return answer == REFUSED || answer == NOT_LEASED ? -EACCES : (long)answer;
}

static long greet(long socket) {
    unsigned char reply[REPLY], body[8] = {6, 0, 0, 0, 'a', 't', 't', 'a'};
    return ask(socket, HELLO, body, sizeof body, reply);
}

static void control_commands(void) {
    unsigned char reply[REPLY];
    uint32_t victim = (uint32_t)given("VICTIM");
    long socket = control();
    must_fail(socket < 0 ? socket : ask(socket, STATUS, "", 0, reply), "the state of everybody's sessions");
    must_fail(socket < 0 ? socket : ask(socket, EXPLAIN, &victim, sizeof victim, reply), "another process explained");
    must_fail(socket < 0 ? socket : ask(socket, REVOKE, &victim, sizeof victim, reply), "another process's grants revoked");
    must_fail(socket < 0 ? socket : ask(socket, STOP, "", 0, reply), "the control plane stopped");
    all_refused();
}

static void control_channels(void) {
    unsigned char reply[REPLY], address[20] = {4, 0, 0, 0, 127, 0, 0, 1};
    uint16_t port = (uint16_t)given("DENIED_PORT");
    memcpy(address + 2, &port, 2);
    long socket = control();
    // A session may be had, for what the policy grants; the supervisor has restricted it before.
    if (socket >= 0)
        greet(socket);
    must_fail(socket < 0 ? socket : ask(socket, OPEN, address, sizeof address, reply), "a channel to a port that was not granted");
    unsigned char region[72] = {0xff, 0xff, 0xff, 0xff, 6, 0, 0, 0, 's', 'e', 'c', 'r', 'e', 't'};
    must_fail(socket < 0 ? socket : ask(socket, ATTACH, region, sizeof region, reply), "a region of the same user");
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
    unsigned char reply[REPLY];
    must_fail(socket < 0 ? socket : ask(socket, STATUS, "", 0, reply), "an answer after forged records");
    all_refused();
}

const struct attack control_attacks[] = {
    ATTACK(control_commands, ANYONE),
    ATTACK(control_channels, NEVER), /* needs a listener of Heliostat's: verify/sealed/test_sealed_streams.py has both sides */
    ATTACK(control_forged, NEVER),   /* the control plane hangs up on anybody who forges */
    {0},
};
