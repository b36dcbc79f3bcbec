/* open(2), openat(2), openat2(2), creat(2): flags, modes and what they leave behind. */
#include "../case.h"

#include <linux/openat2.h>

static int opened(const char *path, int flags, mode_t mode)
{
    int fd = open(path, flags, mode);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -1 : 0;
}

static void creation(void)
{
    struct stat status;
    CALL(opened("new", O_RDONLY, 0));
    CALL(opened("new", O_CREAT, 0640));
    CALL(opened("new", O_CREAT, 0600));
    CALL(opened("new", O_CREAT | O_EXCL, 0600));
    CALL(opened("new2", O_CREAT | O_EXCL | O_WRONLY, 06777));
    DO(stat("new2", &status));
    show_status("new2", &status);
    CALL(opened("new3", O_CREAT | O_RDWR, 0));
    CALL(opened("dir/new", O_CREAT | O_WRONLY, 0666));
    CALL(opened("missing/new", O_CREAT | O_WRONLY, 0666));
    CALL(opened("file/new", O_CREAT | O_WRONLY, 0666));
    CALL(opened("dir", O_CREAT, 0666));
    CALL(opened("dir", O_CREAT | O_WRONLY, 0666));
    CALL(opened("dir", O_CREAT | O_EXCL, 0666));
    CALL(opened("link", O_CREAT | O_EXCL, 0666));
    CALL(opened("dangling", O_CREAT | O_EXCL, 0666));
    CALL(opened("dangling", O_CREAT | O_WRONLY, 0604));
    CALL(opened("nowhere", O_RDONLY, 0));
    CALL(opened("slash/", O_CREAT | O_WRONLY, 0666));
    CALL(opened("file/", O_CREAT | O_WRONLY, 0666));
    CALL(opened("loop", O_CREAT | O_WRONLY, 0666));
    CALL(opened("", O_CREAT | O_WRONLY, 0666));
    CALL(creat("created", 0444) >= 0 ? 0 : -1);
    CALL(creat("readonly", 0666) >= 0 ? 0 : -1);
    CALL(creat("dir", 0666));
    show_names(".");
}

static void masks(void)
{
    static const mode_t masks[] = {0, 022, 077, 0777, 0111};
    struct stat status;
    for (size_t at = 0; at < sizeof masks / sizeof *masks; at++) {
        char name[16];
        snprintf(name, sizeof name, "masked%zu", at);
        umask(masks[at]);
        CALL(opened(name, O_CREAT | O_WRONLY, 0777));
        DO(stat(name, &status));
        show_status(name, &status);
    }
    CALL(umask(022));
    CALL(umask(01234567));
    CALL(umask(0));
}

static void truncation(void)
{
    CALL(opened("file", O_RDWR | O_TRUNC, 0));
    show_file("file");
    put("file", "again");
    CALL(opened("link", O_WRONLY | O_TRUNC | O_CREAT, 0600));
    show_file("file");
    put("file", "again");
    CALL(opened("file", O_RDONLY | O_TRUNC, 0));
    show_file("file");
    CALL(opened("dir", O_RDONLY | O_TRUNC, 0));
    CALL(opened("fifo", O_RDWR | O_TRUNC, 0));
    CALL(opened("file", O_WRONLY | O_TRUNC | O_NOFOLLOW, 0));
    CALL(opened("link", O_WRONLY | O_TRUNC | O_NOFOLLOW, 0));
}

static void access_modes(void)
{
    char byte = 0;
    int fd = CALL(open("file", O_RDONLY));
    CALL(write(fd, "x", 1));
    CALL(read(fd, &byte, 1));
    CALL(ftruncate(fd, 3));
    CALL(close(fd));
    CALL(close(fd));
    fd = CALL(open("file", O_WRONLY));
    CALL(read(fd, &byte, 1));
    CALL(write(fd, "x", 1));
    CALL(close(fd));
    fd = CALL(open("file", O_ACCMODE));
    CALL(read(fd, &byte, 1));
    CALL(write(fd, "x", 1));
    CALL(fcntl(fd, F_GETFL) & O_ACCMODE);
    CALL(close(fd));
    CALL(opened("dir", O_WRONLY, 0));
    CALL(opened("dir", O_RDWR, 0));
    CALL(opened("dir", O_RDONLY, 0));
    fd = CALL(open("dir", O_RDONLY));
    CALL(read(fd, &byte, 1));
    CALL(write(fd, &byte, 1));
    CALL(close(fd));
    show_file("file");
}

static void appending(void)
{
    int fd = CALL(open("file", O_WRONLY | O_APPEND));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(write(fd, "AB", 2));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(lseek(fd, 2, SEEK_SET));
    CALL(write(fd, "CD", 2));
    CALL(pwrite(fd, "EF", 2, 0));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(fcntl(fd, F_SETFL, 0));
    CALL(pwrite(fd, "GH", 2, 0));
    CALL(fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK));
    CALL(fcntl(fd, F_GETFL) & (O_APPEND | O_NONBLOCK));
    CALL(write(fd, "IJ", 2));
    show_file("file");
    CALL(opened("made", O_WRONLY | O_APPEND | O_CREAT | O_TRUNC, 0600));
}

static void kinds(void)
{
    CALL(opened("file", O_DIRECTORY, 0));
    CALL(opened("dir", O_DIRECTORY, 0));
    CALL(opened("dirlink", O_DIRECTORY, 0));
    CALL(opened("dirlink", O_DIRECTORY | O_NOFOLLOW, 0));
    CALL(opened("link", O_DIRECTORY, 0));
    CALL(opened("dangling", O_DIRECTORY, 0));
    CALL(opened("dir", O_DIRECTORY | O_RDWR, 0));
    CALL(opened("newdir", O_DIRECTORY | O_CREAT, 0700));
    CALL(opened("dir", O_DIRECTORY | O_CREAT, 0700));
    CALL(opened("link", O_NOFOLLOW, 0));
    CALL(opened("dangling", O_NOFOLLOW, 0));
    CALL(opened("loop", O_NOFOLLOW, 0));
    CALL(opened("dirlink/inner", O_NOFOLLOW, 0));
    CALL(opened("dirlink/", O_NOFOLLOW, 0));
    CALL(opened("file", O_NOFOLLOW, 0));
    CALL(opened("fifo", O_NONBLOCK, 0));
    CALL(opened("fifo", O_NONBLOCK | O_WRONLY, 0));
    CALL(opened("fifo", O_NONBLOCK | O_RDWR, 0));
    CALL(opened("fifo", O_DIRECTORY, 0));
    CALL(opened("fifo", O_CREAT | O_RDWR, 0600));
    CALL(opened("fifo", O_CREAT | O_EXCL | O_RDWR, 0600));
}

static void by_path(void)
{
    struct stat status;
    char byte, target[16] = "";
    int fd = CALL(open("file", O_PATH));
    CALL(read(fd, &byte, 1));
    CALL(write(fd, &byte, 1));
    CALL(lseek(fd, 0, SEEK_SET));
    CALL(ftruncate(fd, 0));
    CALL(fchmod(fd, 0600));
    CALL(fchown(fd, -1, -1));
    CALL(fsync(fd));
    CALL(fstat(fd, &status));
    show_status("by path", &status);
    CALL(fcntl(fd, F_GETFL) & (O_PATH | O_ACCMODE));
    CALL(fcntl(fd, F_GETFD));
    CALL(fcntl(fd, F_SETFL, O_APPEND));
    CALL(openat(fd, "inner", O_RDONLY));
    CALL(fchdir(fd));
    CALL(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
    CALL(close(fd));
    CALL(fd = open("link", O_PATH | O_NOFOLLOW));
    CALL(fstat(fd, &status));
    show_status("the link", &status);
    CALL(readlinkat(fd, "", target, sizeof target));
    SHOW("target", "%s", target);
    CALL(close(fd));
    CALL(opened("link", O_PATH | O_NOFOLLOW | O_DIRECTORY, 0));
    CALL(opened("secret", O_PATH, 0));
    CALL(opened("missing", O_PATH, 0));
    CALL(opened("missing", O_PATH | O_CREAT, 0600));
    CALL(opened("loop", O_PATH, 0));
    CALL(opened("loop", O_PATH | O_NOFOLLOW, 0));
    CALL(fd = open("dir", O_PATH | O_CLOEXEC | O_DIRECTORY));
    CALL(fcntl(fd, F_GETFD));
    CALL(openat(fd, "inner", O_RDONLY) >= 0);
    CALL(fstatat(fd, "sub", &status, 0));
    CALL(fchdir(fd));
    CALL(access("inner", F_OK));
}

static void unnamed(void)
{
    char name[64];
    struct stat status;
    int fd = CALL(open(".", O_TMPFILE | O_RDWR, 0640));
    CALL(write(fd, "tmp", 3));
    CALL(fstat(fd, &status));
    show_status("unnamed", &status);
    show_names(".");
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    CALL(linkat(AT_FDCWD, name, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    show_file("named");
    CALL(linkat(AT_FDCWD, name, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    CALL(close(fd));
    CALL(opened("file", O_TMPFILE | O_RDWR, 0600));
    CALL(opened("missing", O_TMPFILE | O_RDWR, 0600));
    CALL(opened("dir", O_TMPFILE, 0600));
    CALL(opened("dir", O_TMPFILE | O_WRONLY, 0600));
    fd = CALL(open("dir", O_TMPFILE | O_WRONLY | O_EXCL, 0600));
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    CALL(linkat(AT_FDCWD, name, AT_FDCWD, "named2", AT_SYMLINK_FOLLOW));
    CALL(fd = open("dir", O_TMPFILE | O_RDWR, 0600));
    CALL(linkat(fd, "", AT_FDCWD, "named3", AT_EMPTY_PATH));
    show_names("dir");
}

static void by_descriptor(void)
{
    int dir = CALL(open("dir", O_RDONLY)), file = CALL(open("file", O_RDONLY));
    char absolute[PATH_MAX + 16];
    snprintf(absolute, sizeof absolute, "%s/file", here);
    CALL(openat(dir, "inner", O_RDONLY));
    CALL(openat(dir, "../file", O_RDONLY));
    CALL(openat(dir, "../../../../../../../../../../../../..", O_RDONLY));
    CALL(openat(dir, "file", O_RDONLY));
    CALL(openat(dir, "", O_RDONLY));
    CALL(openat(dir, ".", O_RDONLY));
    CALL(openat(file, "inner", O_RDONLY));
    CALL(openat(file, "", O_RDONLY));
    CALL(openat(file, ".", O_RDONLY));
    CALL(openat(999, "inner", O_RDONLY));
    CALL(openat(-1, "inner", O_RDONLY));
    CALL(openat(999, absolute, O_RDONLY));
    CALL(openat(file, absolute, O_RDONLY));
    CALL(openat(dir, "new", O_CREAT | O_RDWR, 0600));
    show_names("dir");
    CALL(rename("dir", "moved"));
    CALL(openat(dir, "inner", O_RDONLY));
    CALL(openat(dir, "../file", O_RDONLY));
    DO(mkdir("deep", 0755));
    CALL(rename("moved", "deep/moved"));
    CALL(openat(dir, "../file", O_RDONLY));
    CALL(openat(dir, "../../file", O_RDONLY));
}

static long how(int dir, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve)
{
    struct open_how how = {.flags = flags, .mode = mode, .resolve = resolve};
    long result;
    // The kernel gives up where "..", while somebody renames anything anywhere, might lead out.
    do
        result = syscall(SYS_openat2, dir, path, &how, sizeof how);
    while (result < 0 && errno == EAGAIN);
    return result < 0 ? -1 : 0;
}

static void second_version(void)
{
    struct { struct open_how how; uint64_t more; } longer = {0};
    int dir = DO(open("dir", O_RDONLY));
    CALL(how(AT_FDCWD, "file", O_RDONLY, 0, 0));
    CALL(how(AT_FDCWD, "file", O_RDONLY, 0600, 0));
    CALL(how(AT_FDCWD, "new", O_CREAT | O_RDWR, 0600, 0));
    CALL(how(AT_FDCWD, "new2", O_CREAT | O_RDWR, 01000000, 0));
    CALL(how(AT_FDCWD, "file", 1ull << 40, 0, 0));
    CALL(how(AT_FDCWD, "file", O_RDONLY, 0, 1ull << 40));
    CALL(how(dir, "inner", O_RDONLY, 0, RESOLVE_BENEATH));
    CALL(how(dir, "../file", O_RDONLY, 0, RESOLVE_BENEATH));
    CALL(how(dir, "sub/../inner", O_RDONLY, 0, RESOLVE_BENEATH));
    CALL(how(AT_FDCWD, "absolute", O_RDONLY, 0, RESOLVE_BENEATH));
    CALL(how(AT_FDCWD, "link", O_RDONLY, 0, RESOLVE_BENEATH));
    CALL(how(AT_FDCWD, "link", O_RDONLY, 0, RESOLVE_NO_SYMLINKS));
    CALL(how(AT_FDCWD, "dirlink/inner", O_RDONLY, 0, RESOLVE_NO_SYMLINKS));
    CALL(how(AT_FDCWD, "file", O_RDONLY, 0, RESOLVE_NO_SYMLINKS));
    CALL(how(AT_FDCWD, "/proc/self/fd/0", O_RDONLY, 0, RESOLVE_NO_MAGICLINKS));
    CALL(how(dir, "/inner", O_RDONLY, 0, RESOLVE_IN_ROOT));
    CALL(how(dir, "../../inner", O_RDONLY, 0, RESOLVE_IN_ROOT));
    CALL(how(dir, "..", O_PATH, 0, RESOLVE_NO_XDEV));
    CALL(how(AT_FDCWD, "link", O_PATH | O_NOFOLLOW, 0, 0));
    CALL(how(AT_FDCWD, "dir", O_DIRECTORY | O_CREAT, 0600, 0));
    CALL(syscall(SYS_openat2, AT_FDCWD, "file", &longer, 8));
    CALL(syscall(SYS_openat2, AT_FDCWD, "file", &longer, sizeof longer) >= 0);
    longer.more = 1;
    CALL(syscall(SYS_openat2, AT_FDCWD, "file", &longer, sizeof longer));
    CALL(syscall(SYS_openat2, AT_FDCWD, "file", nowhere(), 24));
    CALL(syscall(SYS_openat2, AT_FDCWD, nowhere(), &longer, 24));
}

static void other_flags(void)
{
    int fd = CALL(open("file", O_RDONLY | O_CLOEXEC));
    CALL(fcntl(fd, F_GETFD));
    CALL(fd = open("file", O_RDWR | O_SYNC));
    CALL(fcntl(fd, F_GETFL) & O_SYNC);
    CALL(fd = open("file", O_RDWR | O_DSYNC));
    CALL(fcntl(fd, F_GETFL) & O_SYNC);
    CALL(fd = open("file", O_RDONLY | O_NOATIME));
    CALL(fcntl(fd, F_GETFL) & O_NOATIME);
    CALL(fd = open("file", O_RDWR | O_DIRECT));
    CALL(fcntl(fd, F_GETFL) & O_DIRECT);
    CALL(write(fd, "odd", 3));
    CALL(fd = open("file", O_RDONLY | O_NONBLOCK | O_NOCTTY));
    CALL(fcntl(fd, F_GETFL) & (O_NONBLOCK | O_NOCTTY));
    CALL(open("file", O_RDONLY | 0x40000000) >= 0);
    CALL(open("file", O_RDONLY | O_ASYNC) >= 0);
}

const struct part open_parts[] = {
    {"creation", creation}, {"masks", masks}, {"truncation", truncation},
    {"access-modes", access_modes}, {"appending", appending}, {"kinds", kinds},
    {"by-path", by_path}, {"unnamed", unnamed}, {"by-descriptor", by_descriptor},
    {"second-version", second_version}, {"other-flags", other_flags}, {0},
};
