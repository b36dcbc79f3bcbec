/* Devices that every program may write: they are the host's, for all programs on it.
 *
 * What a sealed program needs of them is that they open. A mode of 000 on /dev/null stops a
 * machine, an owner of its own opens it to one user for good.
 */
#include "attack.h"
#include <sys/file.h>
#include <sys/sysmacros.h>

static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"};
/* The last opens only where there is a terminal. */
enum { DEVICES = sizeof devices / sizeof *devices, OPENED = DEVICES - 1 };

static void devices_described(void) {
    struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}}, past[2] = {{1, 0}, {1, 0}};
    for (int i = 0; i < DEVICES; i++) {
        const char *device = devices[i];
        must_fail(CALL(chmod, device, 0600), "chmod");
        must_fail(CALL(fchmodat, AT_FDCWD, device, 0666), "fchmodat");
        must_fail(raw(452, (const long[6]){AT_FDCWD, (long)device, 0666, 0}), "fchmodat2");
        must_fail(raw(452, (const long[6]){AT_FDCWD, (long)device, 0666, AT_SYMLINK_NOFOLLOW}), "fchmodat2 of no link");
        must_fail(CALL(chown, device, getuid(), getgid()), "chown");
        must_fail(CALL(fchownat, AT_FDCWD, device, getuid(), getgid(), AT_SYMLINK_NOFOLLOW), "fchownat");
        must_fail(CALL(lchown, device, getuid(), getgid()), "lchown");
        must_fail(CALL(utimensat, AT_FDCWD, device, now, 0), "touched");
        must_fail(CALL(utime, device, 0L), "utime");
        must_fail(CALL(utimes, device, past), "utimes");
        must_fail(CALL(futimesat, AT_FDCWD, device, past), "futimesat");
        must_fail(CALL(utimensat, AT_FDCWD, device, past, 0), "made old");
        must_fail(CALL(setxattr, device, "security.attack", "x", 1L, 0), "setxattr");
        must_fail(CALL(setxattr, device, "trusted.attack", "x", 1L, 0), "setxattr, trusted");
        must_fail(CALL(lsetxattr, device, "trusted.attack", "x", 1L, 0), "lsetxattr");
        must_fail(CALL(removexattr, device, "security.attack"), "removexattr");
        must_fail(CALL(lremovexattr, device, "security.attack"), "lremovexattr");
        must_fail(CALL(unlink, device), "unlink");
        must_fail(CALL(rename, device, "/dev/attacked"), "rename");
        must_fail(CALL(rename, at("rw/own"), device), "covered");
        must_fail(CALL(renameat2, AT_FDCWD, device, AT_FDCWD, at("rw/own"), 2L), "exchanged");
        must_fail(CALL(link, device, at("rw/linked")), "linked");
    }
    must_fail(CALL(mknod, at("rw/null"), S_IFCHR | 0666, makedev(1, 3)), "a second one, made");
    all_refused();
}

static void describe(long file) {
    static const char *const forms[] = {"/proc/self/fd/%ld", "/proc/thread-self/fd/%ld", "/dev/fd/%ld"};
    struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
    char name[64];
    must_fail(CALL(fchmod, file, 0666), "fchmod");
    must_fail(raw(452, (const long[6]){file, (long)"", 0666, AT_EMPTY_PATH}), "fchmodat2 of the descriptor");
    must_fail(CALL(fchown, file, getuid(), getgid()), "fchown");
    must_fail(CALL(fchownat, file, "", getuid(), getgid(), AT_EMPTY_PATH), "fchownat of the descriptor");
    must_fail(CALL(utimensat, file, 0L, now, 0), "futimens");
    must_fail(CALL(utimensat, file, "", now, AT_EMPTY_PATH), "utimensat of the descriptor");
    must_fail(CALL(fsetxattr, file, "security.attack", "x", 1L, 0), "fsetxattr");
    must_fail(CALL(fremovexattr, file, "security.attack"), "fremovexattr");
    must_fail(CALL(linkat, file, "", AT_FDCWD, at("rw/linked"), AT_EMPTY_PATH), "linked by its descriptor");
    for (int form = 0; form < 3; form++) {
        snprintf(name, sizeof name, forms[form], file);
        must_fail(CALL(chmod, name, 0666), "chmod by its name in /proc");
        must_fail(CALL(chown, name, getuid(), getgid()), "chown by its name in /proc");
        must_fail(CALL(utimensat, AT_FDCWD, name, now, 0), "touched by its name in /proc");
        must_fail(CALL(setxattr, name, "security.attack", "x", 1L, 0), "setxattr by its name in /proc");
        must_fail(CALL(linkat, AT_FDCWD, name, AT_FDCWD, "/dev/attacked", AT_SYMLINK_FOLLOW), "linked");
    }
}

static void devices_described_by_descriptor(void) {
    for (int i = 0; i < OPENED; i++)
        for (int flags = O_RDONLY; flags <= O_RDWR; flags++) {
            long file = need(CALL(openat, AT_FDCWD, devices[i], flags), devices[i]);
            describe(file);
            must_fail(CALL(flock, file, LOCK_EX | LOCK_NB), "locked against all others");
            /* As standard input, which /dev/stdin leads to. */
            need(CALL(dup2, file, 0), "dup2");
            must_fail(CALL(chmod, "/dev/stdin", 0666), "chmod of /dev/stdin");
            describe(0);
            CALL(close, file);
        }
    for (int i = 0; i < DEVICES; i++)
        describe(need(CALL(openat, AT_FDCWD, devices[i], O_PATH), "by path only"));
    long null = need(CALL(openat, AT_FDCWD, "/dev/null", O_RDWR | O_CREAT | O_TRUNC, 0600), "/dev/null as a shell opens it");
    need(CALL(write, null, "x", 1L), "writing to /dev/null");
    need(CALL(access, "/dev/null", W_OK), "/dev/null looks writable");
    all_refused();
}

const struct attack device_attacks[] = {
    ATTACK(devices_described, ANYONE),
    ATTACK(devices_described_by_descriptor, ANYONE),
    {0},
};
