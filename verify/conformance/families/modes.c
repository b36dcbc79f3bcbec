/* Modes, owners and times: chmod, chown, utimensat. */
#include "../case.h"

#include <sys/time.h>
#include <utime.h>

static void show(const char *path)
{
    struct stat status;
    if (DO(lstat(path, &status)) == 0)
        show_status(path, &status);
}

static void by_name(void)
{
    static const mode_t modes[] = {0, 0644, 0777, 01777, 02755, 04755, 07777, 0100600, 0200644};
    char text[64];
    for (size_t at = 0; at < sizeof modes / sizeof *modes; at++) {
        snprintf(text, sizeof text, "chmod %o", modes[at]);
        told(text, chmod("file", modes[at]));
        show("file");
        told(text, chmod("dir", modes[at] | 0700));
        show("dir");
    }
    CALL(chmod("link", 0600));
    show("file");
    show("link");
    CALL(chmod("fifo", 0600));
    CALL(chmod("dangling", 0600));
    CALL(chmod("missing", 0600));
    CALL(chmod("loop", 0600));
    CALL(chmod("file/", 0600));
    CALL(chmod("", 0600));
    CALL(chmod(nowhere(), 0600));
    CALL(chmod("/dev/null/x", 0600));
}

static void by_descriptor(void)
{
    int dir = DO(open("dir", O_RDONLY)), reader = DO(open("file", O_RDONLY)), path = DO(open("file", O_PATH));
    CALL(fchmod(reader, 0604));
    show("file");
    CALL(fchmod(dir, 0711));
    CALL(fchmod(path, 0600));
    CALL(fchmod(-1, 0600));
    CALL(fchmodat(dir, "inner", 0640, 0));
    show("dir/inner");
    CALL(fchmodat(dir, "../link", 0640, AT_SYMLINK_NOFOLLOW));
    CALL(fchmodat(dir, "inner", 0604, AT_SYMLINK_NOFOLLOW));
    show("dir/inner");
    CALL(fchmodat(dir, "inner", 0640, 0x4000));
    CALL(fchmodat(999, "inner", 0640, 0));
    CALL(fchmodat(reader, "inner", 0640, 0));
    CALL(syscall(452 /* fchmodat2 */, path, "", 0660, AT_EMPTY_PATH));
    show("file");
    CALL(syscall(452, dir, "inner", 0660, AT_SYMLINK_NOFOLLOW));
    CALL(syscall(452, dir, "../link", 0660, AT_SYMLINK_NOFOLLOW));
}

static void owners(void)
{
    uid_t user = getuid();
    gid_t group = getgid();
    int path = DO(open("link", O_PATH | O_NOFOLLOW)), file = DO(open("file", O_RDONLY)), dir = DO(open("dir", O_RDONLY));
    CALL(chown("file", -1, -1));
    CALL(chown("file", user, group));
    CALL(chown("file", 12345, -1));
    show("file");
    CALL(chown("file", -1, 54321));
    show("file");
    CALL(chown("link", 111, 222));
    show("file");
    show("link");
    CALL(lchown("link", 333, 444));
    show("link");
    CALL(lchown("dangling", 333, 444));
    CALL(chown("dangling", 333, 444));
    CALL(chown("missing", -1, -1));
    CALL(lchown("loop", -1, -1));
    CALL(chown("", -1, -1));
    CALL(chown(nowhere(), -1, -1));
    CALL(fchown(file, user, group));
    CALL(fchown(path, 1, 1));
    CALL(fchown(-1, -1, -1));
    CALL(fchownat(dir, "inner", user, group, 0));
    CALL(fchownat(path, "", 555, 666, AT_EMPTY_PATH));
    show("link");
    CALL(fchownat(dir, "../link", user, group, AT_SYMLINK_NOFOLLOW));
    CALL(fchownat(dir, "inner", -1, -1, 0x4000));
    CALL(fchownat(999, "inner", -1, -1, 0));
    DO(chmod("script", 06755));
    CALL(chown("script", user, group));
    show("script");
    DO(chmod("script", 02644));
    CALL(chown("script", -1, group));
    show("script");
}

static void show_times(const char *what, const char *path)
{
    struct stat status;
    DO(lstat(path, &status));
    long read = status.st_atim.tv_sec, written = status.st_mtim.tv_sec;
    SHOW(what, "%s read %ld.%09ld written %ld.%09ld", path, read < 2000000000 && read > 1700000000 ? -1 : read,
         read > 1700000000 ? 0 : status.st_atim.tv_nsec, written > 1700000000 ? -1 : written,
         written > 1700000000 ? 0 : status.st_mtim.tv_nsec);
}

static void times(void)
{
    struct timespec both[2] = {{1000, 123456789}, {2000, 987654321}}, wrong[2] = {{0, 1000000000}, {0, 0}};
    struct timespec left[2] = {{0, UTIME_OMIT}, {3000, 5}}, neither[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
    struct timespec now[2] = {{0, UTIME_NOW}, {4000, 0}}, early[2] = {{-5, 0}, {-5, 7}}, odd[2] = {{7, UTIME_OMIT}, {9, -1}};
    int dir = DO(open("dir", O_RDONLY)), file = DO(open("file", O_RDONLY)), path = DO(open("link", O_PATH | O_NOFOLLOW));
    CALL(utimensat(AT_FDCWD, "file", both, 0));
    show_times("times", "file");
    CALL(utimensat(AT_FDCWD, "file", left, 0));
    show_times("times", "file");
    CALL(utimensat(AT_FDCWD, "file", neither, 0));
    show_times("times", "file");
    CALL(utimensat(AT_FDCWD, "file", now, 0));
    show_times("times", "file");
    CALL(utimensat(AT_FDCWD, "file", early, 0));
    show_times("times", "file");
    CALL(utimensat(AT_FDCWD, "file", wrong, 0));
    CALL(utimensat(AT_FDCWD, "file", odd, 0));
    CALL(utimensat(AT_FDCWD, "file", NULL, 0));
    show_times("times", "file");
    CALL(utimensat(AT_FDCWD, "link", both, AT_SYMLINK_NOFOLLOW));
    show_times("times", "link");
    CALL(utimensat(AT_FDCWD, "dangling", both, AT_SYMLINK_NOFOLLOW));
    CALL(utimensat(AT_FDCWD, "dangling", both, 0));
    CALL(utimensat(dir, "inner", both, 0));
    CALL(utimensat(dir, "", both, AT_EMPTY_PATH));
    CALL(utimensat(path, "", left, AT_EMPTY_PATH));
    CALL(syscall(SYS_utimensat, file, NULL, both, 0));
    CALL(syscall(SYS_utimensat, path, NULL, both, 0));
    CALL(syscall(SYS_utimensat, AT_FDCWD, NULL, both, 0));
    CALL(futimens(file, left));
    show_times("times", "file");
    CALL(futimens(-1, both));
    CALL(utimensat(AT_FDCWD, "file", both, 0x4000));
    CALL(utimensat(AT_FDCWD, "missing", both, 0));
    CALL(utimensat(AT_FDCWD, "missing", neither, 0));
    CALL(utimensat(AT_FDCWD, "file", nowhere(), 0));
    CALL(utimensat(AT_FDCWD, nowhere(), both, 0));
    CALL(utimensat(999, "file", both, 0));
    CALL(utimes("file", (struct timeval[2]){{50, 60}, {70, 80}}));
    show_times("times", "file");
    CALL(utimes("file", (struct timeval[2]){{50, 1000000}, {70, 80}}));
    CALL(lutimes("link", (struct timeval[2]){{51, 61}, {71, 81}}));
    show_times("times", "link");
    CALL(utime("file", &(struct utimbuf){90, 91}));
    show_times("times", "file");
    CALL(utime("file", NULL));
    show_times("times", "file");
}

/* A time before the calls, so that what changes is what became later. */
static void changed(const char *what, const char *path)
{
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    SHOW(what, "%s", path);
    show_times("times", path);
    DO(utimensat(AT_FDCWD, path, old, 0));
}

static void what_changes_times(void)
{
    char byte;
    int fd = DO(open("file", O_RDWR));
    changed("at first", "file");
    changed("at first", "dir");
    DO(pwrite(fd, "x", 1, 0));
    changed("written", "file");
    DO(ftruncate(fd, 5));
    changed("shortened", "file");
    DO(truncate("file", 5));
    changed("same length", "file");
    DO(ftruncate(fd, 5));
    changed("same length by descriptor", "file");
    DO(pread(fd, &byte, 1, 0));
    changed("read", "file");
    DO(chmod("file", 0600));
    changed("mode", "file");
    DO(write(fd, "", 0));
    changed("nothing written", "file");
    put("dir/new", "");
    changed("entry made", "dir");
    DO(unlink("dir/new"));
    changed("entry gone", "dir");
    put("dir/inner", "x");
    changed("entry written", "dir");
    DO(rename("dir/inner", "dir/inner2"));
    changed("entry renamed", "dir");
    DO(close(open("file", O_WRONLY | O_TRUNC)));
    changed("emptied", "file");
    DO(close(open("empty", O_WRONLY | O_TRUNC)));
    changed("emptied again", "empty");
}

const struct part modes_parts[] = {
    {"by-name", by_name}, {"by-descriptor", by_descriptor}, {"owners", owners}, {"times", times},
    {"what-changes-times", what_changes_times}, {0},
};
