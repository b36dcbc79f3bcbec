/* The calls that libc no longer makes, by their numbers: each form of a call answers alike. */
#include "../case.h"

#include <sys/time.h>
#include <utime.h>

#define RAW(name, ...) CALL(syscall(SYS_##name, __VA_ARGS__))

static struct stat status;

static void opening(void)
{
    RAW(open, "file", O_RDONLY, 0);
    RAW(open, "missing", O_RDONLY, 0);
    RAW(open, "new", O_CREAT | O_RDWR, 0640);
    RAW(open, "link", O_RDONLY | O_NOFOLLOW, 0);
    RAW(open, "dir", O_RDWR, 0);
    RAW(creat, "created", 0600);
    RAW(creat, "dir", 0600);
    RAW(openat, AT_FDCWD, "file", O_RDONLY, 0);
    RAW(openat, AT_FDCWD, "missing", O_RDONLY, 0);
    RAW(access, "file", R_OK);
    RAW(access, "missing", R_OK);
    RAW(access, "file", 9);
    RAW(faccessat, AT_FDCWD, "file", R_OK);
    RAW(faccessat, AT_FDCWD, "missing", R_OK);
}

static void asking(void)
{
    char target[64] = "", path[PATH_MAX];
    RAW(stat, "file", &status);
    show_status("file", &status);
    RAW(stat, "missing", &status);
    RAW(stat, "dangling", &status);
    RAW(lstat, "dangling", &status);
    show_status("dangling", &status);
    RAW(lstat, "missing", &status);
    RAW(fstat, 0, &status);
    RAW(newfstatat, AT_FDCWD, "link", &status, AT_SYMLINK_NOFOLLOW);
    RAW(readlink, "link", target, sizeof target);
    SHOW("target", "%s", target);
    RAW(readlink, "file", target, sizeof target);
    RAW(readlinkat, AT_FDCWD, "dirlink", target, sizeof target);
    CALL(syscall(SYS_getcwd, path, sizeof path) > 0);
    RAW(getcwd, path, 1);
    RAW(chdir, "dir");
    RAW(chdir, "missing");
    CALL(syscall(SYS_getcwd, path, sizeof path) > 0);
    SHOW("where", "%s", strrchr(path, '/'));
}

static void changing(void)
{
    RAW(mkdir, "new", 0755);
    RAW(mkdir, "new", 0755);
    RAW(mkdirat, AT_FDCWD, "new/deep", 0755);
    RAW(rmdir, "new");
    RAW(rmdir, "new/deep");
    RAW(link, "file", "hard");
    RAW(link, "missing", "hard2");
    RAW(symlink, "target", "symbolic");
    RAW(symlink, "target", "symbolic");
    RAW(rename, "hard", "harder");
    RAW(rename, "missing", "x");
    RAW(renameat, AT_FDCWD, "harder", AT_FDCWD, "hardest");
    RAW(unlink, "hardest");
    RAW(unlink, "hardest");
    RAW(unlinkat, AT_FDCWD, "new", AT_REMOVEDIR);
    RAW(mknod, "fifo2", S_IFIFO | 0600, 0);
    RAW(mknod, "fifo2", S_IFIFO | 0600, 0);
    RAW(mknodat, AT_FDCWD, "plain", S_IFREG | 0600, 0);
    RAW(truncate, "file", 4);
    RAW(truncate, "missing", 4);
    show_names(".");
    show_file("file");
}

static void describing(void)
{
    struct timeval both[2] = {{100, 5}, {200, 6}};
    RAW(chmod, "file", 0600);
    RAW(chmod, "missing", 0600);
    RAW(fchmodat, AT_FDCWD, "file", 0640);
    RAW(chown, "file", -1, -1);
    RAW(chown, "dangling", -1, -1);
    RAW(lchown, "dangling", -1, -1);
    RAW(fchownat, AT_FDCWD, "missing", -1, -1, 0);
    RAW(utime, "file", &((struct utimbuf){10, 20}));
    DO(stat("file", &status));
    SHOW("times", "%ld %ld", status.st_atim.tv_sec, status.st_mtim.tv_sec);
    RAW(utime, "missing", NULL);
    RAW(utimes, "file", both);
    DO(stat("file", &status));
    SHOW("times", "%ld.%ld %ld.%ld", status.st_atim.tv_sec, status.st_atim.tv_nsec, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    RAW(utimes, "missing", both);
    RAW(futimesat, AT_FDCWD, "file", both);
    RAW(futimesat, AT_FDCWD, "missing", both);
    RAW(statfs, "missing", &status);
    RAW(getxattr, "file", "user.none", NULL, 0);
    RAW(listxattr, "missing", NULL, 0);
}

static void descriptors(void)
{
    int ends[2];
    RAW(dup, 0);
    RAW(dup2, 0, 30);
    RAW(dup2, 30, 30);
    RAW(dup2, 999, 31);
    RAW(pipe, ends);
    RAW(fcntl, 30, F_GETFD);
    RAW(close, 30);
    RAW(close, 30);
    RAW(inotify_init, 0);
    RAW(eventfd, 0);
    RAW(epoll_create, 1);
    RAW(epoll_create, 0);
    CALL(syscall(9999));
    CALL(syscall(-1));
    CALL(syscall(SYS__sysctl, 0));
    CALL(syscall(SYS_uselib, "file"));
}

const struct part old_parts[] = {
    {"opening", opening}, {"asking", asking}, {"changing", changing}, {"describing", describing},
    {"descriptors", descriptors}, {0},
};
