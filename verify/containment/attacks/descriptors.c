/* Descriptors: those that Heliostat injected, taken away or covered while it injects them.
 *
 * The number that an open returns is known in advance. Other threads close it, cover it, and
 * swap folders under the supervisor's eyes; what comes back must always be what was asked for.
 */
#include "attack.h"
#include <sys/socket.h>
#include <sys/un.h>

static long covering;

static void cover_next(void) {
    for (;;)
        for (long number = 3; number < 12; number++) {
            if (number != covering)
                CALL(dup2, covering, number);
            CALL(close, number == covering ? 1000 : number);
        }
}

/* Never may an open for reading come back as a descriptor that writes, or of something else. */
static void injected_covered(void) {
    covering = need(CALL(openat, AT_FDCWD, at("ro/public"), O_RDONLY), "a granted file");
    beside(cover_next);
    while (racing()) {
        long file = CALL(openat, AT_FDCWD, at("ro/public"), O_RDONLY);
        if (file >= 0 && CALL(write, file, "x", 1L) == 1)
            escaped("what was opened for reading was written");
        CALL(close, file == covering ? 1000 : file);
        must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "opened while numbers moved");
    }
    all_refused();
}

/* The table of descriptors is full: the supervisor must answer, not lose what it opened. */
static void no_room_for_descriptors(void) {
    long first = need(CALL(dup, 0), "dup");
    while (CALL(dup, first) >= 0)
        continue;
    for (int i = 0; i < 2000; i++)
        must_fail(CALL(openat, AT_FDCWD, at("ro/public"), O_RDONLY), "opened although there is no room");
    CALL(close, first);
    need(CALL(openat, AT_FDCWD, at("ro/public"), O_RDONLY), "there is room again");
    for (long number = 3; number < 4096; number++)
        CALL(close, number);
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "after that");
    all_refused();
}

/* Standard descriptors closed: a supervisor that opens files with numbers 0 to 2 free may hand
 * out its own, and a set-user-id program would write its errors into a file. */
static void standard_descriptors_closed(void) {
    CALL(dup2, 1L, 100L);
    CALL(close, 0L);
    CALL(close, 2L);
    long a = CALL(openat, AT_FDCWD, at("ro/public"), O_RDONLY);
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "opened as a standard descriptor");
    must_fail(CALL(write, a, "x", 1L), "the granted file was opened for writing");
    all_refused();
}

/* Descriptors of one's own travel to a child by a message: a right that is one's own to give,
 * and nothing may come of it that was not there before. */
static void descriptor_by_message(void) {
    int pair[2];
    need(CALL(socketpair, AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
    long file = need(CALL(openat, AT_FDCWD, at("ro/public"), O_RDONLY), "a granted file");
    char byte = 'x', room[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &(int){(int)file}, sizeof(int));
    if (CALL(sendmsg, pair[0], &message, 0) == 1 && CALL(recvmsg, pair[1], &message, 0) == 1) {
        int got = *(int *)CMSG_DATA(head);
        must_fail(CALL(write, got, "x", 1L), "a descriptor gained a right by travelling");
        must_fail(CALL(fchmod, got, 0777), "a descriptor that travelled changes its file");
    }
    must_fail(CALL(fchmod, file, 0777), "fchmod of a read-only file");
    all_refused();
}

/* A deleted file lives on behind its descriptor, and has no path by which it could be judged. */
static void deleted_file(void) {
    char path[64];
    own_file("rw/fleeting", "mine\n");
    long file = need(CALL(openat, AT_FDCWD, at("rw/fleeting"), O_RDONLY), "opening it");
    need(CALL(unlink, at("rw/fleeting")), "unlinking it");
    CALL(symlink, at("outside/secret"), at("rw/fleeting (deleted)"));
    snprintf(path, sizeof path, "/proc/self/fd/%ld", file);
    must_not_show(CALL(openat, AT_FDCWD, path, O_RDONLY), "a link with the deleted name was followed");
    CALL(symlink, at("outside/secret"), at("rw/fleeting"));
    must_not_show(CALL(openat, AT_FDCWD, path, O_RDONLY), "a link in its place was followed");
    must_not_show(CALL(openat, AT_FDCWD, at("rw/fleeting (deleted)"), O_RDONLY), "the link itself");
    all_refused();
}

/* A folder that was removed while it is the working folder, its name now a link outside. */
static void deleted_folder(void) {
    need(CALL(mkdir, at("rw/gone"), 0700), "mkdir");
    need(CALL(chdir, at("rw/gone")), "chdir");
    need(CALL(rmdir, at("rw/gone")), "rmdir");
    need(CALL(symlink, at("outside"), at("rw/gone")), "symlink");
    need(CALL(symlink, at("outside"), at("rw/gone (deleted)")), "symlink");
    must_not_show(CALL(openat, AT_FDCWD, "secret", O_RDONLY), "relative to a removed folder");
    must_not_show(CALL(openat, AT_FDCWD, "../gone/secret", O_RDONLY), "up from a removed folder");
    must_not_show(CALL(openat, AT_FDCWD, at("rw/gone/secret"), O_RDONLY), "by its old name");
    must_fail(CALL(openat, AT_FDCWD, "loose", O_WRONLY), "written relative to a removed folder");
    all_refused();
}

const struct attack descriptor_attacks[] = {
    ATTACK(injected_covered, ANYONE),
    ATTACK(no_room_for_descriptors, ANYONE),
    ATTACK(standard_descriptors_closed, ANYONE),
    ATTACK(descriptor_by_message, ANYONE),
    ATTACK(deleted_file, ANYONE),
    ATTACK(deleted_folder, ANYONE),
    {0},
};
