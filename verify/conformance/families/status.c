/* The stat family, statx, access and statfs. */
#include "../case.h"

#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

static const char *const names[] = {
    "file", "empty", "readonly", "secret", "dir", "hollow", "link", "dirlink", "dangling", "loop",
    "fifo", "missing", "through", "/dev/null", "/dev/zero", "/dev/full", "/dev/tty",
};

#define EACH_NAME(path) \
    for (const char *const *each = names, *path; each < names + sizeof names / sizeof *names && (path = *each); each++)

static void by_name(void)
{
    struct stat status;
    EACH_NAME(path) {
        if (told(path, stat(path, &status)) == 0)
            show_status("stat", &status);
        if (told(path, lstat(path, &status)) == 0)
            show_status("lstat", &status);
    }
    CALL(stat(nowhere(), &status));
    CALL(stat("file", nowhere()));
    CALL(lstat("file", nowhere()));
}

static void by_descriptor(void)
{
    struct stat status;
    int dir = DO(open("dir", O_RDONLY)), link = DO(open("link", O_PATH | O_NOFOLLOW));
    CALL(fstat(dir, &status));
    show_status("dir", &status);
    CALL(fstat(999, &status));
    CALL(fstat(-1, &status));
    CALL(fstat(dir, nowhere()));
    CALL(fstatat(dir, "inner", &status, 0));
    show_status("inner", &status);
    CALL(fstatat(dir, "../link", &status, AT_SYMLINK_NOFOLLOW));
    show_status("link", &status);
    CALL(fstatat(dir, "", &status, 0));
    CALL(fstatat(dir, "", &status, AT_EMPTY_PATH));
    CALL(fstatat(link, "", &status, AT_EMPTY_PATH));
    show_status("link", &status);
    CALL(fstatat(AT_FDCWD, "", &status, AT_EMPTY_PATH));
    CALL(fstatat(AT_FDCWD, "file", &status, 0x4000000));
    CALL(fstatat(AT_FDCWD, "file", &status, AT_NO_AUTOMOUNT));
    CALL(fstatat(dir, nowhere(), &status, AT_EMPTY_PATH));
    CALL(fstatat(999, "inner", &status, 0));
    CALL(fstatat(999, "", &status, AT_EMPTY_PATH));
    CALL(fstatat(999, here, &status, 0));
    CALL(fstatat(DO(open("file", O_RDONLY)), "x", &status, 0));
    CALL(syscall(SYS_newfstatat, dir, NULL, &status, AT_EMPTY_PATH));
}

static void show_extended(const struct statx *status)
{
    SHOW("statx", "mode %o links %u size %ld owner %u:%u mask has basic %d, birth %d", status->stx_mode,
         status->stx_nlink, S_ISDIR(status->stx_mode) ? 0 : (long)status->stx_size, status->stx_uid,
         status->stx_gid, (status->stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS,
         (status->stx_mask & STATX_BTIME) != 0);
}

static void extended(void)
{
    struct statx status;
    int dir = DO(open("dir", O_RDONLY));
    EACH_NAME(path) {
        if (told(path, statx(AT_FDCWD, path, 0, STATX_BASIC_STATS | STATX_BTIME, &status)) == 0)
            show_extended(&status);
        told(path, statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_MODE, &status));
    }
    CALL(statx(dir, "inner", AT_STATX_FORCE_SYNC, STATX_ALL, &status));
    CALL(statx(dir, "inner", AT_STATX_DONT_SYNC, STATX_ALL, &status));
    CALL(statx(dir, "inner", AT_STATX_DONT_SYNC | AT_STATX_FORCE_SYNC, STATX_ALL, &status));
    CALL(statx(dir, "", AT_EMPTY_PATH, STATX_ALL, &status));
    CALL(statx(dir, "", 0, STATX_ALL, &status));
    CALL(statx(dir, "inner", 0, 0x80000000, &status));
    CALL(statx(dir, "inner", 0x4000000, STATX_ALL, &status));
    CALL(statx(dir, "inner", 0, 0, &status));
    CALL(statx(999, "inner", 0, STATX_ALL, &status));
    CALL(statx(dir, nowhere(), 0, STATX_ALL, &status));
    CALL(statx(dir, "inner", 0, STATX_ALL, nowhere()));
    CALL(syscall(SYS_statx, dir, NULL, AT_EMPTY_PATH, STATX_ALL, &status));
}

static void allowed(void)
{
    static const int modes[] = {F_OK, R_OK, W_OK, X_OK, R_OK | W_OK | X_OK};
    char text[64];
    int dir = DO(open("dir", O_RDONLY));
    EACH_NAME(path) {
        for (size_t at = 0; at < sizeof modes / sizeof *modes; at++) {
            snprintf(text, sizeof text, "access %s %d", path, modes[at]);
            told(text, access(path, modes[at]));
        }
    }
    CALL(access("script", X_OK));
    CALL(access("file", 8));
    CALL(access("file", -1));
    CALL(access(nowhere(), R_OK));
    CALL(faccessat(dir, "inner", R_OK, 0));
    CALL(faccessat(dir, "inner", R_OK, AT_EACCESS));
    CALL(faccessat(dir, "../dangling", F_OK, AT_SYMLINK_NOFOLLOW));
    CALL(faccessat(999, "inner", R_OK, 0));
    CALL(syscall(SYS_faccessat2, dir, "", R_OK, AT_EMPTY_PATH));
    CALL(syscall(SYS_faccessat2, dir, "", R_OK, 0));
    CALL(syscall(SYS_faccessat2, dir, "inner", R_OK, 0x4000000));
    CALL(syscall(SYS_faccessat2, 999, "", R_OK, AT_EMPTY_PATH));
}

static void systems(void)
{
    struct statfs status;
    struct statvfs posix;
    int path = DO(open("file", O_PATH));
    static const char *const each[] = {".", "file", "link", "dirlink", "fifo", "dangling", "missing", "loop", "", "file/"};
    for (size_t at = 0; at < sizeof each / sizeof *each; at++)
        told(each[at], statfs(each[at], &status));
    DO(statfs(".", &status));
    SHOW("system", "type %lx block %ld names %ld", (long)status.f_type, (long)status.f_bsize, (long)status.f_namelen);
    CALL(statfs("/proc/self", &status));
    SHOW("system", "type %lx", (long)status.f_type);
    CALL(statfs("/dev/null", &status));
    CALL(statfs(nowhere(), &status));
    CALL(statfs("file", nowhere()));
    CALL(fstatfs(path, &status));
    CALL(fstatfs(-1, &status));
    CALL(fstatfs(path, nowhere()));
    CALL(statvfs("file", &posix));
    SHOW("posix", "%lu %lu", posix.f_bsize, posix.f_namemax);
    CALL(fstatvfs(path, &posix));
    CALL(pathconf("file", _PC_NAME_MAX));
    CALL(pathconf(".", _PC_PATH_MAX));
    CALL(pathconf("missing", _PC_LINK_MAX));
    /* Not _PC_LINK_MAX of what is there: libc guesses it from where `/` is mounted. */
    CALL(fpathconf(path, _PC_PATH_MAX));
}

static void the_same(void)
{
    struct stat one, other;
    DO(link("file", "hard"));
    DO(stat("file", &one) + stat("hard", &other));
    SHOW("hard links", "%d %d", one.st_dev == other.st_dev, one.st_ino == other.st_ino);
    DO(fstat(DO(open("link", O_RDONLY)), &other));
    SHOW("opened", "%d %d", one.st_dev == other.st_dev, one.st_ino == other.st_ino);
    DO(stat(".", &one) + stat("dir/..", &other));
    SHOW("parents", "%d", one.st_ino == other.st_ino);
    DO(stat("/", &one) + stat("/..", &other));
    SHOW("roots", "%d", one.st_ino == other.st_ino);
    DO(stat("/dev/null", &one));
    SHOW("null", "%u:%u %o", major(one.st_rdev), minor(one.st_rdev), one.st_mode);
}

const struct part status_parts[] = {
    {"by-name", by_name}, {"by-descriptor", by_descriptor}, {"extended", extended},
    {"allowed", allowed}, {"systems", systems}, {"the-same", the_same}, {0},
};
