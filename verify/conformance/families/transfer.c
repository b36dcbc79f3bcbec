/* Bytes: read, write, pread, pwrite, readv, writev, preadv2, pwritev2; ends, limits and pipes. */
#include "../case.h"

#include <poll.h>
#include <sys/ioctl.h>

static char bytes[256];

static struct iovec *two(size_t first, size_t second)
{
    static struct iovec parts[2];
    parts[0] = (struct iovec){bytes, first};
    parts[1] = (struct iovec){bytes + 100, second};
    return parts;
}

static void show_bytes(int count)
{
    SHOW("bytes", "\"%.*s\" \"%.*s\"", count, bytes, count, bytes + 100);
}

static void reading(void)
{
    int fd = DO(open("file", O_RDONLY));
    CALL(read(fd, bytes, 4));
    CALL(read(fd, bytes, 0));
    CALL(read(fd, NULL, 0));
    CALL(read(fd, nowhere(), 0));
    CALL(read(fd, bytes, 100));
    CALL(read(fd, bytes, 100));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(pread(fd, bytes, 5, 0));
    CALL(pread(fd, bytes, 5, 8));
    CALL(pread(fd, bytes, 5, 10));
    CALL(pread(fd, bytes, 5, 1000));
    CALL(pread(fd, bytes, 5, -1));
    CALL(pread(fd, bytes, 5, INT64_MAX));
    CALL(pread(fd, bytes, 0, -1));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(lseek(fd, 3, SEEK_SET));
    CALL(readv(fd, two(3, 2), 2));
    show_bytes(3);
    CALL(readv(fd, two(3, 2), 0));
    CALL(readv(fd, two(3, 2), -1));
    CALL(readv(fd, two(3, 2), 1025));
    CALL(readv(fd, nowhere(), 1));
    CALL(readv(fd, two((size_t)-1, 2), 2));
    CALL(preadv(fd, two(4, 4), 2, 1));
    show_bytes(4);
    CALL(preadv(fd, two(4, 4), 2, -1));
    CALL(preadv(fd, two(4, 4), 2, 9));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(read(fd, bytes, (size_t)-1) >= 0 ? 0 : -1);
}

static void writing(void)
{
    int fd = DO(open("file", O_RDWR));
    CALL(write(fd, "ab", 2));
    CALL(write(fd, "ab", 0));
    CALL(write(fd, NULL, 0));
    CALL(pwrite(fd, "XY", 2, 8));
    CALL(pwrite(fd, "Z", 1, 12));
    CALL(pwrite(fd, "Z", 1, -1));
    CALL(pwrite(fd, "", 0, -1));
    CALL(lseek(fd, 0, SEEK_CUR));
    strcpy(bytes, "one");
    strcpy(bytes + 100, "two");
    CALL(writev(fd, two(3, 3), 2));
    CALL(writev(fd, two(0, 0), 2));
    CALL(writev(fd, two(3, 3), -1));
    CALL(pwritev(fd, two(3, 1), 2, 20));
    CALL(pwritev(fd, two(3, 1), 2, -1));
    CALL(lseek(fd, 0, SEEK_CUR));
    show_file("file");
    CALL(lseek(fd, 100, SEEK_SET));
    CALL(write(fd, "end", 3));
    CALL(pread(fd, bytes, 10, 60));
    SHOW("hole", "%d", bytes[0]);
    show_file("file");
}

static void second_version(void)
{
    int fd = DO(open("file", O_RDWR));
    CALL(preadv2(fd, two(2, 2), 2, 0, 0));
    CALL(preadv2(fd, two(2, 2), 2, -1, 0));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(preadv2(fd, two(2, 2), 2, 0, RWF_HIPRI));
    CALL(preadv2(fd, two(2, 2), 2, 0, RWF_NOWAIT));
    CALL(preadv2(fd, two(2, 2), 2, 0, 0x40000000));
    CALL(preadv2(fd, two(2, 2), 2, -2, 0));
    strcpy(bytes, "1st");
    strcpy(bytes + 100, "2nd");
    CALL(pwritev2(fd, two(3, 3), 2, 0, RWF_DSYNC));
    CALL(pwritev2(fd, two(3, 3), 2, 0, RWF_SYNC));
    CALL(pwritev2(fd, two(3, 3), 2, 0, RWF_APPEND));
    CALL(pwritev2(fd, two(3, 3), 2, -1, 0));
    CALL(pwritev2(fd, two(3, 3), 2, 0, 0x40000000));
    CALL(lseek(fd, 0, SEEK_CUR));
    show_file("file");
}

static void wrong_descriptors(void)
{
    int closed = DO(dup(0)), dir = DO(open("dir", O_RDONLY)), path = DO(open("file", O_PATH));
    close(closed);
    int fds[] = {-1, closed, 100000, INT_MAX, dir, path};
    for (size_t at = 0; at < sizeof fds / sizeof *fds; at++) {
        int fd = fds[at];
        CALL(read(fd, bytes, 1));
        CALL(write(fd, bytes, 1));
        CALL(pread(fd, bytes, 1, 0));
        CALL(pwrite(fd, bytes, 1, 0));
        CALL(readv(fd, two(1, 1), 2));
        CALL(writev(fd, two(1, 1), 2));
        CALL(preadv2(fd, two(1, 1), 2, 0, 0));
    }
}

static void pipes(void)
{
    int ends[2], count = -1;
    CALL(pipe(ends));
    CALL(write(ends[1], "pipe", 4));
    CALL(ioctl(ends[0], FIONREAD, &count));
    SHOW("to read", "%d", count);
    CALL(read(ends[0], bytes, 2));
    CALL(pread(ends[0], bytes, 2, 0));
    CALL(pwrite(ends[1], bytes, 2, 0));
    CALL(lseek(ends[0], 0, SEEK_CUR));
    CALL(read(ends[1], bytes, 2));
    CALL(write(ends[0], bytes, 2));
    CALL(ftruncate(ends[1], 0));
    CALL(fsync(ends[1]));
    close(ends[1]);
    CALL(read(ends[0], bytes, 10));
    CALL(read(ends[0], bytes, 10));
    CALL(pipe2(ends, O_NONBLOCK | O_CLOEXEC));
    CALL(read(ends[0], bytes, 10));
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    CALL(write(ends[1], "x", 1));
    CALL(pipe2(ends, 0x800000));
    CALL(pipe(nowhere()));
}

static void broken_pipe(void)
{
    int ends[2];
    DO(pipe(ends));
    close(ends[0]);
    CALL(write(ends[1], "x", 1));
}

static void write_to_fifo(void)
{
    int fd = open("fifo", O_WRONLY);
    DO(write(fd, "through", 7));
}

static void fifos(void)
{
    struct stat status;
    pid_t child = fork();
    if (child == 0) {
        write_to_fifo();
        _exit(0);
    }
    int fd = CALL(open("fifo", O_RDONLY));
    CALL(read(fd, bytes, 7));
    SHOW("through", "%.7s", bytes);
    waitpid(child, NULL, 0);
    CALL(read(fd, bytes, 7));
    CALL(lseek(fd, 0, SEEK_SET));
    CALL(fstat(fd, &status));
    show_status("fifo", &status);
    struct pollfd one = {fd, POLLIN, 0};
    CALL(poll(&one, 1, 0));
    SHOW("events", "%x", one.revents);
    int both = CALL(open("fifo", O_RDWR));
    CALL(write(both, "self", 4));
    CALL(read(fd, bytes, 10));
    CALL(fcntl(both, F_GETPIPE_SZ));
}

static void broken(void)
{
    in_child("a write to a broken pipe", broken_pipe);
}

static void ready(void)
{
    struct pollfd both[] = {{DO(open("file", O_RDWR)), POLLIN | POLLOUT | POLLPRI, 0}, {DO(open("dir", O_RDONLY)), POLLIN, 0}};
    int count = -1;
    CALL(poll(both, 2, 0));
    SHOW("events", "%x %x", both[0].revents, both[1].revents);
    CALL(ioctl(both[0].fd, FIONREAD, &count));
    SHOW("to read", "%d", count);
    CALL(lseek(both[0].fd, 4, SEEK_SET));
    CALL(ioctl(both[0].fd, FIONREAD, &count));
    SHOW("to read", "%d", count);
    CALL(ioctl(both[0].fd, TIOCGWINSZ, bytes));
    CALL(isatty(both[0].fd) ? 0 : -1);
    CALL(ioctl(both[1].fd, FIONREAD, &count));
}

const struct part transfer_parts[] = {
    {"reading", reading}, {"writing", writing}, {"second-version", second_version},
    {"wrong-descriptors", wrong_descriptors}, {"pipes", pipes}, {"broken", broken},
    {"fifos", fifos}, {"ready", ready}, {0},
};
