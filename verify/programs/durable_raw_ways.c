/* Ways out after an fdatasync(2) that Python has no word for: durable_raw_ways WAY FILE FOLDER.
 *
 * A child that was forked before watches for what its parent does, and notes in FOLDER/seen when it saw
 * that. The parent writes into FILE and flushes it, notes at FILE's end when that returned and how long it
 * took, and then acts. With WAY "list" it prints the names of all ways. */
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

static void fail(const char *what) { perror(what); exit(2); }
static int check(int answer, const char *what) { if (answer < 0) fail(what); return answer; }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static void nap(void) { usleep(500); }
static char *path(const char *name) { static char room[2][512]; static int turn; turn ^= 1;
    snprintf(room[turn], 512, "%s/%s", folder, name); return room[turn]; }
static int open_other(int flags) { return check(open(path("other"), flags | O_CREAT, 0600), "other"); }
static long raw(long number, long a, long b, long c) {
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return answer;
}

/* A pipe and a pair of sockets, whose other ends the child has. */
static void watch_pipe(void) { char byte; check(read(ends[0], &byte, 1), "pipe"); }
static void watch_pair(void) { char byte; check(recv(pair[1], &byte, 1, 0), "pair"); }
static void act_raw_write(void) { raw(SYS_write, ends[1], (long)"!", 1); }
static void act_number_only(void) { syscall(SYS_write, ends[1], "!", 1); }
static void act_tee(void) { int more[2]; check(pipe(more), "pipe"); check(write(more[1], "!", 1), "write");
    check(tee(more[0], ends[1], 1, 0), "tee"); }
static void act_closed(void) { close(pair[0]); }
static void act_closed_by_dup(void) { check(dup2(ends[0], pair[0]), "dup2"); }
static void act_closed_by_range(void) { check(close_range(pair[0], pair[0], 0), "close_range"); }
static void act_exit_of_thread(void) { raw(SYS_exit, 0, 0, 0); }
static void act_exit_by_libc(void) { syscall(SYS_exit, 0); }

/* Objects of the kernel that both have. */
static void make_event(void) { made = check(eventfd(0, 0), "eventfd"); }
static void watch_made(void) { struct pollfd it = {made, POLLIN, 0}; check(poll(&it, 1, -1), "poll"); }
static void act_event(void) { check(eventfd_write(made, 1), "eventfd"); }
static void make_timer(void) { made = check(timerfd_create(CLOCK_MONOTONIC, 0), "timerfd"); }
static void act_timer(void) { struct itimerspec at = {{0, 0}, {0, 1}}; check(timerfd_settime(made, 0, &at, 0), "timerfd"); }
static void make_set(void) { made = check(epoll_create1(0), "epoll"); check(eventfd_write(queue = check(eventfd(0, 0), "eventfd"), 1), "event"); }
static void watch_set(void) { struct epoll_event it; check(epoll_wait(made, &it, 1, -1), "epoll_wait"); }
static void act_set(void) { struct epoll_event it = {.events = EPOLLIN}; check(epoll_ctl(made, EPOLL_CTL_ADD, queue, &it), "epoll_ctl"); }
static void make_messages(void) { made = check(msgget(IPC_PRIVATE, 0600), "msgget"); }
static void watch_messages(void) { struct { long type; char text; } it; check(msgrcv(made, &it, 1, 0, 0), "msgrcv"); msgctl(made, IPC_RMID, 0); }
static void act_messages(void) { struct { long type; char text; } it = {1, '!'}; check(msgsnd(made, &it, 1, 0), "msgsnd"); }
static void make_semaphore(void) { made = check(semget(IPC_PRIVATE, 1, 0600), "semget"); }
static void watch_semaphore(void) { struct sembuf it = {0, -1, 0}; check(semop(made, &it, 1), "semop"); semctl(made, 0, IPC_RMID); }
static void act_semaphore(void) { struct sembuf it = {0, 1, 0}; check(semop(made, &it, 1), "semop"); }
static void make_mqueue(void) { struct mq_attr is = {.mq_maxmsg = 1, .mq_msgsize = 8}; char name[64];
    snprintf(name, sizeof name, "/durable-%d", getpid());
    made = check(mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &is), "mq_open"); mq_unlink(name); }
static void watch_mqueue(void) { char it[8]; check(mq_receive(made, it, 8, 0), "mq_receive"); }
static void act_mqueue(void) { check(mq_send(made, "!", 1, 0), "mq_send"); }

/* Processes. */
static void make_signal(void) { sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR1); sigprocmask(SIG_BLOCK, &set, 0); }
static void watch_signal(void) { sigset_t set; int got; sigemptyset(&set); sigaddset(&set, SIGUSR1); sigwait(&set, &got); }
static void act_queued(void) { union sigval is = {0}; check(sigqueue(child, SIGUSR1, is), "sigqueue"); }
static void act_pidfd(void) { int it = check(syscall(SYS_pidfd_open, child, 0), "pidfd_open");
    check(syscall(SYS_pidfd_send_signal, it, SIGUSR1, 0, 0), "pidfd_send_signal"); }
static void watch_word(void) { while (!word) nap(); }
static void act_memory(void) { long one = 1; struct iovec from = {&one, 8}, to = {(void *)&word, 8};
    check(process_vm_writev(child, &from, 1, &to, 1, 0), "process_vm_writev"); }
static void watch_limit(void) { struct rlimit is; do { nap(); getrlimit(RLIMIT_NOFILE, &is); } while (is.rlim_cur != 77); }
static void act_limit(void) { struct rlimit is = {77, 77}; check(prlimit(child, RLIMIT_NOFILE, &is, 0), "prlimit"); }
static void watch_priority(void) { while (getpriority(PRIO_PROCESS, 0) != 7) nap(); }
static void act_priority(void) { check(setpriority(PRIO_PROCESS, child, 7), "setpriority"); }
/* A signal that would have ended the process long ago, but for the mask. */
static void make_pending(void) { sigset_t set; sigemptyset(&set); sigaddset(&set, SIGTERM); sigprocmask(SIG_BLOCK, &set, 0); }
static void ready_pending(void) { kill(getpid(), SIGTERM); }
static void act_pending(void) { sigset_t none; sigemptyset(&none); sigprocmask(SIG_SETMASK, &none, 0); }

/* Handlers that run while their thread waits for the flush. */
static void on_alarm(int number) { (void)number; if (write(ends[1], "!", 1) != 1) _exit(3); }
static void set_handler(int flags) { struct sigaction is = {.sa_handler = on_alarm, .sa_flags = flags}; sigaction(SIGALRM, &is, 0); }
static void ready_handler(void) { set_handler(SA_RESTART); }
static void ready_handler_once(void) { set_handler(SA_RESETHAND); }
static void ready_handler_nested(void) { set_handler(SA_NODEFER); }
static void act_handler(void) { usleep(200000); }
static void alarm_soon(void) { struct itimerval soon = {{0, 0}, {0, 15000}}; setitimer(ITIMER_REAL, &soon, 0); }

/* Files. */
static void make_other(void) { file = open_other(O_RDWR); check(ftruncate(file, 8192), "ftruncate"); }
static void watch_offset(void) { while (lseek(file, 0, SEEK_CUR) != 77) nap(); }
static void act_offset(void) { lseek(file, 77, SEEK_SET); }
static void watch_record(void) { struct flock it = {.l_type = F_WRLCK, .l_whence = SEEK_SET}; check(fcntl(open_other(O_RDWR), F_SETLKW, &it), "lock"); }
static void ready_record(void) { struct flock it = {.l_type = F_WRLCK, .l_whence = SEEK_SET}; check(fcntl(file, F_SETLK, &it), "lock"); }
static void act_record(void) { struct flock it = {.l_type = F_UNLCK, .l_whence = SEEK_SET}; check(fcntl(file, F_SETLK, &it), "lock"); }
/* The mapping is the last that holds the file, and the file's lock. */
static void ready_mapped(void) { int it = open_other(O_RDONLY); check(flock(it, LOCK_EX), "flock");
    page = mmap(0, 4096, PROT_READ, MAP_PRIVATE, it, 0); close(it); }
static void watch_mapped(void) { usleep(20000); check(flock(open_other(O_RDWR), LOCK_EX), "flock"); }
static void act_unmapped(void) { check(munmap(page, 4096), "munmap"); }
static void act_mapped_over(void) { mmap(page, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); }
static void act_remapped(void) { char *to = mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mremap(to, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, page) == MAP_FAILED) fail("mremap"); }
static void make_watched(void) { make_other(); made = check(inotify_init1(0), "inotify");
    check(inotify_add_watch(made, folder, IN_ACCESS | IN_ATTRIB), "watch"); }
static void act_read_at(void) { char byte; check(pread(file, &byte, 1, 0), "pread"); }
static void act_times(void) { check(futimens(file, 0), "futimens"); }
static void act_listed(void) { char room[4096]; int it = check(open(folder, O_RDONLY | O_DIRECTORY), "folder");
    check(syscall(SYS_getdents64, it, room, sizeof room), "getdents64"); }

/* Order: what is written while a flush is under way, and rests on it. The parent itself notes when it went on. */
static int noting;
static void note(double at) { char line[64]; int length = snprintf(line, sizeof line, "%.9f\n", at); if (write(noting, line, length) != length) _exit(4); }
static void act_overwrite(void) { check(pwrite(log_file, "!", 1, 0), "pwrite"); note(now()); }
static void act_overwrite_here(void) { check(write(log_file, "!", 1), "write"); note(now()); }
static void act_second(void) { check(write(second_log, "!", 1), "write"); note(now()); }

/* Things after which a flush is waited for: the act is done before the flush. */
static void ready_vmsplice(void) { int more[2]; check(pipe(more), "pipe"); page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = '?'; struct iovec it = {page, 1}; check(vmsplice(more[1], &it, 1, 0), "vmsplice"); }
static void ready_zero_copy(void) { int one = 1, it = check(socket(AF_INET, SOCK_STREAM, 0), "socket"); check(setsockopt(it, SOL_SOCKET, 60, &one, 4), "SO_ZEROCOPY"); }
static void ready_fault(void) { check(syscall(SYS_userfaultfd, O_CLOEXEC | 1), "userfaultfd"); }
static void ready_code(void) { page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static void ready_code_later(void) { page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(mprotect(page, 4096, PROT_READ | PROT_EXEC), "mprotect"); }
static void ready_ring(void) { struct io_uring_params is; memset(&is, 0, sizeof is); check(syscall(SYS_io_uring_setup, 1, &is), "io_uring"); }
static void ready_shared(void) { page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); }
static void ready_memfd(void) { int it = check(memfd_create("m", 0), "memfd"); check(ftruncate(it, 4096), "ftruncate");
    page = mmap(0, 4096, PROT_READ, MAP_SHARED, it, 0); }
static void ready_device(void) { int it = check(open("/dev/zero", O_RDONLY), "zero"); page = mmap(0, 4096, PROT_READ, MAP_PRIVATE, it, 0); }

struct way { const char *name; void (*make)(void), (*ready)(void), (*watch)(void), (*act)(void); };
static const struct way ways[] = {
    {"seen_raw_write", 0, 0, watch_pipe, act_raw_write}, {"seen_write_by_number", 0, 0, watch_pipe, act_number_only},
    {"seen_tee", 0, 0, watch_pipe, act_tee}, {"seen_closed", 0, 0, watch_pair, act_closed},
    {"seen_closed_by_dup", 0, 0, watch_pair, act_closed_by_dup}, {"seen_closed_by_range", 0, 0, watch_pair, act_closed_by_range},
    {"seen_end_of_thread", 0, 0, watch_pair, act_exit_of_thread}, {"seen_end_by_number", 0, 0, watch_pair, act_exit_by_libc},
    {"seen_event", make_event, 0, watch_made, act_event}, {"seen_timer", make_timer, 0, watch_made, act_timer},
    {"seen_set", make_set, 0, watch_set, act_set}, {"seen_messages", make_messages, 0, watch_messages, act_messages},
    {"seen_semaphore", make_semaphore, 0, watch_semaphore, act_semaphore}, {"seen_mqueue", make_mqueue, 0, watch_mqueue, act_mqueue},
    {"seen_signal_queued", make_signal, 0, watch_signal, act_queued}, {"seen_signal_by_pidfd", make_signal, 0, watch_signal, act_pidfd},
    {"seen_memory_written", 0, 0, watch_word, act_memory}, {"seen_limit", 0, 0, watch_limit, act_limit},
    {"seen_priority", 0, 0, watch_priority, act_priority}, {"seen_end_by_mask", make_pending, ready_pending, watch_pair, act_pending},
    {"seen_handler", 0, ready_handler, watch_pipe, act_handler}, {"seen_handler_once", 0, ready_handler_once, watch_pipe, act_handler},
    {"seen_handler_nested", 0, ready_handler_nested, watch_pipe, act_handler},
    {"seen_offset", make_other, 0, watch_offset, act_offset}, {"seen_record_lock", make_other, ready_record, watch_record, act_record},
    {"seen_unmapped", make_other, ready_mapped, watch_mapped, act_unmapped}, {"seen_mapped_over", make_other, ready_mapped, watch_mapped, act_mapped_over},
    {"seen_remapped", make_other, ready_mapped, watch_mapped, act_remapped},
    {"seen_read_at", make_watched, 0, watch_made, act_read_at}, {"seen_times", make_watched, 0, watch_made, act_times},
    {"seen_listed", make_watched, 0, watch_made, act_listed},
    {"order_overwrite", 0, 0, 0, act_overwrite}, {"order_overwrite_here", 0, 0, 0, act_overwrite_here}, {"order_second", 0, 0, 0, act_second},
    {"waits_vmsplice", 0, ready_vmsplice, 0, 0}, {"waits_zero_copy", 0, ready_zero_copy, 0, 0}, {"waits_fault", 0, ready_fault, 0, 0},
    {"waits_code", 0, ready_code, 0, 0}, {"waits_code_later", 0, ready_code_later, 0, 0}, {"waits_ring", 0, ready_ring, 0, 0},
    {"waits_shared", 0, ready_shared, 0, 0}, {"waits_memfd", 0, ready_memfd, 0, 0}, {"waits_device", 0, ready_device, 0, 0},
};

static void watch(const struct way *way) {
    close(ends[1]); close(pair[0]);
    if (way->watch) { way->watch(); note(now()); }
    _exit(0);
}

/* Behind all that the file holds: such a write does not wait. */
static void tell(double ended, double began) {
    char line[64];
    int length = snprintf(line, sizeof line, "%.9f %.9f\n", ended, ended - began);
    check(pwrite(log_file, line, length, FILLER), "told");
}

static void act(const struct way *way, const char *name) {
    char filler[FILLER];
    memset(filler, 'x', FILLER - 1);
    filler[FILLER - 1] = '\n';
    second_log = check(open(path("second.durable"), O_RDWR | O_CREAT, 0600), "second");
    log_file = check(open(name, O_RDWR | O_CREAT, 0600), "log");
    check(write(log_file, filler, FILLER), "write");
    if (way->act == act_overwrite_here) lseek(log_file, 0, SEEK_SET);
    if (way->act == act_second) { check(write(second_log, "?", 1), "write"); check(fdatasync(second_log), "fdatasync"); }
    if (way->act == act_handler) alarm_soon();
    double began = now();
    check(fdatasync(log_file), "fdatasync");
    double ended = now();
    if (strncmp(way->name, "order", 5)) tell(ended, began);
    if (way->act) way->act();
    if (!strncmp(way->name, "order", 5)) tell(ended, began);
}

int main(int count, char **words) {
    if (count == 2) { for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) puts(ways[i].name); return 0; }
    const struct way *way = ways;
    while (strcmp(way->name, words[1])) way++;
    folder = words[3];
    noting = check(open(path("seen"), O_WRONLY | O_CREAT | O_APPEND, 0600), "seen");
    check(pipe(ends), "pipe"); check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "pair");
    if (way->make) way->make();
    if (way->watch && (child = fork()) == 0) watch(way);
    close(pair[1]);
    if (way->ready) way->ready();
    usleep(100000);
    act(way, words[2]);
    if (child) waitpid(child, 0, 0);
    /* Somebody asks for an explanation first. */
    char byte;
    if (!strncmp(way->name, "waits", 5)) (void)!read(0, &byte, 1);
    return 0;
}
