/* Arguments in memory that two processes share, rewritten between the check and the use.
 *
 * What only the calling process can do for itself (a descriptor by path only) the kernel does
 * after the supervisor has judged it, if the process has one thread: nobody beside it then
 * rewrites the path, but a process that shares the memory can.
 */
#include "attack.h"
#include <linux/openat2.h>
#include <sys/prctl.h>

static struct page {
    char path[512];
    struct open_how how;
} *page;

static struct open_how by_path = {.flags = O_PATH | O_CLOEXEC};
static struct open_how other;
static char good[512], bad[512];

/* Runs `work` in a process beside this one until this one ends. */
static void apart(void (*work)(void)) {
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    need(page == MAP_FAILED ? -ENOMEM : 0, "a page for both");
    memcpy(page->path, good, sizeof good);
    page->how = by_path;
    pid_t child = fork();
    need(child < 0 ? -errno : 0, "a process beside");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work();
    }
}

static void flip_how(void) {
    for (;;) {
        page->how = other;
        BARRIER();
        page->how = by_path;
        BARRIER();
    }
}

/* A pipe's end gives its direction and no more, by whatever name it is opened anew. */
static void shared_open_how(void) {
    int pair[2];
    need(CALL(pipe2, pair, O_CLOEXEC), "a pipe");
    CALL(close, pair[0]);
    snprintf(good, sizeof good, "/proc/self/fd/%d", pair[1]);
    other.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
    apart(flip_how);
    while (racing()) {
        long file = CALL(openat2, AT_FDCWD, page->path, &page->how, sizeof page->how);
        long flags = CALL(fcntl, file, F_GETFL);
        must_fail(flags < 0 || flags & O_PATH ? -EACCES : 0, "a pipe's writer reads it");
        CALL(close, file);
    }
    all_refused();
}

static void flip_path(void) {
    for (;;) {
        memcpy(page->path, bad, sizeof bad);
        BARRIER();
        memcpy(page->path, good, sizeof good);
        BARRIER();
    }
}

/* The race for a descriptor by path only can be won; nothing but the file's status may come of
 * it: no attribute, no watch, no content. */
static void shared_path(const char *allowed, const char *forbidden) {
    snprintf(good, sizeof good, "%s", at(allowed));
    snprintf(bad, sizeof bad, "%s", at(forbidden));
    apart(flip_path);
    /* Where the supervisor cannot add watches (docs/sealed.md, In containers) nobody has any. */
    long watch = CALL(inotify_init1, O_NONBLOCK);
    need(watch == -ENOSYS ? 0 : watch, "inotify");
    struct stat own, got;
    need(CALL(stat, good, &own), "its own");
    while (racing()) {
        char name[64], word[64] = "";
        long file = CALL(openat, AT_FDCWD, page->path, O_PATH);
        if (CALL(fstat, file, &got) == 0 && got.st_ino != own.st_ino) {
            snprintf(name, sizeof name, "/proc/self/fd/%ld", file);
            must_fail(CALL(getxattr, name, "user.word", word, sizeof word), "its attribute");
            must_fail(CALL(listxattr, name, word, sizeof word), "its attributes' names");
            must_fail(CALL(inotify_add_watch, watch, name, 0xfffL), "a watch on it");
            must_not_show(CALL(openat, AT_FDCWD, name, O_RDONLY), "its content");
            must_fail(CALL(openat, file, ".", O_RDONLY | O_DIRECTORY), "its names");
        }
        CALL(close, file);
    }
    all_refused();
}

static void shared_path_to_file(void) { shared_path("rw/own", "outside/secret"); }

static void shared_path_to_folder(void) { shared_path("rw", "outside"); }

const struct attack shared_attacks[] = {
    ATTACK(shared_open_how, ANYONE),
    ATTACK(shared_path_to_file, ANYONE),
    ATTACK(shared_path_to_folder, ANYONE),
    {0},
};
