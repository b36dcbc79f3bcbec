/* Grants inside grants: what is read-only below what is writable.
 *
 * `data` is granted for writing, `data/sub/keys` inside it for reading only. Nothing that
 * happens to the names above the inner grant may turn it into an ordinary writable folder.
 */
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
    ATTACK(narrower_grant_covered, ANYONE),
    ATTACK(grant_root_removed, ANYONE),
    ATTACK(ancestors_list_only_grants, ANYONE),
    ATTACK(keys_of_the_machine, ROOT),
    {0},
};
