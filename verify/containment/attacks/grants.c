/* Grants inside grants: what is read-only below what is writable.
 *
 * `data` is granted for writing, `data/sub/keys` inside it for reading only. Nothing that
 * happens to the names above the inner grant may turn it into an ordinary writable folder.
 */
#include <linux/openat2.h>
#include "attack.h"

static long open_write(const char *path) { return CALL(openat, AT_FDCWD, path, O_WRONLY); }

static void narrower_grant_written(void) {
    must_fail(open_write(at("data/sub/keys/key")), "opened for writing");
    must_fail(open_write(at("data/sub/../sub/keys/key")), "opened with dots");
    long folder = need(CALL(openat, AT_FDCWD, at("data/sub"), O_RDONLY | O_DIRECTORY), "opening its parent");
    must_fail(CALL(openat, folder, "keys/key", O_WRONLY), "from its parent's descriptor");
    must_fail(CALL(unlinkat, folder, "keys/key", 0), "unlinked from its parent's descriptor");
    must_fail(CALL(truncate, at("data/sub/keys/key"), 0L), "truncated");
    must_fail(CALL(creat, at("data/sub/keys/made"), 0600), "created in it");
    need(CALL(symlink, "sub/keys/key", at("data/way")), "symlink");
    must_fail(open_write(at("data/way")), "by a link in the wider grant");
    all_refused();
}

static void narrower_grant_renamed(void) {
    must_fail(CALL(rename, at("data/sub/keys"), at("data/loot")), "renamed");
    must_fail(CALL(renameat2, AT_FDCWD, at("data/sub/keys"), AT_FDCWD, at("data/sub/free"), 2), "exchanged");
    must_fail(CALL(rename, at("data/sub/keys/key"), at("data/key")), "a file moved out of it");
    must_fail(CALL(rename, at("data/sub/free/file"), at("data/sub/keys/key")), "a file moved over one in it");
    must_fail(CALL(link, at("data/sub/keys/key"), at("data/key")), "a file linked out of it");
    must_fail(CALL(link, at("data/sub/free/file"), at("data/sub/keys/added")), "a file linked into it");
    all_refused();
}

/* The parent is writable, so its renaming looks harmless; afterwards the same files have paths
 * that no longer begin with the narrower grant's. */
static void parent_of_narrower_grant_renamed(void) {
    long moved = CALL(rename, at("data/sub"), at("data/elsewhere"));
    if (moved >= 0)
        must_fail(open_write(at("data/elsewhere/keys/key")), "the parent was renamed, the file is writable");
    long exchanged = CALL(renameat2, AT_FDCWD, at("data/other"), AT_FDCWD, at("data/sub"), 2);
    if (exchanged >= 0)
        must_fail(open_write(at("data/other/keys/key")), "the parent was exchanged, the file is writable");
    must_fail(moved, "the parent was renamed");
    must_fail(exchanged, "the parent was exchanged");
    all_refused();
}

/* The other way about: the folder stays, its name gets another meaning. */
static void narrower_grant_covered(void) {
    must_fail(CALL(rmdir, at("data/sub/hollow")), "an empty grant was removed");
    must_fail(CALL(unlink, at("data/sub/hollow")), "an empty grant was unlinked");
    must_fail(CALL(rename, at("data/other"), at("data/sub/hollow")), "a grant was covered by a rename");
    must_fail(CALL(unlink, at("data/pinned")), "a granted file was unlinked");
    must_fail(CALL(rename, at("data/sub/free/file"), at("data/pinned")), "a granted file was covered");
    must_fail(open_write(at("data/pinned")), "a granted file was written");
    all_refused();
}

/* What is granted for reading has another name in the wider grant: a hard link, or a spelling that
 * the file system takes for the same. */
static void narrower_grant_by_other_names(void) {
    struct timespec times[2] = {{1, 0}, {1, 0}};
    const char *other = at("data/pinned-other");
    must_fail(open_write(other), "the file opened for writing");
    must_fail(CALL(openat, AT_FDCWD, other, O_RDONLY | O_TRUNC), "the file emptied while opened for reading");
    must_fail(CALL(truncate, other, 0L), "the file truncated");
    must_fail(CALL(chmod, other, 0777), "the file's mode");
    must_fail(CALL(utimensat, AT_FDCWD, other, times, 0), "the file's times");
    must_fail(CALL(setxattr, other, "user.mark", "x", 1L, 0), "the file's attributes");
    must_fail(CALL(link, other, at("data/third")), "a third name");
    long file = need(CALL(openat, AT_FDCWD, other, O_RDONLY), "reading by the other name");
    must_fail(CALL(fchmod, file, 0777), "fchmod");
    must_fail(CALL(flock, file, 6L /* LOCK_EX | LOCK_NB */), "locked for oneself alone");
    must_fail(open_write(at("data/twin/key")), "a file in the folder opened for writing");
    must_fail(CALL(creat, at("data/twin/made"), 0600), "created in the folder");
    must_fail(CALL(mkdir, at("data/twin/made"), 0700), "a folder made in it");
    must_fail(CALL(rename, at("data/twin/key"), at("data/twin/private")), "renamed in it");
    must_fail(CALL(unlink, at("data/twin/key")), "unlinked in it");
    must_fail(CALL(chmod, at("data/twin"), 0777), "the folder's mode");
    long folder = need(CALL(openat, AT_FDCWD, at("data/twin"), O_RDONLY | O_DIRECTORY), "the folder");
    must_fail(CALL(openat, folder, "key", O_WRONLY), "opened from its descriptor");
    must_fail(CALL(mkdirat, folder, "made", 0700), "made from its descriptor");
    all_refused();
}

/* An outsider gives the file's place to another file, and the folder another name. */
static void narrower_grant_renamed_by_an_outsider(void) {
    char name[64];
    long file = need(CALL(openat, AT_FDCWD, at("data/pinned"), O_RDONLY), "the file");
    long key = need(CALL(openat, AT_FDCWD, at("data/sub/keys/key"), O_RDONLY), "a file in the folder");
    long folder = need(CALL(openat, AT_FDCWD, at("data/sub/keys"), O_RDONLY | O_DIRECTORY), "the folder");
    need(CALL(close, need(CALL(creat, at("rw/please-rename"), 0600), "asking the outsider")), "close");
    while (access(at("rw/please-rename"), F_OK) == 0)
        usleep(1000);
    long held[] = {file, key};
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "/proc/self/fd/%ld", held[i]);
        must_fail(CALL(fchmod, held[i], 0777), "fchmod");
        must_fail(CALL(chmod, name, 0777), "chmod by its name in /proc");
        must_fail(CALL(truncate, name, 0L), "truncated by its name in /proc");
        must_fail(CALL(openat, AT_FDCWD, name, O_WRONLY), "opened by its name in /proc");
        must_fail(CALL(linkat, AT_FDCWD, name, AT_FDCWD, at("data/third"), AT_SYMLINK_FOLLOW), "linked");
        must_fail(CALL(linkat, held[i], "", AT_FDCWD, at("data/third"), AT_EMPTY_PATH), "linked by its descriptor");
    }
    must_fail(open_write(at("data/pinned")), "the new file opened for writing");
    must_fail(open_write(at("data/pinned-before")), "the old file opened for writing");
    must_fail(CALL(chmod, at("data/pinned-before"), 0777), "the old file's mode");
    must_fail(open_write(at("data/sub/renamed/key")), "a file in the renamed folder");
    must_fail(CALL(creat, at("data/sub/renamed/made"), 0600), "created in the renamed folder");
    must_fail(CALL(unlink, at("data/sub/renamed/key")), "unlinked in the renamed folder");
    must_fail(CALL(openat, folder, "key", O_WRONLY), "opened from its descriptor");
    must_fail(CALL(mkdirat, folder, "made", 0700), "made from its descriptor");
    need(CALL(fchdir, folder), "fchdir");
    must_fail(CALL(creat, "made", 0600), "created from the working folder");
    all_refused();
}

/* An outsider brings the folder into another grant for writing, and gives the file a name there. */
static void narrower_grant_carried_by_an_outsider(void) {
    long writable = need(CALL(openat, AT_FDCWD, at("rw"), O_RDONLY | O_DIRECTORY), "the other grant");
    need(CALL(close, need(CALL(creat, at("rw/please-carry"), 0600), "asking the outsider")), "close");
    while (access(at("rw/please-carry"), F_OK) == 0)
        usleep(1000);
    must_fail(open_write(at("rw/pinned")), "the file opened for writing");
    must_fail(CALL(truncate, at("rw/pinned"), 0L), "the file truncated");
    must_fail(CALL(chmod, at("rw/pinned"), 0777), "the file's mode");
    must_fail(CALL(link, at("rw/pinned"), at("rw/third")), "the file linked");
    must_fail(CALL(openat, writable, "pinned", O_RDWR), "the file opened from the grant's descriptor");
    must_fail(open_write(at("rw/carried/key")), "a file in the folder opened for writing");
    must_fail(CALL(creat, at("rw/carried/made"), 0600), "created in the folder");
    must_fail(CALL(mkdir, at("rw/carried/made"), 0700), "a folder made in it");
    must_fail(CALL(unlink, at("rw/carried/key")), "unlinked in it");
    must_fail(CALL(rename, at("rw/carried/key"), at("rw/key")), "moved out of it");
    must_fail(CALL(openat, writable, "carried/key", O_WRONLY), "opened from the grant's descriptor");
    must_fail(CALL(mkdirat, writable, "carried/made", 0700), "made from the grant's descriptor");
    struct open_how how = {.flags = O_WRONLY, .resolve = RESOLVE_BENEATH};
    must_fail(CALL(openat2, writable, "pinned", &how, sizeof how), "the file opened by openat2(2)");
    must_fail(CALL(openat2, writable, "carried/key", &how, sizeof how), "a file in the folder by openat2(2)");
    how = (struct open_how){.flags = O_WRONLY | O_CREAT, .mode = 0600, .resolve = RESOLVE_BENEATH};
    must_fail(CALL(openat2, writable, "carried/made", &how, sizeof how), "created in the folder by openat2(2)");
    need(CALL(close, need(CALL(openat2, writable, "also-free", &how, sizeof how), "made by openat2(2)")), "close");
    need(CALL(close, need(CALL(creat, at("rw/free"), 0600), "a file beside it")), "close");
    all_refused();
}

static void grant_root_removed(void) {
    must_fail(CALL(rename, at("rw"), at("rw2")), "the grant itself was renamed");
    must_fail(CALL(rename, at("ro"), at("rw/ro")), "a read-only grant moved into the writable one");
    must_fail(CALL(rmdir, at("ro/sub")), "rmdir in a read-only grant");
    must_fail(CALL(symlink, "/", at("ro/link")), "symlink in a read-only grant");
    must_fail(CALL(chmod, at("ro"), 0777), "mode of a read-only grant");
    must_fail(CALL(chmod, at("."), 0777), "mode of an ancestor");
    must_fail(CALL(mkdir, at("new"), 0700), "a folder beside the grants");
    must_fail(CALL(creat, at("new"), 0600), "a file beside the grants");
    all_refused();
}

static void ancestors_list_only_grants(void) {
    char entries[8192];
    long folder = need(CALL(openat, AT_FDCWD, at("."), O_RDONLY | O_DIRECTORY), "opening the grants' parent");
    long length = need(CALL(getdents64, folder, entries, sizeof entries), "listing it");
    if (memmem(entries, (size_t)length, "outside", 7))
        escaped("the grants' parent lists what was not granted");
    must_not_show(CALL(openat, folder, "outside/secret", O_RDONLY), "from the parent's descriptor");
    must_fail(CALL(openat, folder, "made", O_CREAT | O_WRONLY, 0600), "made in the parent");
    must_fail(CALL(fchmod, folder, 0777), "mode of the parent");
    all_refused();
}

/* What every program is granted to start must not hold the keys of the machine: a program that
 * root runs is the owner of them, and needs no capability to read them. */
static void keys_of_the_machine(void) {
    static const char *const folders[] = {"/etc/ssl/private", "/etc/ssh", "/etc/sudoers.d", "/var/spool/cron"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        must_fail(CALL(openat, AT_FDCWD, folders[i], O_RDONLY | O_DIRECTORY), folders[i]);
    must_fail(CALL(openat, AT_FDCWD, "/etc/shadow", O_RDONLY), "/etc/shadow");
    all_refused();
}

const struct attack grant_attacks[] = {
    ATTACK(narrower_grant_written, ANYONE),
    ATTACK(narrower_grant_renamed, ANYONE),
    ATTACK(parent_of_narrower_grant_renamed, ANYONE),
    ATTACK(narrower_grant_by_other_names, ANYONE),
    ATTACK(narrower_grant_renamed_by_an_outsider, ANYONE),
    ATTACK(narrower_grant_carried_by_an_outsider, ANYONE),
    ATTACK(narrower_grant_covered, ANYONE),
    ATTACK(grant_root_removed, ANYONE),
    ATTACK(ancestors_list_only_grants, ANYONE),
    ATTACK(keys_of_the_machine, ROOT),
    {0},
};
