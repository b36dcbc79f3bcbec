/* Floods: of processes, memory, descriptors, notifications and waiting calls.
 *
 * The runner gives limits (`--processes`, `--memory`) and talks to the victim all the while:
 * a fence that holds but takes the machine with it has not held.
 */
#include "attack.h"
#include <sys/epoll.h>

static void *wait_for_ever(void *nothing) {
    for (;;)
        pause();
    return nothing;
}

static void fork_bomb(void) {
    pid_t children[400];
    int born = 0;
    while (born < 400 && (children[born] = fork()) > 0)
        born++;
    if (born < 400 && children[born] == 0)
        wait_for_ever(NULL);
    for (int i = 0; i < born; i++)
        CALL(kill, children[i], SIGKILL);
    if (born >= given("PROCESSES_MAX"))
        escaped("%d processes under a limit of %ld", born, given("PROCESSES_MAX"));
    must_fail(-EAGAIN, "one process more");
    all_refused();
}

static void thread_bomb(void) {
    int born = 0;
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    /* What the C library and preloaded libraries keep for each thread lies in it too. */
    pthread_attr_setstacksize(&attributes, 65536);
    while (born < 400 && pthread_create(&thread, &attributes, wait_for_ever, NULL) == 0)
        born++;
    if (born >= given("PROCESSES_MAX"))
        escaped("%d threads under a limit of %ld", born, given("PROCESSES_MAX"));
    must_fail(-EAGAIN, "one thread more");
    all_refused();
}

/* Many at once: each was let fork before any of the others' children was there to be counted. */
enum { BEARERS = 24, TRIES = 40 };
static volatile int *go, *alive;

static void bear(void) {
    CALL(prctl, 1L /* PR_SET_PDEATHSIG */, SIGKILL);
    while (!*go)
        CALL(sched_yield);
    for (int i = 0; i < TRIES; i++) {
        pid_t child = fork();
        if (child == 0) {
            CALL(prctl, 1L, SIGKILL);
            __atomic_add_fetch(alive, 1, __ATOMIC_SEQ_CST);
            wait_for_ever(NULL);
        }
        if (child < 0)
            usleep(300);
    }
    __atomic_add_fetch(go, 1, __ATOMIC_SEQ_CST);
    wait_for_ever(NULL);
}

static void fork_bombs_together(void) {
    int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t bearers[BEARERS];
    int born = 0;
    go = shared, alive = shared + 1;
    *alive = 1;
    for (; born < BEARERS && (bearers[born] = fork()) >= 0; born++, ++*alive)
        if (bearers[born] == 0)
            bear();
    *go = 1;
    for (int i = 0; i < 2000 && *go <= born; i++)
        usleep(5000);
    if (*alive > given("PROCESSES_MAX"))
        escaped("%d processes at once under a limit of %ld", *alive, given("PROCESSES_MAX"));
    need(*go > born ? 0 : -ETIMEDOUT, "all of them have tried");
    need(*alive > BEARERS ? 0 : -EAGAIN, "some of their children");
    must_fail(-EAGAIN, "one process more");
    all_refused();
}

static void take_memory(void) {
    long limit = given("MEMORY_MAX"), step = 8L << 20, had = 0;
    while (had < 2 * limit) {
        char *more = mmap(NULL, (size_t)step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED)
            break;
        for (long i = 0; i < step; i += 4096)
            more[i] = 1;
        had += step;
    }
    CALL(exit_group, had >= 2 * limit ? 2L : 0L);
}

/* Refused by an error or by a signal, as the kernel likes; the victim must live. */
static void memory_bomb(void) {
    must_fail(in_child(take_memory) == 2 ? 0 : -ENOMEM, "twice the memory that was granted");
    all_refused();
}

/* Every watch, waiter and pipe is the kernel's memory. */
static void descriptor_bomb(void) {
    int pair[2];
    long made = 0;
    while (made < 100000 && CALL(pipe2, pair, 0) == 0)
        made++;
    need(made > 3 ? 0 : -EMFILE, "a few pipes");
    CALL(close, 3L);
    CALL(close, 4L);
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "with a full table");
    all_refused();
}

static void ask_for_ever(void) {
    struct stat status;
    for (;;) {
        CALL(stat, at("rw/own"), &status);
        CALL(close, CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY));
        CALL(close, CALL(openat, AT_FDCWD, at("rw/own"), O_RDONLY));
    }
}

static void notification_flood(void) {
    for (int i = 0; i < 16; i++)
        beside(ask_for_ever);
    while (racing()) {
        need(CALL(close, need(CALL(openat, AT_FDCWD, at("rw/own"), O_RDONLY), "served under the flood")), "close");
        must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "under the flood");
    }
    all_refused();
}

/* Each of these would hold one thread of a simple supervisor for ever. */
static void *open_fifo(void *nothing) {
    CALL(openat, AT_FDCWD, at("rw/fifo"), O_RDONLY);
    return nothing;
}

static void waiting_opens(void) {
    need(CALL(mknod, at("rw/fifo"), S_IFIFO | 0600, 0), "a FIFO");
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    /* What the C library and preloaded libraries keep for each thread lies in it too. */
    pthread_attr_setstacksize(&attributes, 65536);
    for (int i = 0; i < 100 && pthread_create(&thread, &attributes, open_fifo, NULL) == 0; i++)
        continue;
    usleep(100000);
    for (int i = 0; i < 20; i++)
        need(CALL(close, need(CALL(openat, AT_FDCWD, at("rw/own"), O_RDONLY), "served beside them")), "close");
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "beside waiting opens");
    all_refused();
}

/* Calls interrupted and callers killed while the supervisor works for them: what it opened must
 * not go to somebody else who has the same number by then. */
static void ask_and_die(void) {
    for (int i = 0; i < 200; i++)
        CALL(openat, AT_FDCWD, at("rw/own"), O_RDWR);
}

static void callers_killed(void) {
    while (racing()) {
        pid_t child = fork();
        if (child == 0) {
            ask_and_die();
            _exit(0);
        }
        usleep(300);
        CALL(kill, child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    need(CALL(openat, AT_FDCWD, at("rw/own"), O_RDONLY), "still served");
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "after that");
    all_refused();
}

/* Disk files far beyond a memory that is limited, and as many links as there are. */
static void deep_folders(void) {
    need(CALL(chdir, at("rw")), "chdir");
    for (int i = 0; i < 600; i++)
        if (CALL(mkdir, "deeper-and-deeper-and-deeper", 0700) < 0 || CALL(chdir, "deeper-and-deeper-and-deeper") < 0)
            break;
    char path[8192];
    CALL(getcwd, path, sizeof path);
    must_not_show(CALL(openat, AT_FDCWD, "secret", O_RDONLY), "from a path longer than PATH_MAX");
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "from the depth");
    all_refused();
}

/* Not an attack of its own: what is left behind when the supervisor is killed. One process forks
 * and ends for ever, so that it never has the number that a killer has just read; others wait, in
 * sessions of their own, parents of nobody. */
static void comet(void) {
    CALL(setsid);
    for (;;) {
        long child = CALL(fork);
        if (child > 0)
            CALL(exit_group, 0L);
        if (child < 0)
            usleep(1000);
    }
}

static void linger(void) {
    char chain = 0;
    for (int i = 0; i < 30; i++) /* a chain: each the child of the one before */
        if (CALL(fork) > 0) {
            chain = 1;
            break;
        }
    if (!chain && CALL(fork) == 0)
        comet();
    CALL(prctl, 1L /* PR_SET_PDEATHSIG */, 0L);
    CALL(setsid);
    for (;;)
        CALL(write, 1, "", 0L), usleep(1000);
}

const struct attack flood_attacks[] = {
    ATTACK(fork_bomb, ANYONE),
    ATTACK(fork_bombs_together, ANYONE),
    ATTACK(thread_bomb, ANYONE),
    ATTACK(memory_bomb, ANYONE),
    ATTACK(descriptor_bomb, ANYONE),
    ATTACK(notification_flood, ANYONE),
    ATTACK(waiting_opens, ANYONE),
    ATTACK(callers_killed, ANYONE),
    ATTACK(deep_folders, ANYONE),
    {"linger", linger, NEVER}, /* outside the macro: run by a test of its own */
    {0},
};
