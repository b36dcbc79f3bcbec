/* Names that lead out: "..", links of all kinds, moves, odd paths, handles.
 *
 * Sources: CVE-2018-15664 (docker cp), CVE-2019-14271, CVE-2021-30465 (runc, symlinks exchanged
 * while paths are resolved), CVE-2024-21626 (runc, a leaked working folder), CVE-2015-1334 (lxc),
 * the "Shocker" programme of 2014 (open_by_handle_at from inside Docker).
 */
#include "attack.h"
#include <linux/openat2.h>
#include <sys/syscall.h>

static long open_read(const char *path) { return CALL(openat, AT_FDCWD, path, O_RDONLY); }

static void plainly(void) {
    must_not_show(open_read(at("outside/secret")), "opened by its name");
    must_not_show(CALL(open, at("outside/secret"), O_RDONLY), "opened by open(2)");
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY | O_NONBLOCK | O_NOFOLLOW), "with flags");
    struct open_how how = {.flags = O_RDONLY};
    must_not_show(CALL(openat2, AT_FDCWD, at("outside/secret"), &how, sizeof how), "opened by openat2(2)");
    all_refused();
}

static void dotdot(void) {
    static const char *const ways[] = {"rw/../outside/secret", "ro/sub/../../outside/secret", "rw/./.././outside/secret",
                                       "rw//..//outside//secret", "data/sub/keys/../../../outside/secret"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        must_not_show(open_read(at(ways[i])), ways[i]);
    long folder = need(CALL(openat, AT_FDCWD, at("rw"), O_RDONLY | O_DIRECTORY), "opening the grant");
    must_not_show(CALL(openat, folder, "../outside/secret", O_RDONLY), "\"..\" from a granted folder");
    need(CALL(chdir, at("rw")), "chdir into the grant");
    must_not_show(open_read("../outside/secret"), "\"..\" from the working folder");
    must_not_show(open_read("../../../../../../../../../../../../../../../../etc/shadow"), "to the root");
    all_refused();
}

static void symlink_planted_by_attacker(void) {
    need(CALL(symlink, at("outside/secret"), at("rw/absolute")), "symlink");
    need(CALL(symlink, "../outside/secret", at("rw/relative")), "symlink");
    need(CALL(symlink, at("outside"), at("rw/folder")), "symlink");
    need(CALL(symlink, "folder/../outside/secret", at("rw/mixed")), "symlink");
    static const char *const ways[] = {"rw/absolute", "rw/relative", "rw/folder/secret", "rw/mixed"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        must_not_show(open_read(at(ways[i])), ways[i]);
    must_fail(CALL(openat, AT_FDCWD, at("rw/folder/made"), O_CREAT | O_WRONLY, 0600), "created through a link");
    must_fail(CALL(truncate, at("rw/folder/loose"), 0L), "truncated through a link");
    must_fail(CALL(chmod, at("rw/absolute"), 0777), "mode changed through a link");
    all_refused();
}

static void symlink_planted_by_outsider(void) {
    must_not_show(open_read(at("rw/planted")), "a link that somebody else left");
    must_not_show(open_read(at("rw/planted-folder/secret")), "a folder link that somebody else left");
    must_fail(CALL(unlink, at("rw/planted-folder/loose")), "unlinked through it");
    must_fail(CALL(mkdir, at("rw/planted-folder/made"), 0700), "mkdir through it");
    need(CALL(chdir, at("rw")), "chdir");
    must_not_show(open_read("planted"), "relative to the working folder");
    must_fail(CALL(openat, AT_FDCWD, at("ro/planted"), O_WRONLY), "written by way of a link in a read-only grant");
    all_refused();
}

static void symlink_chain(void) {
    char from[64], to[64];
    need(CALL(symlink, at("outside/secret"), at("rw/link0")), "symlink");
    for (int i = 1; i < 30; i++) {
        snprintf(from, sizeof from, "rw/link%d", i);
        snprintf(to, sizeof to, i % 2 ? "../rw/./link%d" : "link%d", i - 1);
        need(CALL(symlink, to, at(from)), "symlink");
    }
    must_not_show(open_read(at("rw/link29")), "thirty links");
    all_refused();
}

static void hard_link_in(void) {
    must_fail(CALL(link, at("outside/secret"), at("rw/linked")), "link(2)");
    must_fail(CALL(linkat, AT_FDCWD, at("rw/planted"), AT_FDCWD, at("rw/linked2"), AT_SYMLINK_FOLLOW), "linkat(2) through a link");
    must_fail(CALL(rename, at("outside/secret"), at("rw/taken")), "rename(2)");
    must_fail(CALL(renameat2, AT_FDCWD, at("outside/loose"), AT_FDCWD, at("rw/own"), 2 /* EXCHANGE */), "exchanged");
    all_refused();
}

static void moving_out(void) {
    own_file("rw/parcel", "from inside\n");
    must_fail(CALL(link, at("rw/parcel"), at("outside/parcel")), "linked out");
    must_fail(CALL(rename, at("rw/parcel"), at("outside/loose")), "renamed over an outsider's file");
    must_fail(CALL(symlink, "/", at("outside/link")), "symlink made outside");
    must_fail(CALL(mkdir, at("outside/folder"), 0700), "folder made outside");
    must_fail(CALL(mknod, at("outside/fifo"), S_IFIFO | 0600), "FIFO made outside");
    must_fail(CALL(creat, at("outside/created"), 0600), "file made outside");
    must_fail(CALL(openat, AT_FDCWD, at("outside"), O_TMPFILE | O_RDWR, 0600), "nameless file outside");
    must_fail(CALL(unlink, at("outside/loose")), "unlinked");
    must_fail(CALL(rmdir, at("outside/empty")), "rmdir");
    all_refused();
}

static void outside_metadata(void) {
    struct timespec times[2] = {{0, 0}, {0, 0}};
    must_fail(CALL(chmod, at("outside/loose"), 0777), "chmod");
    must_fail(CALL(fchmodat, AT_FDCWD, at("outside/loose"), 0777), "fchmodat");
    must_fail(raw(452, (const long[6]){AT_FDCWD, (long)at("outside/loose"), 0777, 0}), "fchmodat2");
    must_fail(CALL(lchown, at("outside/loose"), getuid(), getgid()), "lchown");
    must_fail(CALL(utimensat, AT_FDCWD, at("outside/loose"), times, 0), "utimensat");
    must_fail(CALL(truncate, at("outside/loose"), 0L), "truncate");
    must_fail(CALL(setxattr, at("outside/loose"), "user.mark", "x", 1L, 0), "setxattr");
    must_fail(CALL(removexattr, at("outside/loose"), "user.word"), "removexattr");
    struct { uint64_t value; uint32_t size, flags; } attribute = {(uint64_t)"x", 1, 0};
    must_fail(raw(463, (const long[6]){AT_FDCWD, (long)at("outside/loose"), 0, (long)"user.mark", (long)&attribute,
                                       sizeof attribute}), "setxattrat");
    must_fail(CALL(access, at("outside/loose"), R_OK), "access tells that it is there");
    all_refused();
}

static void secret_attribute(void) {
    char value[256] = "";
    must_fail(CALL(getxattr, at("outside/secret"), "user.word", value, sizeof value), "getxattr");
    must_fail(CALL(lgetxattr, at("outside/secret"), "user.word", value, sizeof value), "lgetxattr");
    must_fail(CALL(listxattr, at("outside/secret"), value, sizeof value), "listxattr");
    must_fail(CALL(readlink, at("outside/link-to-secret"), value, sizeof value), "readlink");
    struct stat status;
    must_fail(CALL(stat, at("outside/secret"), &status), "stat");
    must_fail(CALL(statfs, at("outside/secret"), value), "statfs");
    all_refused();
}

/* A dirfd that is not below any grant any more: an outsider moved the folder away. */
static void folder_moved_out(void) {
    need(CALL(mkdir, at("rw/moving"), 0700), "mkdir");
    long folder = need(CALL(openat, AT_FDCWD, at("rw/moving"), O_RDONLY | O_DIRECTORY), "opening it");
    need(CALL(chdir, at("rw/moving")), "chdir");
    own_file("rw/please-move", "");
    struct stat gone;
    for (int i = 0; i < 12000 && CALL(stat, at("rw/please-move"), &gone) == 0; i++)
        usleep(5000);
    must_not_show(CALL(openat, folder, "../secret", O_RDONLY), "\"..\" of a folder that was moved out");
    must_not_show(CALL(openat, AT_FDCWD, "../secret", O_RDONLY), "\"..\" of a working folder that was moved out");
    must_fail(CALL(openat, folder, "../made", O_CREAT | O_WRONLY, 0600), "created beside it");
    must_fail(CALL(renameat, folder, "../loose", AT_FDCWD, at("rw/fetched")), "fetched from beside it");
    all_refused();
}

static void working_folder_outside(void) {
    must_not_show((CALL(chdir, at("outside")), open_read("secret")), "chdir");
    long folder = CALL(openat, AT_FDCWD, at("outside"), O_PATH | O_DIRECTORY);
    if (folder >= 0)
        must_not_show((CALL(fchdir, folder), open_read("secret")), "fchdir");
    long root = CALL(openat, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY);
    if (root >= 0)
        must_not_show(CALL(openat, root, at("outside/secret") + 1, O_RDONLY), "from a descriptor of /");
    must_not_show((CALL(chdir, "/"), open_read(at("outside/secret") + 1)), "from /");
    all_refused();
}

/* CVE-2024-21626 and its kin: a folder that the parent happened to have open. */
static void inherited_descriptors(void) {
    for (long number = 0; number < 1024; number++) {
        must_not_show(CALL(openat, number, "secret", O_RDONLY), "by an inherited folder");
        must_not_show(CALL(openat, number, "outside/secret", O_RDONLY), "by an inherited folder");
        if (number > 2 && CALL(fcntl, number, F_GETFD) >= 0)
            must_not_show(CALL(dup, number), "an inherited file");
    }
    all_refused();
}

/* Shocker: a file handle names a file without a path. The runner tells the handle itself, so
 * that the attacker need not guess it. */
static void file_handle(void) {
    struct { unsigned bytes; int type; unsigned char data[120]; } handle = {120, 0, {0}};
    int mount = 0;
    must_fail(CALL(name_to_handle_at, AT_FDCWD, at("outside/secret"), &handle, &mount, 0), "name_to_handle_at");
    handle.bytes = (unsigned)given_bytes("SECRET_HANDLE", handle.data, sizeof handle.data);
    handle.type = (int)given("SECRET_HANDLE_TYPE");
    long folder = need(CALL(openat, AT_FDCWD, at("rw"), O_RDONLY), "opening the grant");
    must_not_show(CALL(open_by_handle_at, folder, &handle, O_RDONLY), "open_by_handle_at");
    must_not_show(CALL(open_by_handle_at, AT_FDCWD, &handle, O_RDONLY), "open_by_handle_at");
    all_refused();
}

const struct attack path_attacks[] = {
    ATTACK(plainly, ANYONE),
    ATTACK(dotdot, ANYONE),
    ATTACK(symlink_planted_by_attacker, ANYONE),
    ATTACK(symlink_planted_by_outsider, ANYONE),
    ATTACK(symlink_chain, ANYONE),
    ATTACK(hard_link_in, ANYONE),
    ATTACK(moving_out, ANYONE),
    ATTACK(outside_metadata, ANYONE),
    ATTACK(secret_attribute, ANYONE),
    ATTACK(folder_moved_out, ANYONE),
    ATTACK(working_folder_outside, ANYONE),
    ATTACK(inherited_descriptors, ANYONE),
    ATTACK(file_handle, ANYONE),
    {0},
};
