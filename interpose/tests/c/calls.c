/* Calls one function of libc after the other and prints what each returns.
 *
 * If the counting library is loaded, each must also have reached the hook; "NOT SEEN" is printed
 * for one that did not. Values that differ from run to run are reduced to their sign. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/timerfd.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

static unsigned long (*calls)(void);
static unsigned long before;
static int alarms;

static void mark(void) { before = calls ? calls() : 0; errno = 0; }
static void show(const char *text, long value) {
    int error = errno;
    const char *seen = calls && calls() == before ? " NOT SEEN" : "";
    printf("%-60.60s %ld %d%s\n", text, value, value < 0 ? error : 0, seen);
}
#define VALUE(call) (mark(), show(#call, (long)(call)))
#define SIGN(call) (mark(), show(#call, (long)(call) < 0 ? -1 : 1))

static void on_alarm(int signal) { alarms += signal == SIGALRM; getppid(); }
static void *in_thread(void *unused) { (void)unused; return (void *)(long)(getppid() > 0); }

static void identity(void) {
    struct utsname name;
    struct rusage usage;
    struct rlimit limit;
    struct tms tms;
    struct sysinfo info;
    cpu_set_t cpus;
    gid_t groups[64];
    SIGN(getpid()); SIGN(getppid()); SIGN(getuid()); SIGN(geteuid()); SIGN(getgid());
    SIGN(getegid()); SIGN(gettid()); SIGN(getpgrp()); SIGN(getsid(0)); SIGN(getpgid(0));
    SIGN(getgroups(64, groups)); VALUE(uname(&name)); VALUE(getrusage(RUSAGE_SELF, &usage));
    VALUE(getrlimit(RLIMIT_NOFILE, &limit)); SIGN(times(&tms)); VALUE(sysinfo(&info));
    SIGN(getpriority(PRIO_PROCESS, 0)); SIGN(sched_getaffinity(0, sizeof cpus, &cpus));
    VALUE(sched_yield()); VALUE(sched_getscheduler(0)); VALUE(umask(022));
    VALUE(prctl(PR_GET_DUMPABLE)); SIGN(syscall(SYS_gettid)); VALUE(syscall(SYS_kcmp, -1, -1, 0));
    SIGN(getrandom(&info, 8, 0)); VALUE(getentropy(&info, 8)); VALUE(setpriority(0, 0, 0));
}

static void files(char *directory) {
    char path[512], other[512], buffer[256];
    struct stat about;
    struct statvfs volume;
    struct statx extended;
    struct iovec part = { buffer, 4 };
    snprintf(path, sizeof path, "%s/file", directory);
    snprintf(other, sizeof other, "%s/other", directory);
    int fd;
    SIGN(fd = open(path, O_RDWR | O_CREAT, 0600));
    VALUE(write(fd, "heliostat", 9)); VALUE(pwrite(fd, "xy", 2, 20)); VALUE(lseek(fd, 0, 0));
    VALUE(read(fd, buffer, 5)); VALUE(pread(fd, buffer, 100, 3)); VALUE(readv(fd, &part, 1));
    VALUE(writev(fd, &part, 1)); VALUE(preadv(fd, &part, 1, 0)); VALUE(pwritev(fd, &part, 1, 0));
    VALUE(fsync(fd)); VALUE(fdatasync(fd)); VALUE(ftruncate(fd, 100)); VALUE(fstat(fd, &about));
    VALUE(about.st_size - 100 + getppid() * 0); VALUE(stat(path, &about));
    VALUE(lstat(path, &about)); VALUE(fstatat(AT_FDCWD, path, &about, 0));
    VALUE(statx(AT_FDCWD, path, 0, STATX_SIZE, &extended)); VALUE(statvfs("/", &volume));
    VALUE(chmod(path, 0640)); VALUE(fchmod(fd, 0600)); VALUE(access(path, R_OK));
    VALUE(faccessat(AT_FDCWD, path, R_OK, 0)); VALUE(link(path, other)); VALUE(unlink(other));
    VALUE(symlink(path, other)); SIGN(readlink(other, buffer, sizeof buffer));
    VALUE(rename(other, other)); VALUE(unlinkat(AT_FDCWD, other, 0)); VALUE(utime(path, NULL));
    VALUE(posix_fallocate(fd, 0, 200)); VALUE(posix_fadvise(fd, 0, 0, 0)); VALUE(flock(fd, LOCK_EX));
    VALUE(lockf(fd, F_LOCK, 0)); VALUE(fcntl(fd, F_GETFD)); VALUE(fcntl(fd, F_SETFD, FD_CLOEXEC));
    SIGN(getxattr(path, "user.none", buffer, 9)); VALUE(sendfile(fd, fd, NULL, 0));
    int copy;
    SIGN(copy = dup(fd)); SIGN(dup2(fd, copy)); SIGN(dup3(fd, copy, O_CLOEXEC)); VALUE(close(copy));
    VALUE(isatty(fd)); VALUE(close(fd)); VALUE(unlink(path)); VALUE(mkdir(path, 0700));
    VALUE(chdir(path)); SIGN(getcwd(buffer, sizeof buffer) ? 0 : -1); VALUE(chdir("/"));
    DIR *listing;
    SIGN(listing = opendir(path)); SIGN(readdir(listing)); VALUE(closedir(listing));
    VALUE(rmdir(path)); VALUE(open("/nonexistent", O_RDONLY)); VALUE(close(-1));
}

static void memory_and_time(void) {
    struct timespec short_time = { 0, 1000 };
    struct itimerval soon = { { 0, 0 }, { 0, 20000 } };
    struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART }, old;
    sigset_t set, pending;
    void *page;
    SIGN(page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    VALUE(mprotect(page, 4096, PROT_READ)); VALUE(madvise(page, 4096, MADV_DONTNEED));
    VALUE(munmap(page, 4096)); SIGN(sbrk(4096)); VALUE(nanosleep(&short_time, NULL));
    VALUE(usleep(10)); VALUE(clock_nanosleep(CLOCK_MONOTONIC, 0, &short_time, NULL));
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR2);
    VALUE(sigaction(SIGALRM, &action, NULL)); VALUE(sigaction(SIGALRM, NULL, &old));
    VALUE((old.sa_handler == on_alarm) + 2 * sigismember(&old.sa_mask, SIGUSR2) + 0 * getppid());
    VALUE(setitimer(ITIMER_REAL, &soon, NULL)); VALUE(pause()); VALUE(alarms + 0 * getppid());
    VALUE(alarm(0)); sigemptyset(&set); sigaddset(&set, SIGUSR1);
    VALUE(sigprocmask(SIG_BLOCK, &set, NULL)); VALUE(kill(getpid(), SIGUSR1));
    VALUE(sigpending(&pending)); VALUE(sigtimedwait(&set, NULL, &short_time)); VALUE(raise(0));
}

static void sockets(void) {
    int pair[2], ends[2], efd, listener, client, served;
    char buffer[64];
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    socklen_t length = sizeof name;
    struct epoll_event event = { .events = EPOLLIN };
    struct msghdr message = { 0 };
    struct iovec part = { buffer, 8 };
    int value = 1;
    struct timeval none = { 0, 0 };
    fd_set set;
    VALUE(pipe(ends)); VALUE(pipe2(pair, O_NONBLOCK)); VALUE(read(pair[0], buffer, 1));
    VALUE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair)); VALUE(send(pair[0], "12345678", 8, 0));
    VALUE(recv(pair[1], buffer, 4, MSG_PEEK)); message.msg_iov = &part; message.msg_iovlen = 1;
    VALUE(recvmsg(pair[1], &message, 0)); VALUE(sendmsg(pair[0], &message, 0));
    VALUE(ioctl(pair[1], FIONREAD, &value)); VALUE(value + 0 * getppid());
    struct pollfd one = { pair[1], POLLIN, 0 };
    VALUE(poll(&one, 1, 1000)); VALUE(ppoll(&one, 1, NULL, NULL));
    FD_ZERO(&set); FD_SET(pair[1], &set);
    VALUE(select(pair[1] + 1, &set, NULL, NULL, &none)); SIGN(efd = epoll_create1(0));
    VALUE(epoll_ctl(efd, EPOLL_CTL_ADD, pair[1], &event));
    VALUE(epoll_wait(efd, &event, 1, 1000)); VALUE(epoll_pwait(efd, &event, 1, 0, NULL));
    VALUE(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &value, sizeof value));
    length = sizeof value; VALUE(getsockopt(pair[0], SOL_SOCKET, SO_TYPE, &value, &length));
    VALUE(shutdown(pair[0], SHUT_WR)); VALUE(recvfrom(pair[1], buffer, 64, 0, NULL, NULL));
    VALUE(sendto(pair[1], "x", 1, 0, NULL, 0)); SIGN(listener = socket(AF_UNIX, SOCK_STREAM, 0));
    VALUE(bind(listener, (void *)&name, sizeof name.sun_family)); VALUE(listen(listener, 4));
    length = sizeof name; VALUE(getsockname(listener, (void *)&name, &length));
    SIGN(client = socket(AF_UNIX, SOCK_STREAM, 0));
    VALUE(connect(client, (void *)&name, length)); SIGN(served = accept(listener, NULL, NULL));
    VALUE(getpeername(client, (void *)&name, &length)); VALUE(write(client, "abc", 3));
    VALUE(read(served, buffer, 64)); SIGN(accept4(listener, NULL, NULL, SOCK_NONBLOCK + 7));
    SIGN(efd = eventfd(3, 0)); VALUE(read(efd, buffer, 8)); SIGN(timerfd_create(0, 0));
    SIGN(inotify_init1(0)); VALUE(splice(ends[0], NULL, ends[0], NULL, 1, 0));
}

static char stack[1 << 16] __attribute__((aligned(16)));
static int on_own_stack(void *unused) { (void)unused; _exit(getppid() > 0 ? 4 : 5); }
static void entered_by_return(void) { _exit(getppid() > 0 ? 6 : 5); }

static void processes(void) {
    char *arguments[] = { "true", NULL };
    extern char **environ;
    int status = -1;
    pid_t child;
    pthread_t thread;
    void *result = NULL;
    SIGN(child = fork());
    if (child == 0) _exit(getppid() > 0 ? 7 : 8);
    SIGN(waitpid(child, &status, 0)); VALUE(WEXITSTATUS(status) + 0 * getppid());
    mark(); child = vfork();
    if (child == 0) _exit(9);
    show("vfork", child > 0);
    SIGN(wait4(child, &status, 0, NULL)); VALUE(WEXITSTATUS(status) + 0 * getppid());
    VALUE(posix_spawnp(&child, "true", NULL, NULL, arguments, environ));
    SIGN(waitpid(child, &status, 0)); VALUE(WEXITSTATUS(status) + 0 * getppid());
    VALUE(WEXITSTATUS(system("exit 5")));
    VALUE(pthread_create(&thread, NULL, in_thread, NULL)); pthread_join(thread, &result);
    VALUE((long)result + 0 * getppid());
    child = syscall(SYS_fork);
    if (child == 0) _exit(3);
    SIGN(waitpid(child, &status, 0)); VALUE(WEXITSTATUS(status) + 0 * getppid());
    SIGN(child = clone(on_own_stack, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL));
    SIGN(waitpid(child, &status, 0)); VALUE(WEXITSTATUS(status) + 0 * getppid());
    /* By syscall(), which the child leaves by a ret: its stack holds where to. */
    void **top = (void **)(stack + sizeof stack) - 64;
    *top = (void *)entered_by_return;
    SIGN(child = syscall(SYS_clone, CLONE_VM | SIGCHLD, top, 0, 0, 0));
    SIGN(waitpid(child, &status, 0)); VALUE(WEXITSTATUS(status) + 0 * getppid());
}

int main(void) {
    char directory[] = "/tmp/heliostat-calls-XXXXXX";
    calls = (unsigned long (*)(void))dlsym(RTLD_DEFAULT, "heliostat_count_calls");
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    identity();
    SIGN(mkdtemp(directory));
    files(directory);
    VALUE(rmdir(directory));
    memory_and_time();
    sockets();
    processes();
    return 0;
}
