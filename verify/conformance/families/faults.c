/* Wrong pointers and wrong descriptors, call by call, with the calls' own numbers. */
#include "../case.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/statfs.h>
#include <sys/timerfd.h>

/* In a table of numbers and arguments: BAD is the forbidden page, HERE a good path, ROOM some bytes. */
#define BAD ((long)nowhere())
#define HERE ((long)"file")
#define ROOM ((long)room)
#define BEHIND ((long)room + 4096 - 2)

static char *room;

struct call {
    const char *name;
    long number, arguments[6];
};

#define A(name, ...) {#name, SYS_##name, {__VA_ARGS__}}

static void all(const struct call *calls, size_t count)
{
    for (size_t at = 0; at < count; at++) {
        const long *a = calls[at].arguments;
        char text[64];
        snprintf(text, sizeof text, "%zu %s", at, calls[at].name);
        errno = 0;
        told(text, syscall(calls[at].number, a[0], a[1], a[2], a[3], a[4], a[5]));
    }
}

#define ALL(...) \
    const struct call calls[] = {__VA_ARGS__}; \
    all(calls, sizeof calls / sizeof *calls)

static void pointers(void)
{
    int fd = DO(open("file", O_RDWR)), dir = DO(open(".", O_RDONLY)), ends[2];
    DO(pipe(ends));
    /* A page that ends before one that is forbidden, for arguments that begin well. */
    room = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    DO(mprotect(room + 4096, 4096, PROT_NONE));
    memset(room, 'a', 4096);
    ALL(A(open, BAD, 0), A(open, 0, 0), A(open, -1, 0), A(open, BEHIND, 0), A(openat, dir, BAD, 0),
        A(openat, dir, BEHIND, 0), A(creat, BAD, 0600), A(stat, BAD, ROOM), A(stat, HERE, BAD), A(lstat, BAD, ROOM),
        A(lstat, HERE, 0), A(fstat, fd, BAD), A(newfstatat, dir, BAD, ROOM, 0), A(newfstatat, dir, HERE, BAD, 0),
        A(statx, dir, BAD, 0, 0, ROOM), A(statx, dir, HERE, 0, 0, BAD), A(access, BAD, 0), A(faccessat, dir, BAD, 0),
        A(mkdir, BAD, 0700), A(mkdirat, dir, BAD, 0700), A(rmdir, BAD), A(unlink, BAD), A(unlinkat, dir, BAD, 0),
        A(rename, BAD, HERE), A(rename, HERE, BAD), A(renameat, dir, BAD, dir, HERE), A(renameat2, dir, HERE, dir, BAD, 0),
        A(link, BAD, HERE), A(link, HERE, BAD), A(linkat, dir, HERE, dir, BAD, 0), A(symlink, BAD, HERE),
        A(symlink, HERE, BAD), A(symlinkat, BAD, dir, HERE), A(readlink, BAD, ROOM, 10), A(readlink, (long)"link", BAD, 10),
        A(readlinkat, dir, BAD, ROOM, 10), A(readlinkat, dir, (long)"link", BAD, 10), A(chmod, BAD, 0600),
        A(fchmodat, dir, BAD, 0600), A(chown, BAD, -1, -1), A(lchown, BAD, -1, -1), A(fchownat, dir, BAD, -1, -1, 0),
        A(truncate, BAD, 0), A(chdir, BAD), A(getcwd, BAD, 4096), A(getcwd, 0, 0), A(statfs, BAD, ROOM), A(statfs, HERE, BAD),
        A(fstatfs, fd, BAD), A(utimensat, dir, BAD, 0, 0), A(utimensat, dir, HERE, BAD, 0), A(utime, BAD, 0), A(utime, HERE, BAD),
        A(utimes, BAD, 0), A(utimes, HERE, BAD), A(futimesat, dir, BAD, 0), A(mknod, BAD, 0100600, 0),
        A(mknodat, dir, BAD, 0100600, 0), A(setxattr, BAD, ROOM, ROOM, 1, 0), A(setxattr, HERE, BAD, ROOM, 1, 0),
        A(getxattr, BAD, HERE, ROOM, 1), A(getxattr, HERE, BAD, ROOM, 1), A(lgetxattr, BAD, HERE, ROOM, 1),
        A(listxattr, BAD, ROOM, 10), A(removexattr, BAD, HERE), A(removexattr, HERE, BAD), A(read, fd, BAD, 10),
        A(write, fd, BAD, 10), A(pread64, fd, BAD, 10, 0), A(pwrite64, fd, BAD, 10, 0), A(read, fd, BEHIND, 10),
        A(pwrite64, fd, BEHIND, 10, 0), A(readv, fd, BAD, 1), A(writev, fd, BAD, 1), A(getdents64, dir, BAD, 4096),
        A(pipe, BAD), A(pipe2, BAD, 0), A(inotify_add_watch, fd, BAD, 1), A(execve, BAD, 0, 0), A(execve, HERE, BAD, 0),
        A(execveat, dir, BAD, 0, 0, 0), A(openat2, dir, BAD, ROOM, 24), A(openat2, dir, HERE, BAD, 24),
        A(fcntl, fd, F_GETLK, BAD), A(fcntl, fd, F_SETLK, BAD), A(ioctl, ends[0], 0x541b, BAD), A(splice, fd, BAD, ends[1], 0, 4, 0),
        A(sendfile, ends[1], fd, BAD, 4), A(copy_file_range, fd, BAD, ends[1], 0, 4, 0), A(memfd_create, BAD, 0),
        A(faccessat2, dir, BAD, 0, 0), A(uname, BAD));
}

static void descriptors(void)
{
    int closed = DO(dup(0)), dir = DO(open(".", O_RDONLY));
    DO(close(closed));
    const long wrong[] = {closed, -1, INT_MAX, INT_MIN};
    room = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        long fd = wrong[at];
        ALL(A(openat, fd, HERE, 0), A(newfstatat, fd, HERE, ROOM, 0), A(newfstatat, fd, (long)"", ROOM, AT_EMPTY_PATH),
            A(statx, fd, HERE, 0, 0, ROOM), A(faccessat, fd, HERE, 0), A(mkdirat, fd, HERE, 0700), A(unlinkat, fd, HERE, 0),
            A(renameat, fd, HERE, dir, HERE), A(renameat, dir, HERE, fd, HERE), A(linkat, fd, HERE, dir, HERE, 0),
            A(linkat, dir, HERE, fd, HERE, 0), A(symlinkat, HERE, fd, HERE), A(readlinkat, fd, HERE, ROOM, 10),
            A(fchmodat, fd, HERE, 0600), A(fchownat, fd, HERE, -1, -1, 0), A(utimensat, fd, HERE, 0, 0), A(utimensat, fd, 0, 0, 0),
            A(mknodat, fd, HERE, 0100600, 0), A(execveat, fd, HERE, 0, 0, 0), A(execveat, fd, (long)"", 0, 0, AT_EMPTY_PATH),
            A(fchdir, fd), A(fchmod, fd, 0600), A(fchown, fd, -1, -1), A(fstat, fd, ROOM), A(fstatfs, fd, ROOM), A(ftruncate, fd, 0),
            A(fallocate, fd, 0, 0, 1), A(fsync, fd), A(fdatasync, fd), A(syncfs, fd), A(flock, fd, 1), A(fcntl, fd, F_GETFL),
            A(fcntl, fd, F_GETLK, ROOM), A(lseek, fd, 0, 0), A(read, fd, ROOM, 1), A(write, fd, ROOM, 1), A(dup, fd), A(dup2, fd, 50),
            A(dup3, fd, 50, 0), A(close, fd), A(getdents64, fd, ROOM, 100), A(ioctl, fd, 0x541b, ROOM), A(fgetxattr, fd, HERE, ROOM, 1),
            A(fsetxattr, fd, HERE, ROOM, 1, 0), A(flistxattr, fd, ROOM, 1), A(fremovexattr, fd, HERE), A(inotify_add_watch, fd, HERE, 1),
            A(epoll_ctl, fd, 1, dir, ROOM), A(readahead, fd, 0, 1), A(fadvise64, fd, 0, 1, 0), A(sync_file_range, fd, 0, 1, 2),
            A(splice, fd, 0, fd, 0, 1, 0), A(sendfile, fd, dir, 0, 1), A(sendfile, dir, fd, 0, 1), A(copy_file_range, fd, 0, dir, 0, 1, 0),
            A(openat2, fd, HERE, ROOM, 24), A(faccessat2, fd, HERE, 0, 0));
    }
}

/* Descriptors that are something else than files. */
static void other_kinds(void)
{
    int fds[] = {DO(epoll_create1(0)), DO(eventfd(0, EFD_NONBLOCK)), DO(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)),
                 DO(inotify_init1(IN_NONBLOCK)), DO(open("/dev/null", O_RDWR)), DO(open("file", O_PATH))};
    struct stat status;
    room = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t at = 0; at < sizeof fds / sizeof *fds; at++) {
        int fd = fds[at];
        ALL(A(openat, fd, HERE, 0), A(read, fd, ROOM, 8), A(write, fd, ROOM, 0), A(lseek, fd, 0, 0), A(ftruncate, fd, 0),
            A(fsync, fd), A(fchdir, fd), A(getdents64, fd, ROOM, 100), A(flock, fd, 1), A(fallocate, fd, 0, 0, 1),
            A(newfstatat, fd, (long)"", ROOM, AT_EMPTY_PATH), A(readlinkat, fd, (long)"", ROOM, 10),
            A(fgetxattr, fd, (long)"user.x", ROOM, 1));
        if (CALL(fstat(fd, &status)) == 0)
            SHOW("type", "%o", status.st_mode & S_IFMT);
    }
}

const struct part faults_parts[] = {
    {"pointers", pointers}, {"descriptors", descriptors}, {"other-kinds", other_kinds}, {0},
};
