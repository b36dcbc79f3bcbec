/* Devices that every program may write: they are the host's, for all programs on it.
 *
 * What a sealed program needs of them is that they open. A mode of 000 on /dev/null stops a
 * machine, an owner of its own opens it to one user for good.
 */
#include "attack.h"

static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
enum { DEVICES = sizeof devices / sizeof *devices };

static void devices_described(void) {
    struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}}, past[2] = {{1, 0}, {1, 0}};
    for (int i = 0; i < DEVICES; i++) {
        const char *device = devices[i];
        must_fail(CALL(chmod, device, 0600), "chmod");
        must_fail(CALL(fchmodat, AT_FDCWD, device, 0666), "fchmodat");
        must_fail(raw(452, (const long[6]){AT_FDCWD, (long)device, 0666, 0}), "fchmodat2");
        must_fail(CALL(chown, device, getuid(), getgid()), "chown");
        must_fail(CALL(fchownat, AT_FDCWD, device, getuid(), getgid(), AT_SYMLINK_NOFOLLOW), "fchownat");
        must_fail(CALL(utimensat, AT_FDCWD, device, now, 0), "touched");
        must_fail(CALL(utimensat, AT_FDCWD, device, past, 0), "made old");
        must_fail(CALL(setxattr, device, "security.attack", "x", 1L, 0), "setxattr");
        must_fail(CALL(setxattr, device, "trusted.attack", "x", 1L, 0), "setxattr, trusted");
        must_fail(CALL(removexattr, device, "security.attack"), "removexattr");
        must_fail(CALL(unlink, device), "unlink");
        must_fail(CALL(rename, device, "/dev/attacked"), "rename");
    }
    all_refused();
}

static void devices_described_by_descriptor(void) {
    struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
    char name[64];
    for (int i = 0; i < DEVICES; i++)
        for (int flags = O_RDONLY; flags <= O_WRONLY; flags++) {
            long file = need(CALL(openat, AT_FDCWD, devices[i], flags), devices[i]);
            must_fail(CALL(fchmod, file, 0666), "fchmod");
            must_fail(CALL(fchown, file, getuid(), getgid()), "fchown");
            must_fail(CALL(fchownat, file, "", getuid(), getgid(), AT_EMPTY_PATH), "fchownat of the descriptor");
            must_fail(CALL(utimensat, file, 0L, now, 0), "futimens");
            must_fail(CALL(fsetxattr, file, "security.attack", "x", 1L, 0), "fsetxattr");
            snprintf(name, sizeof name, "/proc/self/fd/%ld", file);
            must_fail(CALL(chmod, name, 0666), "chmod by its name in /proc");
            must_fail(CALL(linkat, AT_FDCWD, name, AT_FDCWD, "/dev/attacked", AT_SYMLINK_FOLLOW), "linked");
            CALL(close, file);
        }
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
