/* Rights: files of others and one's own, as whoever runs this. Run as root and as an ordinary user.
 *
 * The runner has made ROOT/others, owned by root: open/ (0777), closed/ (0700), sticky/ (01777),
 * shared/ (02777), visible/ (0755), each with file (0644), private (0600), writable (0666),
 * script (0755).
 */
#include "../case.h"

#include <grp.h>
#include <sys/xattr.h>

static const char *const folders[] = {"open", "closed", "sticky", "shared", "visible"};
static const char *const files[] = {"file", "private", "writable", "script", "missing"};

static long opened(const char *path, int flags)
{
    int fd = open(path, flags, 0600);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -1 : 0;
}

static void of_one_file(const char *path)
{
    struct timespec both[2] = {{1000, 0}, {2000, 0}};
    struct stat status;
    char bytes[16];
    CALL(opened(path, O_RDONLY));
    CALL(opened(path, O_WRONLY));
    CALL(opened(path, O_RDWR | O_APPEND));
    CALL(opened(path, O_RDONLY | O_NOATIME));
    CALL(opened(path, O_PATH));
    CALL(opened(path, O_CREAT | O_RDWR));
    CALL(access(path, R_OK));
    CALL(access(path, W_OK));
    CALL(access(path, X_OK));
    CALL(lstat(path, &status));
    CALL(readlink(path, bytes, sizeof bytes));
    CALL(utimensat(AT_FDCWD, path, NULL, 0));
    CALL(utimensat(AT_FDCWD, path, both, 0));
    CALL(chmod(path, status.st_mode & 0777));
    CALL(chown(path, -1, -1));
    CALL(chown(path, getuid(), -1));
    CALL(chown(path, -1, getgid()));
    CALL(truncate(path, 3));
    CALL(setxattr(path, "user.x", "x", 1, 0));
    CALL(getxattr(path, "user.x", bytes, 1));
    CALL(link(path, "linked"));
    CALL(unlink("linked"));
}

static void others(void)
{
    char path[128];
    for (size_t folder = 0; folder < sizeof folders / sizeof *folders; folder++)
        for (size_t at = 0; at < sizeof files / sizeof *files; at++) {
            snprintf(path, sizeof path, "../../others/%s/%s", folders[folder], files[at]);
            SHOW("path", "%s", path);
            of_one_file(path);
        }
}

static void others_folders(void)
{
    char path[128], inside[160], other[160];
    struct stat status;
    for (size_t at = 0; at < sizeof folders / sizeof *folders; at++) {
        snprintf(path, sizeof path, "../../others/%s", folders[at]);
        SHOW("path", "%s", path);
        CALL_P(opendir(path));
        CALL(opened(path, O_PATH));
        CALL(chdir(path));
        DO(chdir(here));
        CALL(chmod(path, 0777));
        CALL(rename(path, "mine"));
        snprintf(inside, sizeof inside, "%s/made-by-%d", path, (int)getuid());
        snprintf(other, sizeof other, "%s/private", path);
        if (CALL(opened(inside, O_CREAT | O_EXCL | O_RDWR)) == 0) {
            DO(stat(inside, &status));
            show_status("made", &status);
        }
        CALL(rename(inside, other));
        CALL(rename(other, inside));
        CALL(unlink(inside));
        CALL(unlink(other));
        CALL(mkdir(inside, 0755));
        if (CALL(lstat(inside, &status)) == 0)
            show_status("made", &status);
        CALL(rename(inside, "taken"));
        CALL(rmdir(inside));
        CALL(symlink("file", inside));
        CALL(mkfifo(other, 0600));
    }
}

static void ones_own(void)
{
    struct stat status;
    CALL(opened("secret", O_RDONLY));
    CALL(opened("secret", O_WRONLY));
    CALL(access("secret", R_OK));
    CALL(chmod("secret", 0200));
    CALL(opened("secret", O_RDONLY));
    CALL(opened("secret", O_WRONLY));
    CALL(opened("readonly", O_RDWR));
    CALL(opened("readonly", O_RDONLY | O_TRUNC));
    CALL(truncate("readonly", 0));
    CALL(access("file", X_OK));
    CALL(access("script", X_OK));
    CALL(setxattr("readonly", "user.x", "x", 1, 0));
    CALL(setxattr("file", "trusted.x", "x", 1, 0));
    CALL(chown("file", 0, 0));
    CALL(chown("file", 12345, -1));
    CALL(chmod("file", 06644));
    CALL(stat("file", &status));
    show_status("file", &status);
    CALL(mknod("device", S_IFCHR | 0600, 0x103));
    CALL(opened("made", O_CREAT | O_RDWR));
    CALL(fchmod(DO(open("made", O_CREAT | O_RDWR, 0600)), 0));
    CALL(opened("made", O_RDONLY));
    CALL(opened("none", O_CREAT | O_RDWR | O_EXCL));
}

static void folders_without(void)
{
    static const mode_t modes[] = {0700, 0600, 0500, 0400, 0300, 0200, 0100, 0};
    struct stat status;
    int dir = DO(open("dir", O_RDONLY)), path = DO(open("dir", O_PATH));
    for (size_t at = 0; at < sizeof modes / sizeof *modes; at++) {
        DO(chmod("dir", modes[at]));
        SHOW("mode", "%o", modes[at]);
        CALL_P(opendir("dir"));
        CALL(opened("dir/inner", O_RDONLY));
        CALL(opened("dir/missing", O_RDONLY));
        CALL(opened("dir/new", O_RDWR | O_CREAT));
        CALL(unlink("dir/new"));
        CALL(stat("dir/inner", &status));
        CALL(stat("dir", &status));
        CALL(access("dir/inner", F_OK));
        CALL(mkdir("dir/new", 0755));
        CALL(rmdir("dir/new"));
        CALL(rename("dir/inner", "dir/inner"));
        CALL(rename("dir/inner", "dir/other"));
        CALL(rename("dir/other", "dir/inner"));
        CALL(symlink("x", "dir/inner"));
        CALL(openat(dir, "inner", O_RDONLY) >= 0 ? 0 : -1);
        CALL(openat(path, "inner", O_RDONLY) >= 0 ? 0 : -1);
        CALL(openat(dir, ".", O_RDONLY) >= 0 ? 0 : -1);
        CALL(fchdir(path));
        CALL(chdir("dir"));
        DO(chdir(here));
    }
}

static void a_lost_right(void)
{
    struct stat status;
    DO(chdir("dir"));
    DO(chmod(".", 0));
    CALL(opened("inner", O_RDONLY));
    CALL(opened(".", O_RDONLY));
    CALL(stat(".", &status));
    CALL(stat("inner", &status));
    CALL(stat("..", &status));
    CALL(chdir(".."));
    CALL(chdir("dir"));
    DO(chdir(here));
    CALL(chmod("dir", 0755));
    int reader = DO(open("file", O_RDONLY)), both = DO(open("empty", O_RDWR));
    DO(chmod("file", 0));
    DO(chmod("empty", 0));
    CALL(read(reader, &status, 4));
    CALL(write(both, "x", 1));
    CALL(ftruncate(both, 0));
    CALL(fchmod(both, 0600));
}

static void dropped(void)
{
    CALL(setgroups(0, NULL));
    CALL(setresgid(65534, 65534, 65534));
    CALL(setresuid(65534, 65534, 65534));
    CALL(geteuid() != 0);
    CALL(opened("secret", O_RDONLY));
    CALL(opened("file", O_RDONLY));
    CALL(opened("file", O_WRONLY));
    CALL(opened("new", O_CREAT | O_RDWR));
    CALL(access("file", W_OK));
    CALL(chmod("file", 0666));
    CALL(unlink("file"));
    CALL(chown("file", 65534, -1));
    CALL(mkdir("new", 0755));
    CALL(opened("../../others/open/mine", O_CREAT | O_RDWR));
}

static void becoming_another(void)
{
    in_child("another user", dropped);
}

const struct part users_parts[] = {
    {"others", others}, {"others-folders", others_folders}, {"ones-own", ones_own},
    {"folders-without", folders_without}, {"a-lost-right", a_lost_right},
    {"becoming-another", becoming_another}, {0},
};
