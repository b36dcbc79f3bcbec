/* What durable_raw_ways.c does after a flush, and how somebody else sees that.
 *
 * For each way: what both processes have before they part (make), what the parent does before the flush
 * (ready), how the child waits for what shows (watch), and what the parent does after the flush (act). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ends[2], pair[2], file, made, queue, log_file, second_log;
static pid_t child;
static const char *folder;
enum { FILLER = 20 };
static char *page;
static volatile long word;

static void fail(const char *what) {
    perror(what);
    exit(2);
}
static int check(int answer, const char *what) {
    if (answer < 0) fail(what);
    return answer;
}
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
static void nap(void) { usleep(500); }
static char *path(const char *name) {
    static char room[2][512];
    static int turn;
    turn ^= 1;
    snprintf(room[turn], 512, "%s/%s", folder, name);
    return room[turn];
}
static int open_other(int flags) { return check(open(path("other"), flags | O_CREAT, 0600), "other"); }
static long raw(long number, long a, long b, long c) {
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return answer;
}

/* A pipe and a pair of sockets, whose other ends the child has. */
static void watch_pipe(void) {
    char byte;
    check(read(ends[0], &byte, 1), "pipe");
}
static void watch_pair(void) {
    char byte;
    check(recv(pair[1], &byte, 1, 0), "pair");
}
static void act_raw_write(void) { raw(SYS_write, ends[1], (long)"!", 1); }
static void act_number_only(void) { syscall(SYS_write, ends[1], "!", 1); }
static void act_tee(void) {
    int more[2];
    check(pipe(more), "pipe");
    check(write(more[1], "!", 1), "write");
    check(tee(more[0], ends[1], 1, 0), "tee");
}
static void act_closed(void) { close(pair[0]); }
static void act_closed_by_dup(void) { check(dup2(ends[0], pair[0]), "dup2"); }
static void act_closed_by_range(void) { check(close_range(pair[0], pair[0], 0), "close_range"); }
static void act_exit_of_thread(void) { raw(SYS_exit, 0, 0, 0); }
static void act_exit_by_libc(void) { syscall(SYS_exit, 0); }

/* What one takes, the other does not find any more. */
static void ready_taken(void) { check(write(ends[1], "?", 1), "write"); }
static void watch_taken(void) {
    struct pollfd it = {ends[0], POLLIN, 0};
    check(poll(&it, 1, -1), "poll");
    while (poll(&it, 1, 0) == 1)
        nap();
}
static void act_taken(void) {
    char byte;
    check(read(ends[0], &byte, 1), "read");
}

/* Objects of the kernel that both have. */
static void make_event(void) { made = check(eventfd(0, 0), "eventfd"); }
static void watch_made(void) {
    struct pollfd it = {made, POLLIN, 0};
    check(poll(&it, 1, -1), "poll");
}
static void act_event(void) { check(eventfd_write(made, 1), "eventfd"); }
static void make_timer(void) { made = check(timerfd_create(CLOCK_MONOTONIC, 0), "timerfd"); }
static void act_timer(void) {
    struct itimerspec at = {{0, 0}, {0, 1}};
    check(timerfd_settime(made, 0, &at, 0), "timerfd");
}
static void make_set(void) {
    made = check(epoll_create1(0), "epoll");
    check(eventfd_write(queue = check(eventfd(0, 0), "eventfd"), 1), "event");
}
static void watch_set(void) {
    struct epoll_event it;
    check(epoll_wait(made, &it, 1, -1), "epoll_wait");
}
static void act_set(void) {
    struct epoll_event it = {.events = EPOLLIN};
    check(epoll_ctl(made, EPOLL_CTL_ADD, queue, &it), "epoll_ctl");
}
static void make_messages(void) { made = check(msgget(IPC_PRIVATE, 0600), "msgget"); }
static void watch_messages(void) {
    struct {
        long type;
        char text;
    } it;
    check(msgrcv(made, &it, 1, 0, 0), "msgrcv");
    msgctl(made, IPC_RMID, 0);
}
static void act_messages(void) {
    struct {
        long type;
        char text;
    } it = {1, '!'};
    check(msgsnd(made, &it, 1, 0), "msgsnd");
}
static void make_semaphore(void) { made = check(semget(IPC_PRIVATE, 1, 0600), "semget"); }
static void watch_semaphore(void) {
    struct sembuf it = {0, -1, 0};
    check(semop(made, &it, 1), "semop");
    semctl(made, 0, IPC_RMID);
}
static void act_semaphore(void) {
    struct sembuf it = {0, 1, 0};
    check(semop(made, &it, 1), "semop");
}
static void make_mqueue(void) {
    struct mq_attr is = {.mq_maxmsg = 1, .mq_msgsize = 8};
    char name[64];
    snprintf(name, sizeof name, "/durable-%d", getpid());
    made = check(mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &is), "mq_open");
    mq_unlink(name);
}
static void watch_mqueue(void) {
    char it[8];
    check(mq_receive(made, it, 8, 0), "mq_receive");
}
static void act_mqueue(void) { check(mq_send(made, "!", 1, 0), "mq_send"); }

/* Processes. */
static void make_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, 0);
}
static void watch_signal(void) {
    sigset_t set;
    int got;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigwait(&set, &got);
}
static void act_queued(void) {
    union sigval is = {0};
    check(sigqueue(child, SIGUSR1, is), "sigqueue");
}
static void act_pidfd(void) {
    int it = check(syscall(SYS_pidfd_open, child, 0), "pidfd_open");
    check(syscall(SYS_pidfd_send_signal, it, SIGUSR1, 0, 0), "pidfd_send_signal");
}
static void watch_word(void) {
    while (!word)
        nap();
}
static void act_memory(void) {
    long one = 1;
    struct iovec from = {&one, 8}, to = {(void *)&word, 8};
    check(process_vm_writev(child, &from, 1, &to, 1, 0), "process_vm_writev");
}
static void watch_limit(void) {
    struct rlimit is;
    do {
        nap();
        getrlimit(RLIMIT_NOFILE, &is);
    } while (is.rlim_cur != 77);
}
static void act_limit(void) {
    struct rlimit is = {77, 77};
    check(prlimit(child, RLIMIT_NOFILE, &is, 0), "prlimit");
}
static void watch_priority(void) {
    while (getpriority(PRIO_PROCESS, 0) != 7)
        nap();
}
static void act_priority(void) { check(setpriority(PRIO_PROCESS, child, 7), "setpriority"); }
/* A signal that would have ended the process long ago, but for the mask. */
static void make_pending(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, 0);
}
static void ready_pending(void) { kill(getpid(), SIGTERM); }
static void act_pending(void) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, 0);
}

/* Handlers that run while their thread waits for the flush. */
static void on_alarm(int number) {
    (void)number;
    if (write(ends[1], "!", 1) != 1) _exit(3);
}
static void set_handler(int flags) {
    struct sigaction is = {.sa_handler = on_alarm, .sa_flags = flags};
    sigaction(SIGALRM, &is, 0);
}
static void ready_handler(void) { set_handler(SA_RESTART); }
static void ready_handler_once(void) { set_handler(SA_RESETHAND); }
static void ready_handler_nested(void) { set_handler(SA_NODEFER); }
static void act_handler(void) { usleep(200000); }
static void alarm_soon(void) {
    struct itimerval soon = {{0, 0}, {0, 15000}};
    setitimer(ITIMER_REAL, &soon, 0);
}

/* Files. */
static void make_other(void) {
    file = open_other(O_RDWR);
    check(ftruncate(file, 8192), "ftruncate");
}
static void watch_offset(void) {
    while (lseek(file, 0, SEEK_CUR) != 77)
        nap();
}
static void act_offset(void) { lseek(file, 77, SEEK_SET); }
/* Who watches a lock begins when the other one has it. */
static void watch_record(void) {
    struct flock it = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, found = it;
    int other = open_other(O_RDWR);
    for (found.l_type = F_UNLCK; found.l_type == F_UNLCK; nap()) {
        found = it;
        check(fcntl(other, F_GETLK, &found), "lock");
    }
    check(fcntl(other, F_SETLKW, &it), "lock");
}
static void ready_record(void) {
    struct flock it = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    check(fcntl(file, F_SETLK, &it), "lock");
}
static void act_record(void) {
    struct flock it = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    check(fcntl(file, F_SETLK, &it), "lock");
}
/* The mapping is the last that holds the file, and the file's lock. */
static void ready_mapped(void) {
    int it = open_other(O_RDONLY);
    check(flock(it, LOCK_EX), "flock");
    page = mmap(0, 4096, PROT_READ, MAP_PRIVATE, it, 0);
    close(it);
}
static void watch_mapped(void) {
    int it = open_other(O_RDWR);
    for (; flock(it, LOCK_EX | LOCK_NB) == 0; nap())
        flock(it, LOCK_UN);
    check(flock(it, LOCK_EX), "flock");
}
static void act_unmapped(void) { check(munmap(page, 4096), "munmap"); }
static void act_mapped_over(void) { mmap(page, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); }
static void act_remapped(void) {
    char *to = mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mremap(to, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, page) == MAP_FAILED) fail("mremap");
}
static void make_watched(void) {
    make_other();
    made = check(inotify_init1(0), "inotify");
    check(inotify_add_watch(made, folder, IN_ACCESS | IN_ATTRIB), "watch");
}
static void act_read_at(void) {
    char byte;
    check(pread(file, &byte, 1, 0), "pread");
}
static void act_read(void) {
    char byte;
    check(read(file, &byte, 1), "read");
}
static void act_times(void) { check(futimens(file, 0), "futimens"); }
static void act_listed(void) {
    char room[4096];
    int it = check(open(folder, O_RDONLY | O_DIRECTORY), "folder");
    check(syscall(SYS_getdents64, it, room, sizeof room), "getdents64");
}
