/* Signals and scheduling of processes outside: directly, by descriptor, by the kernel's hand. */
#include "attack.h"
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

static void signal_victim(void) {
    long victim = given("VICTIM");
    siginfo_t info = {.si_code = SI_QUEUE};
    must_fail(CALL(kill, victim, 0), "kill with no signal tells that it is there");
    must_fail(CALL(kill, victim, SIGUSR1), "kill");
    must_fail(CALL(tkill, victim, SIGUSR1), "tkill");
    must_fail(CALL(tgkill, victim, victim, SIGUSR1), "tgkill");
    must_fail(CALL(rt_sigqueueinfo, victim, SIGUSR1, &info), "rt_sigqueueinfo");
    must_fail(CALL(rt_tgsigqueueinfo, victim, victim, SIGUSR1, &info), "rt_tgsigqueueinfo");
    must_fail(CALL(kill, victim | (1L << 32), SIGUSR1), "kill with high bits");
    must_fail(CALL(kill, victim, SIGKILL), "SIGKILL");
    all_refused();
}

/* All of the attacker's own may be reached; who else was is the runner's to see. */
static void signal_everybody(void) {
    signal(SIGUSR2, SIG_IGN);
    CALL(kill, -1L, SIGUSR2);
    CALL(kill, 0L, SIGUSR2);
    CALL(kill, -given("VICTIM"), SIGUSR2);
    CALL(kill, -(long)getpgrp(), SIGUSR2);
    usleep(20000);
    all_refused();
}

static void signal_parent(void) {
    long parent = CALL(getppid);
    siginfo_t info = {.si_code = SI_QUEUE};
    must_fail(CALL(kill, parent, SIGUSR1), "the parent");
    must_fail(CALL(tgkill, parent, parent, SIGUSR1), "the parent's first thread");
    for (long thread = parent; thread < parent + 24; thread++)
        if (thread != CALL(gettid))
            must_fail(CALL(tgkill, parent, thread, SIGSTOP), "one of the parent's threads");
    must_fail(CALL(rt_sigqueueinfo, parent, SIGUSR1, &info), "the parent by rt_sigqueueinfo");
    must_fail(CALL(kill, parent, SIGSTOP), "the parent stopped");
    all_refused();
}

static void signal_by_pidfd(void) {
    long victim = given("VICTIM"), folder;
    must_fail(CALL(pidfd_open, victim, 0), "pidfd_open");
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld", victim);
    folder = CALL(openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
    must_fail(folder < 0 ? folder : CALL(pidfd_send_signal, folder, SIGUSR1, 0L, 0), "by a folder of /proc");
    for (long number = 0; number < 64; number++)
        must_fail(CALL(pidfd_send_signal, number, SIGUSR1, 0L, 0), "by a descriptor that lay about");
    all_refused();
}

/* The kernel sends signals for the owner of a descriptor. */
static void signal_by_owner(void) {
    int pair[2];
    struct { int type, process; } owner = {1 /* F_OWNER_PID */, (int)given("VICTIM")};
    need(CALL(socketpair, AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
    for (int way = 0; way < 4; way++) {
        if (way == 0)
            CALL(fcntl, pair[0], F_SETOWN, owner.process);
        else if (way == 1)
            CALL(fcntl, pair[0], 15L /* F_SETOWN_EX */, &owner);
        else
            CALL(ioctl, pair[0], way == 2 ? 0x8901L /* FIOSETOWN */ : 0x8902L /* SIOCSPGRP */, &owner.process);
        CALL(fcntl, pair[0], 10L /* F_SETSIG */, SIGUSR1);
        CALL(fcntl, pair[0], F_SETFL, O_ASYNC);
        CALL(write, pair[1], "x", 1L);
    }
    /* an owner may be named; the victim's count of signals tells whether it heard of it */
    usleep(20000);
    all_refused();
}

/* A child's end sends a signal of its maker's choice to its parent; CLONE_PARENT makes that the
 * parent's parent, and a parent that ends leaves it to the supervisor. */
static void signal_by_exit(void) {
    for (int i = 0; i < 20; i++) {
        if (CALL(clone, 0x8000L /* CLONE_PARENT */ | SIGUSR1, 0L, 0L, 0L, 0L) == 0)
            CALL(exit_group, 0L);
        if (CALL(clone, SIGCHLD, 0L, 0L, 0L, 0L) == 0) {
            if (CALL(clone, SIGKILL, 0L, 0L, 0L, 0L) == 0)
                usleep(2000);
            CALL(exit_group, 0L);
        }
    }
    usleep(20000);
    must_fail(CALL(openat, AT_FDCWD, at("ro/note"), O_WRONLY), "a read-only file, after that");
    all_refused();
}

static void renice_victim(void) {
    long victim = given("VICTIM");
    struct rlimit64 { uint64_t soft, hard; } limit = {16, 16};
    struct sched_param parameter = {0};
    struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t rest[7]; } attributes = {48, SCHED_BATCH, 0, 7, {0}};
    uint64_t cores = 1;
    must_fail(CALL(prlimit64, victim, RLIMIT_CORE, 0L, &limit), "its limits read");
    must_fail(CALL(prlimit64, victim, RLIMIT_NOFILE, &limit, 0L), "its limits");
    must_fail(CALL(setpriority, PRIO_PROCESS, victim, 9), "its niceness");
    must_fail(CALL(setpriority, PRIO_PGRP, victim, 9), "its group's niceness");
    must_fail(CALL(setpriority, PRIO_USER, getuid(), 9), "everybody's niceness");
    must_fail(CALL(sched_setaffinity, victim, 8L, &cores), "its cores");
    must_fail(CALL(sched_setscheduler, victim, SCHED_IDLE, &parameter), "its scheduler");
    must_fail(CALL(sched_setattr, victim, &attributes, 0L), "its scheduling attributes");
    must_fail(CALL(ioprio_set, 1L, victim, 3L << 13), "its I/O class");
    must_fail(CALL(ioprio_set, 3L, getuid(), 3L << 13), "everybody's I/O class");
    must_fail(CALL(setpgid, victim, CALL(getpid)), "its process group");
    all_refused();
}

static void renice_parent(void) {
    long parent = CALL(getppid);
    struct rlimit64 { uint64_t soft, hard; } limit = {16, 16};
    uint64_t cores = 1;
    must_fail(CALL(prlimit64, parent, RLIMIT_NOFILE, &limit, 0L), "its limits");
    must_fail(CALL(setpriority, PRIO_PROCESS, parent, 9), "its niceness");
    must_fail(CALL(sched_setaffinity, parent, 8L, &cores), "its cores");
    must_fail(CALL(ioprio_set, 1L, parent, 3L << 13), "its I/O class");
    all_refused();
}

static void memory_of_victim_moved(void) {
    long victim = given("VICTIM");
    unsigned long nodes = 1;
    void *pages[1] = {(void *)given("VICTIM_WORD")};
    int status[1], wanted[1] = {0};
    struct { void *base; size_t length; } range = {(void *)(given("VICTIM_WORD") & ~4095L), 4096};
    must_fail(CALL(migrate_pages, victim, 64L, &nodes, &nodes), "migrate_pages");
    must_fail(CALL(move_pages, victim, 1L, pages, wanted, status, 2), "move_pages");
    must_fail(CALL(process_madvise, CALL(pidfd_open, victim, 0), &range, 1L, 20L, 0), "process_madvise");
    must_fail(CALL(get_robust_list, victim, &pages[0], &range.length), "get_robust_list");
    must_fail(CALL(kcmp, victim, victim, 0, 0L, 0L), "kcmp");
    must_fail(CALL(getsid, victim), "getsid tells that it is there");
    must_fail(CALL(getpgid, victim), "getpgid tells that it is there");
    all_refused();
}

const struct attack signal_attacks[] = {
    ATTACK(signal_victim, ANYONE),
    ATTACK(signal_everybody, ANYONE),
    ATTACK(signal_parent, ANYONE),
    ATTACK(signal_by_pidfd, ANYONE),
    ATTACK(signal_by_owner, ANYONE),
    ATTACK(signal_by_exit, ANYONE),
    ATTACK(renice_victim, ANYONE),
    ATTACK(renice_parent, ANYONE),
    ATTACK(memory_of_victim_moved, ANYONE),
    {0},
};
