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

static long reading, writing, shifting;

static void shift_descriptor(void) {
    for (;;) {
        CALL(dup2, writing, shifting);
        CALL(dup2, reading, shifting);
    }
}

/* One number, a file of one's own and a read-only one by turns: the file that is judged must be
 * the file that is changed. */
static void race_descriptor_changed(void) {
    struct timespec times[2] = {{0, 0}, {0, 0}};
    writing = own_file("rw/mine", "mine\n");
    reading = need(CALL(openat, AT_FDCWD, at("ro/public"), O_RDONLY), "a granted file");
    shifting = need(CALL(dup, writing), "dup");
    beside(shift_descriptor);
    while (racing()) {
        CALL(fchmod, shifting, 0777);
        CALL(utimensat, shifting, 0L, times, 0);
        CALL(fsetxattr, shifting, "user.mark", "x", 1L, 0);
        CALL(fchown, shifting, getuid(), getgid());
        CALL(flock, shifting, 2L | 4L /* LOCK_EX | LOCK_NB */);
    }
    struct stat status;
    need(CALL(fstat, reading, &status), "fstat");
    must_fail((status.st_mode & 0777) == 0777 || status.st_mtime == 0 ? 0 : -EROFS, "a read-only file was changed");
    long again = need(CALL(openat, AT_FDCWD, at("ro/public"), O_RDONLY), "the file once more");
    long shared = CALL(flock, again, 1L | 4L /* LOCK_SH | LOCK_NB */);
    must_fail(shared == -EAGAIN ? 0 : -EBADF, "a read-only file was locked");
    all_refused();
}

/* A pipe may be opened anew by its name in /proc; what is there when it is opened must be what
 * was there when it was judged. */
static void race_descriptor_reopened(void) {
    char path[64], bytes[8];
    int pair[2];
    need(CALL(pipe2, pair, O_NONBLOCK), "a pipe");
    writing = pair[1];
    reading = need(CALL(openat, AT_FDCWD, at("ro/public"), O_RDONLY), "a granted file");
    shifting = need(CALL(dup, writing), "dup");
    snprintf(path, sizeof path, "/proc/self/fd/%ld", shifting);
    beside(shift_descriptor);
    while (racing()) {
        long file = CALL(openat, AT_FDCWD, path, O_RDWR | O_NONBLOCK);
        if (file >= 0 && CALL(pread64, file, bytes, 6L, 0L) == 6 && !memcmp(bytes, "public", 6))
            escaped("a read-only file is open for writing");
        CALL(close, file);
        CALL(linkat, AT_FDCWD, path, AT_FDCWD, at("rw/linked"), AT_SYMLINK_FOLLOW);
    }
    struct stat status;
    need(CALL(fstat, reading, &status), "fstat");
    must_fail(status.st_nlink > 1 ? 0 : -EXDEV, "a read-only file was linked");
    all_refused();
}

/* Standard error leads into a log outside, for appending, as a shell opens it: a descriptor
 * gives what it gives, and not the file. */
static void inherited_log(void) {
    static const char *const ways[] = {"/proc/self/fd/2", "/dev/stderr", "/dev/fd/2"};
    for (int i = 0; i < 3; i++) {
        must_not_show(CALL(openat, AT_FDCWD, ways[i], O_RDONLY), "a log was opened for reading");
        must_not_show(CALL(openat, AT_FDCWD, ways[i], O_RDWR), "a log was opened for both");
        must_fail(CALL(linkat, AT_FDCWD, ways[i], AT_FDCWD, at("rw/log"), AT_SYMLINK_FOLLOW), "a log was linked");
        must_fail(CALL(chmod, ways[i], 0777), "a log's mode was changed by name");
    }
    must_fail(CALL(linkat, 2, "", AT_FDCWD, at("rw/log"), AT_EMPTY_PATH), "a log was linked by its descriptor");
    must_fail(CALL(fchmod, 2, 0777), "a log's mode was changed");
    must_fail(CALL(fsetxattr, 2, "user.mark", "x", 1L, 0), "a log got an attribute");
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
    ATTACK(race_descriptor_changed, ANYONE),
    ATTACK(race_descriptor_reopened, ANYONE),
    ATTACK(inherited_log, ANYONE),
    ATTACK(deleted_file, ANYONE),
    ATTACK(deleted_folder, ANYONE),
    {0},
};
