/* Arguments rewritten between the check and the use, and arguments that are no memory.
 *
 * A supervisor that reads a path, judges it and lets the kernel read it again is fooled by a
 * thread that changes the bytes in between; seccomp_unotify(2) warns of exactly this, and
 * several container tools answered mount and mknod that way. The other half: pointers at which
 * a supervisor would stumble, after which it must go on serving.
 */
#include "attack.h"
#include <linux/openat2.h>

enum { TWO = 2 };

static char shifting[512];
static char good[512], bad[512];
static struct open_how how;

static void flip(void) {
    for (;;) {
        memcpy(shifting, bad, sizeof bad);
        BARRIER();
        memcpy(shifting, good, sizeof good);
        BARRIER();
    }
}

static void between(const char *allowed, const char *forbidden) {
    snprintf(good, sizeof good, "%s", at(allowed));
    snprintf(bad, sizeof bad, "%s", at(forbidden));
    memcpy(shifting, good, sizeof good);
    beside(flip);
}

static void rewrite_openat(void) {
    between("rw/own", "outside/secret");
    while (racing()) {
        must_not_show(CALL(openat, AT_FDCWD, shifting, O_RDONLY), "openat");
        must_not_show(CALL(open, shifting, O_RDWR), "open");
    }
    all_refused();
}

static void flip_how(void) {
    for (;;) {
        how = (struct open_how){.flags = O_RDONLY};
        BARRIER();
        how = (struct open_how){.flags = O_RDWR, .resolve = RESOLVE_NO_SYMLINKS};
        BARRIER();
    }
}

static void rewrite_open_how(void) {
    between("ro/public", "outside/secret");
    beside(flip_how);
    while (racing()) {
        long file = CALL(openat2, AT_FDCWD, shifting, &how, sizeof how);
        if (file >= 0 && (CALL(fcntl, file, F_GETFL) & O_ACCMODE) != O_RDONLY)
            escaped("a read-only file is open for writing");
        must_not_show(file, "openat2");
    }
    all_refused();
}

/* Working folders are checked and then changed by the kernel: the race can be won, and what
 * counts is that nothing can be done from there. */
static void rewrite_chdir(void) {
    between("rw/deepen", "outside");
    need(CALL(mkdir, at("rw/deepen"), 0700), "mkdir");
    own_file("rw/deepen/secret", "harmless\n");
    while (racing()) {
        CALL(chdir, shifting);
        must_not_show(CALL(openat, AT_FDCWD, "secret", O_RDONLY), "read from a working folder outside");
        must_fail(CALL(openat, AT_FDCWD, "loose", O_WRONLY), "written from a working folder outside");
        must_fail(CALL(mkdir, "empty/made", 0700), "made from a working folder outside");
        must_fail(CALL(truncate, "loose", 0L), "truncated from a working folder outside");
    }
    all_refused();
}

static void rewrite_rename(void) {
    between("rw/mine", "outside/loose");
    while (racing()) {
        CALL(close, CALL(openat, AT_FDCWD, at("rw/mine"), O_CREAT | O_WRONLY, 0600));
        CALL(link, shifting, at("rw/got"));
        CALL(unlink, at("rw/got"));
        CALL(chmod, shifting, 0777);
        CALL(truncate, shifting, 0L);
        CALL(setxattr, shifting, "user.mark", "x", 1L, 0);
        CALL(rename, shifting, at("rw/moved"));
        CALL(unlink, shifting);
    }
    long still = CALL(openat, AT_FDCWD, at("rw/moved"), O_RDONLY);
    char bytes[64] = "";
    if (still >= 0 && CALL(read, still, bytes, sizeof bytes) > 0)
        escaped("an outsider's file was fetched");
    if (CALL(access, at("outside/secret"), F_OK) == 0 && CALL(access, at("outside/loose"), F_OK) < 0)
        escaped("an outsider's file is gone");
    all_refused();
}

/* A path that ends where the mapping ends, without its NUL. */
static void path_without_end(void) {
    char *pages = mmap(NULL, TWO * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    const char *secret = at("outside/secret");
    size_t length = strlen(secret);
    for (size_t cut = 1; cut <= length; cut++) {
        memcpy(pages + 4096 - cut, secret, cut);
        must_not_show(CALL(openat, AT_FDCWD, pages + 4096 - cut, O_RDONLY), "a path without an end");
    }
    memset(pages, 'a', 4096);
    must_fail(CALL(openat, AT_FDCWD, pages, O_RDONLY), "4096 bytes without an end");
    must_fail(CALL(mkdir, pages, 0700), "4096 bytes without an end");
    need(CALL(openat, AT_FDCWD, at("rw/own"), O_RDONLY), "the supervisor still serves");
    must_not_show(CALL(openat, AT_FDCWD, secret, O_RDONLY), "after that");
    all_refused();
}

static void pointers_into_nothing(void) {
    static const int prot[] = {PROT_NONE, PROT_WRITE};
    long file = need(CALL(openat, AT_FDCWD, at("rw/short"), O_CREAT | O_RDWR, 0600), "a file");
    char *beyond = mmap(NULL, 4096, PROT_READ, MAP_SHARED, (int)file, 0);
    long bad_pointers[] = {1, 4095, -1, -4096, (long)0x7ffffffff000, (long)0x8000000000000000, (long)0xffffffff81000000,
                           (long)beyond, (long)mmap(NULL, 4096, prot[0], MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
    for (size_t i = 0; i < sizeof bad_pointers / sizeof *bad_pointers; i++) {
        long p = bad_pointers[i];
        must_fail(CALL(openat, AT_FDCWD, p, O_RDONLY), "openat");
        must_fail(CALL(openat2, AT_FDCWD, at("rw/own"), p, 24L), "openat2");
        must_fail(CALL(stat, at("rw/own"), p), "stat into nothing");
        must_fail(CALL(rename, at("rw/own"), p), "rename");
        must_fail(CALL(execve, p, p, p), "execve");
        must_fail(CALL(connect, 0, p, 16L), "connect");
        must_fail(CALL(sendmsg, 0, p, 0), "sendmsg");
        must_fail(CALL(getcwd, p, 4096L), "getcwd");
        must_fail(CALL(setxattr, at("rw/own"), "user.x", p, 16L, 0), "setxattr");
    }
    need(CALL(openat, AT_FDCWD, at("rw/own"), O_RDONLY), "the supervisor still serves");
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "after that");
    all_refused();
}

/* Sizes that a supervisor might allocate or trust. */
static void enormous_lengths(void) {
    char bytes[64] = "";
    must_fail(CALL(setxattr, at("rw/own"), "user.x", bytes, -1L, 0), "setxattr of 2^64 bytes");
    must_fail(CALL(openat2, AT_FDCWD, at("rw/own"), bytes, -1L), "openat2 of 2^64 bytes");
    CALL(getxattr, at("rw/own"), "user.x", bytes, 0x7fffffffffffL);
    CALL(readlink, at("rw/planted"), bytes, 0x7fffffffL);
    CALL(getcwd, bytes, 0x7fffffffffffL);
    CALL(sendto, 0, bytes, 0x7fffffffffffL, 0, bytes, 0x7fffffffL);
    CALL(connect, 0, bytes, 0xffffffffL);
    CALL(bind, 0, bytes, 0xffffffffL);
    CALL(sendmmsg, 0, bytes, 0xffffffffL, 0);
    need(CALL(openat, AT_FDCWD, at("rw/own"), O_RDONLY), "the supervisor still serves");
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "after that");
    all_refused();
}

/* A process that its supervisor may not read: it must be refused, not believed. */
static void unreadable_memory(void) {
    CALL(prctl, 4 /* PR_SET_DUMPABLE */, 0L, 0L, 0L, 0L);
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "not dumpable");
    must_fail(CALL(openat, AT_FDCWD, at("ro/public"), O_WRONLY), "not dumpable, for writing");
    must_fail(CALL(mkdir, at("outside/made"), 0700), "not dumpable, mkdir");
    all_refused();
}

const struct attack rewrite_attacks[] = {
    ATTACK(rewrite_openat, ANYONE),
    ATTACK(rewrite_open_how, ANYONE),
    ATTACK(rewrite_chdir, ANYONE),
    ATTACK(rewrite_rename, ANYONE),
    ATTACK(path_without_end, ANYONE),
    ATTACK(pointers_into_nothing, ANYONE),
    ATTACK(enormous_lengths, ANYONE),
    ATTACK(unreadable_memory, ANYONE),
    {0},
};
