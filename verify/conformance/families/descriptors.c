/* Descriptors: dup, fcntl, close, sharing over fork, and opening them again by /proc/self/fd. */
#include "../case.h"

#include <sys/resource.h>
#include <sys/socket.h>

static int shared;

static void numbers(void)
{
    int fd = CALL(open("file", O_RDONLY));
    CALL(dup(fd));
    CALL(dup2(fd, 20));
    CALL(dup2(fd, fd));
    CALL(dup2(fd, -1));
    CALL(dup2(fd, 1 << 30));
    CALL(dup2(999, 21));
    CALL(dup2(999, 999));
    CALL(dup(-1));
    CALL(dup(999));
    CALL(dup3(fd, 22, O_CLOEXEC));
    CALL(fcntl(22, F_GETFD));
    CALL(dup3(fd, fd, 0));
    CALL(dup3(fd, 23, O_APPEND));
    CALL(dup3(999, 23, 0));
    CALL(fcntl(fd, F_DUPFD, 30));
    CALL(fcntl(fd, F_DUPFD, 30));
    CALL(fcntl(fd, F_DUPFD_CLOEXEC, 30));
    CALL(fcntl(32, F_GETFD));
    CALL(fcntl(fd, F_DUPFD, -1));
    CALL(fcntl(fd, F_DUPFD, 1 << 30));
    CALL(fcntl(fd, F_SETFD, FD_CLOEXEC));
    CALL(fcntl(fd, F_GETFD));
    CALL(fcntl(20, F_GETFD));
    CALL(fcntl(fd, 9999));
    CALL(fcntl(999, F_GETFD));
    CALL(close(20));
    CALL(close(20));
    CALL(close(-1));
    CALL(open("file", O_RDONLY));
    CALL(close(4));
    CALL(open("file", O_RDONLY));
    CALL(close_range(30, 40, 0));
    CALL(fcntl(31, F_GETFD));
    CALL(close_range(40, 30, 0));
    CALL(close_range(22, 22, CLOSE_RANGE_CLOEXEC));
    CALL(close_range(22, 22, 0x100));
}

static void offsets(void)
{
    char bytes[8] = "";
    int fd = DO(open("file", O_RDWR)), twin = DO(dup(fd)), other = DO(open("file", O_RDWR));
    CALL(read(fd, bytes, 3));
    CALL(lseek(twin, 0, SEEK_CUR));
    CALL(lseek(other, 0, SEEK_CUR));
    CALL(lseek(twin, 7, SEEK_SET));
    CALL(read(fd, bytes, 3));
    SHOW("bytes", "%s", bytes);
    CALL(fcntl(fd, F_SETFL, O_APPEND));
    CALL(fcntl(twin, F_GETFL) & O_APPEND);
    CALL(fcntl(other, F_GETFL) & O_APPEND);
    CALL(close(fd));
    CALL(lseek(twin, 0, SEEK_CUR));
    CALL(fcntl(twin, F_SETFL, O_DIRECT | O_NOATIME));
    CALL(fcntl(twin, F_SETFL, -1) >= -1);
}

static void child_reads(void)
{
    char bytes[8] = "";
    CALL(read(shared, bytes, 3));
    SHOW("bytes", "%s", bytes);
    CALL(lseek(shared, 1, SEEK_CUR));
    CALL(close(shared));
}

static void children(void)
{
    char bytes[8] = "";
    shared = DO(open("file", O_RDONLY));
    CALL(read(shared, bytes, 2));
    in_child("child", child_reads);
    CALL(lseek(shared, 0, SEEK_CUR));
    in_child("child", child_reads);
    CALL(read(shared, bytes, 5));
}

static const char *by_number(int fd)
{
    static char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

static void show_target(int fd)
{
    char target[PATH_MAX] = "";
    if (CALL(readlink(by_number(fd), target, sizeof target - 1)) < 0)
        return;
    size_t length = strlen(here);
    int numbered = strncmp(target, "pipe:", 5) == 0 || strncmp(target, "socket:", 7) == 0;
    SHOW("target", "%s", strncmp(target, here, length) == 0 ? target + length : numbered ? "numbered" : target);
}

static void again(void)
{
    char bytes[8] = "";
    int reader = DO(open("file", O_RDONLY)), path = DO(open("file", O_PATH)), dir = DO(open("dir", O_RDONLY)), ends[2];
    int secret = DO(open("file", O_RDONLY)), fd;
    DO(pipe(ends));
    CALL(fd = open(by_number(reader), O_RDWR));
    CALL(write(fd, "ab", 2));
    CALL(lseek(reader, 0, SEEK_CUR));
    CALL(fd = open(by_number(path), O_RDONLY));
    CALL(read(fd, bytes, 4));
    SHOW("bytes", "%s", bytes);
    CALL(open(by_number(path), O_RDONLY | O_NOFOLLOW));
    CALL(open(by_number(path), O_PATH | O_NOFOLLOW) >= 0);
    CALL(open(by_number(dir), O_RDONLY | O_DIRECTORY) >= 0);
    /* The other end of a pipe is not tried: a sealed program gets none that it does not hold. */
    CALL(open(by_number(999), O_RDONLY));
    CALL(open("/proc/self/fd/x", O_RDONLY));
    CALL(open("/dev/fd/0", O_RDONLY) >= 0);
    CALL(access("/proc/self/fd/0/x", F_OK));
    snprintf(bytes, sizeof bytes, "%d", dir);
    CALL(faccessat(DO(open("/proc/self/fd", O_RDONLY)), bytes, F_OK, 0));
    show_target(reader);
    show_target(dir);
    show_target(path);
    show_target(ends[0]);
    DO(rename("file", "moved"));
    show_target(reader);
    DO(unlink("moved"));
    show_target(reader);
    CALL(open(by_number(secret), O_RDONLY) >= 0);
    CALL(linkat(AT_FDCWD, by_number(secret), AT_FDCWD, "back", AT_SYMLINK_FOLLOW));
    CALL(truncate(by_number(secret), 1));
    CALL(chmod(by_number(secret), 0600));
    char inside[64];
    snprintf(inside, sizeof inside, "/proc/self/fd/%d/inner", dir);
    CALL(access(inside, F_OK));
    CALL(open(inside, O_RDONLY) >= 0);
    snprintf(inside, sizeof inside, "/proc/self/fd/%d/../empty", dir);
    CALL(open(inside, O_RDONLY) >= 0);
    snprintf(inside, sizeof inside, "/proc/thread-self/fd/%d", reader);
    CALL(open(inside, O_RDONLY) >= 0);
}

static void listed(void)
{
    int low = DO(open("file", O_RDONLY)), count = 0, seen = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int number = atoi(entry->d_name);
        seen += entry->d_name[0] != '.' && number == low;
        count += entry->d_name[0] != '.' && number <= 2;
    }
    SHOW("/proc/self/fd", "%d standard descriptors, the file %d", count, seen);
}

static void exhausted(void)
{
    struct rlimit limit = {16, 16};
    int ends[2], count = 0;
    CALL(setrlimit(RLIMIT_NOFILE, &limit));
    for (count = 0; count < 100 && open("file", O_RDONLY) >= 0; count++)
        ;
    SHOW("opened", "%d", count);
    CALL(open("file", O_RDONLY));
    CALL(open("missing", O_RDONLY));
    CALL(openat(AT_FDCWD, "new", O_CREAT | O_RDWR, 0600));
    CALL(access("new", F_OK));
    CALL(dup(0));
    CALL(pipe(ends));
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    CALL(fcntl(0, F_DUPFD, 3));
    CALL(fcntl(0, F_DUPFD, 16));
    CALL(dup2(0, 15));
    CALL(dup2(0, 16));
    CALL_P(opendir("dir"));
    CALL(close(5));
    CALL(open("file", O_RDONLY));
}

const struct part descriptors_parts[] = {
    {"numbers", numbers}, {"offsets", offsets}, {"children", children}, {"again", again},
    {"listed", listed}, {"exhausted", exhausted}, {0},
};
