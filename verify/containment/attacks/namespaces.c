/* Namespaces, mounts, roots, identities: rights that a sealed program must not gain.
 *
 * An unprivileged user namespace is the way into most of the kernel's attack surface of the
 * last years (CVE-2022-0185, CVE-2023-32233, CVE-2023-0386 and others begin with one).
 */
#include "attack.h"
#include <linux/mount.h>
#include <linux/sched.h>
#include <sys/mount.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static const struct { long flag; const char *name; } kinds[] = {
    {CLONE_NEWUSER, "user"}, {CLONE_NEWNS, "mount"},   {CLONE_NEWPID, "pid"},       {CLONE_NEWNET, "net"},
    {CLONE_NEWIPC, "ipc"},   {CLONE_NEWUTS, "uts"},    {CLONE_NEWCGROUP, "cgroup"}, {CLONE_NEWTIME, "time"},
    {CLONE_NEWUSER | CLONE_NEWNS, "user and mount"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Each in a child: one that succeeds would change what the next try means. */
static int kind;

static void unshare_one(void) { CALL(exit_group, CALL(unshare, kinds[kind].flag) == 0 ? 1 : 0); }

static void new_namespaces(void) {
    for (kind = 0; kind < KINDS; kind++)
        must_fail(in_child(unshare_one) == 1 ? 0 : -EPERM, kinds[kind].name);
    all_refused();
}

static long reap(long child) {
    if (child == 0)
        CALL(exit_group, 0);
    if (child > 0)
        waitpid((pid_t)child, NULL, __WALL);
    return child;
}

static void clone_into_namespaces(void) {
    for (kind = 0; kind < KINDS; kind++)
        if (kinds[kind].flag != CLONE_NEWTIME) /* its bit is part of clone(2)'s exit signal */
            must_fail(reap(CALL(clone, kinds[kind].flag | SIGCHLD, 0L, 0L, 0L, 0L)), kinds[kind].name);
    must_fail(reap(CALL(clone, CLONE_NEWUSER | SIGCHLD | (1L << 40), 0L, 0L, 0L, 0L)), "user, with high bits");
    all_refused();
}

/* clone3(2) takes its flags from memory, where no filter can look. */
static void clone3_into_namespaces(void) {
    for (kind = 0; kind < KINDS; kind++) {
        struct clone_args arguments = {.flags = (uint64_t)kinds[kind].flag, .exit_signal = SIGCHLD};
        must_fail(reap(CALL(clone3, &arguments, sizeof arguments)), kinds[kind].name);
    }
    struct clone_args chosen = {.exit_signal = SIGCHLD, .set_tid = (uint64_t)(int[]){31999}, .set_tid_size = 1};
    must_fail(reap(CALL(clone3, &chosen, sizeof chosen)), "a chosen process number");
    all_refused();
}

static void join_namespaces(void) {
    static const char *const names[] = {"mnt", "pid", "net", "user", "ipc", "uts", "cgroup"};
    char path[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "/proc/%ld/ns/%s", given("VICTIM"), names[i]);
        long space = CALL(openat, AT_FDCWD, path, O_RDONLY);
        must_fail(space, path);
        must_fail(CALL(setns, space, 0), "setns");
    }
    must_fail(CALL(setns, CALL(pidfd_open, given("VICTIM"), 0), CLONE_NEWNS), "setns by pidfd");
    for (long number = 0; number < 64; number++)
        must_fail(CALL(setns, number, 0), "setns to a descriptor that lay about");
    all_refused();
}

static void mounts(void) {
    must_fail(CALL(mount, at("outside"), at("rw/spot"), 0L, MS_BIND, 0L), "a bind mount");
    must_fail(CALL(mount, "none", at("rw/spot"), "tmpfs", 0L, 0L), "a tmpfs");
    must_fail(CALL(mount, "none", at("rw/spot"), "proc", 0L, 0L), "a fresh /proc");
    must_fail(CALL(mount, 0L, at("ro"), 0L, MS_REMOUNT | MS_BIND, 0L), "a remount");
    must_be_denied(CALL(umount2, "/proc", MNT_EXPIRE), "umount");
    must_fail(CALL(open_tree, AT_FDCWD, at("outside"), OPEN_TREE_CLONE), "open_tree of outside");
    must_fail(CALL(open_tree, AT_FDCWD, at("outside"), 0), "open_tree without a clone");
    must_fail(CALL(fsopen, "tmpfs", 0), "fsopen");
    must_fail(CALL(fspick, AT_FDCWD, at("ro"), 0), "fspick");
    must_be_denied(CALL(move_mount, -1, at("outside"), -1, at("rw/spot"), 0), "move_mount");
    must_be_denied(CALL(fsmount, 0, 0, 0), "fsmount");
    must_be_denied(CALL(fsconfig, -1, 99, 0L, 0L, 0), "fsconfig");
    struct mount_attr attributes = {.attr_clr = MOUNT_ATTR_RDONLY};
    must_fail(CALL(mount_setattr, AT_FDCWD, at("ro"), 0, &attributes, sizeof attributes), "mount_setattr");
    all_refused();
}

static void mount_lists(void) {
    struct { uint32_t size, spare; uint64_t mount, param, more; } wanted = {24, 0, 0xffffffffffffffff, 0, 0};
    uint64_t found[8];
    must_fail(raw(458, (const long[6]){(long)&wanted, (long)found, 8, 0}), "listmount");
    wanted.param = 2;
    must_be_denied(raw(457, (const long[6]){(long)&wanted, (long)found, sizeof found, 0}), "statmount");
    all_refused();
}

static void change_root(void) {
    must_be_denied(CALL(pivot_root, at("rw"), at("rw")), "pivot_root");
    long folder = CALL(openat, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY);
    must_fail(CALL(chroot, at("rw")), "chroot");
    /* the classic way out of a chroot: a folder opened before, and ".." from there */
    CALL(fchdir, folder);
    for (int i = 0; i < 20; i++)
        CALL(chdir, "..");
    must_fail(CALL(chroot, "."), "chroot back");
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "after the change of root");
    all_refused();
}

static void become_somebody(void) {
    uint32_t header[2] = {0x20080522, 0}, all[6] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u};
    gid_t groups[1] = {0};
    must_fail(CALL(capset, header, all), "all capabilities");
    must_fail(CALL(setgroups, 1L, groups), "the group of root");
    must_fail(CALL(setresuid, 4711L, 4711L, 4711L), "another user");
    must_fail(CALL(setresgid, 4711L, 4711L, 4711L), "another group");
    must_fail(CALL(prctl, 47L /* PR_CAP_AMBIENT */, 2L, 0L, 0L, 0L), "an ambient capability");
    must_be_denied(CALL(prctl, 28L /* PR_SET_SECUREBITS */, 0x2fL), "securebits");
    CALL(setfsuid, 4711L);
    must_fail(CALL(setfsuid, 4711L) == 4711 ? 0 : -EPERM, "another user for files");
    all_refused();
}

/* Capabilities of root that outlive the start would undo everything else. */
static void capabilities_left(void) {
    uint32_t header[2] = {0x20080522, 0}, sets[6] = {0};
    need(CALL(capget, header, sets), "capget");
    if (sets[0] | sets[1] | sets[3] | sets[4])
        escaped("effective or permitted capabilities: %x %x", sets[0], sets[1]);
    must_fail(sets[2] | sets[5] ? 0 : -EPERM, "inheritable capabilities");
    must_fail(CALL(prctl, 39L /* PR_GET_NO_NEW_PRIVS */, 0L, 0L, 0L, 0L) == 1 ? -EPERM : 0, "new privileges may come");
    all_refused();
}

static void process_switches(void) {
    long map[16] = {0};
    must_fail(CALL(prctl, 35L /* PR_SET_MM */, 13L /* EXE_FILE */, 0L, 0L, 0L), "PR_SET_MM_EXE_FILE");
    must_fail(CALL(prctl, 35L, 14L /* MAP */, map, sizeof map, 0L), "PR_SET_MM_MAP");
    must_fail(CALL(prctl, 0x59616d61L /* PR_SET_PTRACER */, -1L, 0L, 0L, 0L), "PR_SET_PTRACER");
    must_fail(CALL(personality, 0x0400000L /* READ_IMPLIES_EXEC */), "all that is read may be run");
    must_fail(CALL(personality, 0x0040000L /* ADDR_NO_RANDOMIZE */), "addresses made known");
    all_refused();
}

const struct attack namespace_attacks[] = {
    ATTACK(new_namespaces, ANYONE),
    ATTACK(clone_into_namespaces, ANYONE),
    ATTACK(clone3_into_namespaces, ANYONE),
    ATTACK(join_namespaces, ANYONE),
    ATTACK(mounts, ROOT),
    ATTACK(mount_lists, ANYONE),
    ATTACK(change_root, ROOT),
    ATTACK(become_somebody, ROOT),
    ATTACK(capabilities_left, ANYONE),
    ATTACK(process_switches, ANYONE),
    {0},
};
