/* Users and groups: ids that the policy does not name, the way back to root, and the files of others.
 *
 * Root's program has the right to become one user here (`--user`), WORKER_USER and WORKER_GROUP; an
 * ordinary user's has none.
 */
#include "attack.h"
#include <linux/openat2.h>
#include <sys/mount.h>

enum { STRANGER = 4711, CAP_SETUID = 7 };
static const uint32_t header[2] = {0x20080522, 0};

static bool is_root(void) { return CALL(geteuid) == 0; }

static void become_worker(void) {
    gid_t groups[1] = {(gid_t)given("WORKER_GROUP")};
    need(CALL(setgroups, 1L, groups), "the worker's groups");
    need(CALL(setresgid, groups[0], groups[0], groups[0]), "the worker's group");
    need(CALL(setresuid, given("WORKER_USER"), given("WORKER_USER"), given("WORKER_USER")), "the worker's user");
}

static void must_stay(const char *what, long before, long now) { must_fail(now == before ? -EPERM : 0, what); }

static void ids_not_named(void) {
    static const long strangers[] = {STRANGER, 1, 65533, 0xfffffffeL, STRANGER | (1L << 32)};
    gid_t groups[2] = {0, STRANGER};
    must_fail(CALL(setgroups, 2L, groups), "setgroups");
    must_fail(CALL(setgroups, 1L, groups + 1), "setgroups to one");
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        long id = strangers[i];
        must_fail(CALL(setgid, id), "setgid");
        must_fail(CALL(setregid, -1L, id), "setregid");
        must_fail(CALL(setresgid, -1L, -1L, id), "setresgid");
        CALL(setfsgid, id);
        must_fail(CALL(setfsgid, -1L) == (long)(gid_t)id ? 0 : -EPERM, "setfsgid");
        must_fail(CALL(setresuid, -1L, -1L, id), "setresuid, saved");
        must_fail(CALL(setresuid, id, -1L, -1L), "setresuid, real");
        CALL(setfsuid, id);
        must_fail(CALL(setfsuid, -1L) == (long)(uid_t)id ? 0 : -EPERM, "setfsuid");
        must_fail(CALL(setreuid, -1L, id), "setreuid");
        must_fail(CALL(setuid, id), "setuid");
    }
    all_refused();
}

/* The list lies in memory: another thread makes it another one between judgement and use. */
static volatile gid_t swapped[1];

static void swap_groups(void) {
    for (;;) {
        swapped[0] = STRANGER;
        BARRIER();
        swapped[0] = (gid_t)given("WORKER_GROUP");
        BARRIER();
    }
}

static void ids_groups_swapped(void) {
    gid_t found[8];
    beside(swap_groups);
    while (racing()) {
        CALL(setgroups, 1L, swapped);
        long count = CALL(getgroups, 8L, found);
        for (long i = 0; i < count; i++)
            must_fail(found[i] == STRANGER ? 0 : -EPERM, "a group that was swapped in");
    }
    must_fail(-EPERM, "the race");
    all_refused();
}

static void try_back(void) {
    gid_t groups[1] = {0};
    uint32_t wanted[6] = {1u << CAP_SETUID, 1u << CAP_SETUID, 0};
    must_fail(CALL(capset, header, wanted), "the right to change ids");
    must_fail(CALL(prctl, 47L /* PR_CAP_AMBIENT */, 2L, (long)CAP_SETUID, 0L, 0L), "an ambient right");
    must_fail(CALL(prctl, 28L /* PR_SET_SECUREBITS */, 0L), "securebits");
    must_fail(CALL(setgroups, 1L, groups), "root's group");
    must_fail(CALL(setgid, 0L), "setgid");
    must_fail(CALL(setresgid, 0L, 0L, 0L), "setresgid");
    CALL(setfsuid, 0L);
    must_stay("setfsuid", CALL(geteuid), CALL(setfsuid, -1L));
    must_fail(CALL(setreuid, 0L, 0L), "setreuid");
    must_fail(CALL(setresuid, -1L, 0L, -1L), "setresuid");
    must_fail(CALL(setuid, 0L), "setuid");
}

/* Rights that are kept over the change would lead back (PR_SET_KEEPCAPS, which works unsealed). */
static void ids_back_to_root(void) {
    if (is_root()) {
        CALL(prctl, 8L /* PR_SET_KEEPCAPS */, 1L, 0L, 0L, 0L);
        become_worker();
    }
    try_back();
    all_refused();
}

static void try_namespaces(void) {
    must_fail(CALL(unshare, CLONE_NEWUSER), "a user namespace");
    long map = CALL(openat, AT_FDCWD, "/proc/self/uid_map", O_WRONLY);
    must_fail(map, "the map of users for writing");
    must_fail(CALL(write, map, "0 0 4294967295", 14L), "every user mapped");
    long child = CALL(clone, CLONE_NEWUSER | SIGCHLD, 0L, 0L, 0L, 0L);
    if (child == 0)
        CALL(exit_group, 0);
    must_fail(child, "a process in a user namespace");
    all_refused();
}

static void ids_namespaces_of_root(void) { try_namespaces(); }

static void ids_namespaces_of_a_worker(void) {
    if (is_root())
        become_worker();
    try_namespaces();
}

/* What root alone may read and change, below a grant for writing. The parent holds it open. */
static char held[64];

static void try_files(void) {
    const char *secret = at("kept/root-only"), *inside = at("kept/closed/inside");
    must_not_show(CALL(openat, AT_FDCWD, secret, O_RDONLY), "by its name");
    must_fail(CALL(openat, AT_FDCWD, secret, O_WRONLY | O_APPEND), "for writing");
    must_not_show(CALL(openat, AT_FDCWD, inside, O_RDONLY), "in a closed folder");
    must_not_show(CALL(openat, AT_FDCWD, at("ro/../kept/closed/inside"), O_RDONLY), "by a way up");
    must_not_show(CALL(openat, AT_FDCWD, held, O_RDONLY), "the parent's descriptor");
    long folder = CALL(openat, AT_FDCWD, at("kept"), O_RDONLY | O_DIRECTORY);
    struct open_how how = {.flags = O_RDONLY, .resolve = RESOLVE_BENEATH};
    must_not_show(CALL(openat2, folder, "root-only", &how, sizeof how), "openat2");
    long seen = CALL(openat, AT_FDCWD, secret, O_PATH);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%ld", seen);
    must_not_show(CALL(openat, AT_FDCWD, path, O_RDONLY), "opened anew by its descriptor");
    must_fail(CALL(openat, AT_FDCWD, at("kept/closed"), O_RDONLY | O_DIRECTORY), "the closed folder's list");
    must_fail(CALL(chdir, at("kept/closed")), "the closed folder entered");
    must_fail(CALL(link, secret, at("data/open/link")), "linked");
    must_fail(CALL(rename, secret, at("data/open/moved")), "moved");
    must_fail(CALL(unlink, secret), "removed");
    must_fail(CALL(chmod, secret, 0666), "its mode");
    must_fail(CALL(chown, secret, CALL(geteuid), -1L), "its owner");
    must_fail(CALL(truncate, secret, 0L), "emptied");
    must_fail(CALL(setxattr, secret, "user.word", "x", 1L, 0), "an attribute");
    must_fail(CALL(setxattr, secret, "security.word", "x", 1L, 0), "an attribute of the system's");
    must_fail(CALL(mknod, at("kept/new"), S_IFREG | 0666, 0L), "made in root's folder");
    must_fail(CALL(openat, AT_FDCWD, at("kept/new"), O_CREAT | O_WRONLY, 0666), "made by open");
    long made = CALL(openat, AT_FDCWD, at("data/open/made"), O_CREAT | O_EXCL | O_WRONLY, 04755);
    struct stat status = {0};
    if (made >= 0 && CALL(fstat, made, &status) == 0)
        must_stay("a file that is root's", (long)status.st_uid, CALL(geteuid));
    CALL(unlink, at("data/open/made"));
    all_refused();
}

static void ids_files_of_root(void) {
    if (!is_root()) {
        try_back();
        all_refused();
    }
    static int ready[2], status;
    need(-pipe(ready), "a pipe");
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        long number = 0;
        become_worker();
        need(CALL(read, ready[0], &number, sizeof number), "the parent's number");
        snprintf(held, sizeof held, "/proc/%d/fd/%ld", parent, number);
        try_files();
    }
    long number = need(CALL(openat, AT_FDCWD, at("kept/root-only"), O_RDONLY), "root's own file");
    CALL(write, ready[1], &number, sizeof number);
    waitpid(child, &status, 0);
    CALL(exit_group, WEXITSTATUS(status));
}

const struct attack identity_attacks[] = {
    ATTACK(ids_not_named, ROOT),
    ATTACK(ids_groups_swapped, ROOT),
    ATTACK(ids_back_to_root, ROOT),
    ATTACK(ids_namespaces_of_root, ANYONE),
    ATTACK(ids_namespaces_of_a_worker, ANYONE),
    /* The kernel judges plain workers by their own ids; here the supervisor opens for them. */
    ATTACK(ids_files_of_root, NEVER),
    {0},
};
