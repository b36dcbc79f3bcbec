/* Reads and seeks of a mapped file, and of its descriptors. */
#include "mapped_files.h"

static void positioned(void) {
    int fd = warm(0);
    off_t offsets[] = {0, 1, 4095, 4096, 99990, 99999, 100000, 100001, 1L << 40, -1, INT64_MIN, INT64_MAX, 1L << 62};
    size_t counts[] = {0, 1, 7, 8, 15, 16, 31, 33, 64, 65, 513, 4096, 65536, 200000, 1 << 20};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
        for (size_t j = 0; j < sizeof counts / sizeof *counts; j++) {
            memset(buffer, 0x55, sizeof buffer);
            ssize_t got = pread(fd, buffer, counts[j], offsets[i]);
            int error = got < 0 ? errno : 0;
            printf("pread %ld at %ld: %ld %d %x\n", (long)counts[j], (long)offsets[i], (long)got, error, sum(buffer, 70000));
        }
    SHOW("offset is untouched", lseek(fd, 0, SEEK_CUR));
    SHOW("null buffer", pread(fd, NULL, 10, 0));
    SHOW("null buffer, none", pread(fd, NULL, 0, 0));
    SHOW("null buffer at the end", pread(fd, NULL, 10, 100000));
    SHOW("kernel address", pread(fd, (void *)0xffff800000000000, 10, 0));
    SHOW("beyond user space", pread(fd, (void *)0x7fffffffe000, 1 << 20, 0));
    SHOW("not canonical", pread(fd, (void *)0x8000000000000000, 10, 0));
    SHOW("huge count", pread(fd, buffer, (size_t)1 << 62, 99990));
    SHOW("count above the most", pread(fd, buffer, 0x7ffff001, 99990));
    char *two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(two + 4096, 4096);
    SHOW("half a buffer", pread(fd, two, 8192, 0));
    SHOW("its last byte", pread(fd, two + 4095, 2, 0));
    SHOW("its first half", pread(fd, two, 4096, 0));
    mprotect(two, 4096, PROT_READ);
    SHOW("read-only buffer", pread(fd, two, 100, 0));
    mprotect(two, 4096, PROT_NONE);
    SHOW("no buffer", pread(fd, two, 100, 0));
    close(fd);
    SHOW("closed", pread(fd, buffer, 10, 0));
}

static void sequential(void) {
    int fd = warm(0);
    long total = 0, got;
    for (int i = 1; (got = read(fd, buffer + total, i * 7)) > 0; i++) total += got;
    printf("all: %ld %x\n", total, sum(buffer, total));
    SHOW("at the end", read(fd, buffer, 1));
    SHOW("set", lseek(fd, 10, SEEK_SET));
    SHOW("read 5", read(fd, buffer, 5));
    SHOW("cur", lseek(fd, 0, SEEK_CUR));
    SHOW("back", lseek(fd, -15, SEEK_CUR));
    SHOW("before the start", lseek(fd, -1, SEEK_CUR));
    SHOW("negative", lseek(fd, -1, SEEK_SET));
    SHOW("end", lseek(fd, -3, SEEK_END));
    SHOW("short", read(fd, buffer, 10));
    SHOW("before the start from the end", lseek(fd, -100001, SEEK_END));
    SHOW("beyond", lseek(fd, 1000, SEEK_END));
    SHOW("nothing there", read(fd, buffer, 10));
    SHOW("far beyond", lseek(fd, 1L << 41, SEEK_SET));
    SHOW("too far", lseek(fd, INT64_MAX, SEEK_SET));
    SHOW("overflow", lseek(fd, INT64_MAX, SEEK_CUR));
    SHOW("whence", lseek(fd, 0, 77));
    SHOW("data", lseek(fd, 5, SEEK_DATA));
    SHOW("hole", lseek(fd, 5, SEEK_HOLE));
    SHOW("hole beyond", lseek(fd, 100000, SEEK_HOLE));
    SHOW("read there", read(fd, buffer, 5));
    SHOW("set", lseek(fd, 100, SEEK_SET));
    SHOW("read none", read(fd, buffer, 0));
    SHOW("null none", read(fd, NULL, 0));
    SHOW("null", read(fd, NULL, 5));
    SHOW("cur", lseek(fd, 0, SEEK_CUR));
    SHOW("wild", read(fd, (void *)16, 5));
    SHOW("cur", lseek(fd, 0, SEEK_CUR));
    int left = 0;
    SHOW("FIONREAD", ioctl(fd, FIONREAD, &left));
    printf("left %d\n", left);
    SHOW("write", write(fd, "x", 1));
    SHOW("truncate", ftruncate(fd, 0));
    close(fd);
    SHOW("closed", read(fd, buffer, 10));
    SHOW("closed", lseek(fd, 0, SEEK_CUR));
}

static void vectors(void) {
    int fd = warm(0);
    struct iovec v[1100];
    for (int i = 0; i < 1100; i++) v[i] = (struct iovec){buffer + i * 10, i % 3 ? 10 : 0};
    int counts[] = {0, 1, 2, 3, 64, 65, 1024, 1025, -1};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        memset(buffer, 0, 20000);
        SHOW("readv", readv(fd, v, counts[i]));
        printf("%x\n", sum(buffer, 20000));
        SHOW("preadv", preadv(fd, v, counts[i], 99995));
        printf("%x\n", sum(buffer, 20000));
        SHOW("preadv2", preadv2(fd, v, counts[i], 5, 0));
        SHOW("preadv2 at the offset", preadv2(fd, v, counts[i], -1, 0));
        SHOW("preadv2 with a flag", preadv2(fd, v, counts[i], 5, RWF_HIPRI));
        SHOW("cur", lseek(fd, 0, SEEK_CUR));
    }
    v[1] = (struct iovec){NULL, 10};
    SHOW("null inside", readv(fd, v, 3));
    SHOW("cur", lseek(fd, 0, SEEK_CUR));
    v[1] = (struct iovec){NULL, 0};
    SHOW("null and empty", readv(fd, v, 3));
    v[1] = (struct iovec){buffer, (size_t)-1};
    SHOW("negative length", readv(fd, v, 3));
    SHOW("no array", readv(fd, (void *)8, 3));
    SHOW("no array, none", readv(fd, (void *)8, 0));
    SHOW("negative offset", preadv(fd, v + 2, 1, -1));
    SHOW("flag unknown", preadv2(fd, v + 2, 1, 5, 0x4000000));
    SHOW("cur", lseek(fd, 0, SEEK_CUR));
    close(fd);
}

static void descriptors(void) {
    int fd = warm(0), other = dup(fd);
    SHOW("read", read(fd, buffer, 10));
    SHOW("cur of the other", lseek(other, 0, SEEK_CUR));
    SHOW("read the other", read(other, buffer, 10));
    SHOW("cur", lseek(fd, 0, SEEK_CUR));
    int third = fcntl(fd, F_DUPFD_CLOEXEC, 50), zero = dup2(fd, 60);
    close(fd);
    SHOW("closed", read(fd, buffer, 10));
    SHOW("third", read(third, buffer, 10));
    SHOW("sixty", read(zero, buffer, 10));
    int unrelated = open("/etc/hostname", O_RDONLY);
    SHOW("onto", dup2(unrelated, zero) == zero);
    SHOW("another file", lseek(zero, 0, SEEK_CUR));
    SHOW("cur", lseek(other, 0, SEEK_CUR));
    SHOW("same", dup2(other, other) == other);
    SHOW("dup3 same", dup3(other, other, 0));
    close(unrelated), close(zero), close(third), close(other);
    int late = open(path, O_RDONLY), twin = dup(late);
    for (int i = 0; i < 600; i++) read(i % 2 ? late : twin, buffer, 10);
    SHOW("twins", lseek(late, 0, SEEK_CUR));
    close_range(late, twin, 0);
    SHOW("closed", read(twin, buffer, 10));
    int a = warm(0), b = warm(0);
    read(a, buffer, 100);
    SHOW("apart", lseek(b, 0, SEEK_CUR));
    close(a), close(b);
}

static void passed(void) {
    int pair[2], fd = warm(0), got = -1;
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    read(fd, buffer, 21);
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 1;
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    SHOW("sendmsg", sendmsg(pair[0], &message, 0));
    SHOW("recvmsg", recvmsg(pair[1], &message, 0));
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    SHOW("same offset", lseek(got, 0, SEEK_CUR));
    SHOW("read", read(got, buffer, 10));
    SHOW("moved", lseek(fd, 0, SEEK_CUR));
    SHOW("read", read(fd, buffer, 10));
    SHOW("moved", lseek(got, 0, SEEK_CUR));
    close(fd), close(got), close(pair[0]), close(pair[1]);
}

static void movers(void) {
    int fd = warm(0), out = memfd_create("out", 0), pipes[2];
    off_t at = 77;
    read(fd, buffer, 13);
    SHOW("sendfile", sendfile(out, fd, NULL, 100));
    SHOW("cur", lseek(fd, 0, SEEK_CUR));
    SHOW("sendfile at", sendfile(out, fd, &at, 100));
    SHOW("cur", lseek(fd, 0, SEEK_CUR));
    SHOW("read", read(fd, buffer, 13));
    pipe(pipes);
    SHOW("splice", splice(fd, NULL, pipes[1], NULL, 100, 0));
    SHOW("cur", lseek(fd, 0, SEEK_CUR));
    SHOW("copy_file_range", copy_file_range(fd, NULL, out, NULL, 50, 0));
    SHOW("cur", lseek(fd, 0, SEEK_CUR));
    SHOW("read", read(fd, buffer, 13));
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_CUR, .l_start = 0, .l_len = 10};
    SHOW("lock", fcntl(fd, F_OFD_SETLK, &lock));
    SHOW("read", read(fd, buffer, 13));
    int again = open(path, O_RDONLY);
    SHOW("mmap", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED);
    SHOW("getfl", fcntl(fd, F_GETFL) & O_ACCMODE);
    SHOW("fadvise", posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    SHOW("read", read(fd, buffer, 13));
    close(again), close(out), close(fd), close(pipes[0]), close(pipes[1]);
}

static void changes(void) {
    int fd = warm(0);
    char before[16], after[16];
    read(fd, buffer, 20);
    pread(fd, before, 16, 0);
    int writer = open(path, O_WRONLY);
    pwrite(writer, "CHANGED", 7, 3);
    pread(fd, after, 16, 0);
    printf("sees it: %d\n", memcmp(after + 3, "CHANGED", 7) == 0);
    SHOW("read on", read(fd, after, 10));
    pwrite(writer, before + 3, 7, 3);
    SHOW("grows", pwrite(writer, "more", 4, 100000));
    SHOW("end", lseek(fd, 0, SEEK_END));
    SHOW("new end", pread(fd, buffer, 100, 99999));
    SHOW("shrinks", ftruncate(writer, 100000));
    SHOW("end", lseek(fd, 0, SEEK_END));
    SHOW("old end", pread(fd, buffer, 100, 99999));
    close(writer);
    for (int i = 0; i < 3000; i++) pread(fd, buffer, 64, i);
    SHOW("truncate", truncate(path, 50000));
    SHOW("gone", pread(fd, buffer, 64, 60000));
    SHOW("end", lseek(fd, 0, SEEK_END));
    SHOW("truncate", truncate(path, 100000));
    SHOW("zeros", pread(fd, buffer, 64, 60000));
    printf("%x\n", sum(buffer, 64));
    unlink(path);
    SHOW("unlinked", pread(fd, buffer, 64, 100));
    close(fd);
}

static long nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* Reads a file that somebody else overwrites, until it shows; tells when it last did not. */
static int watch(void) {
    int fd = warm(0);
    long before = 0, start = nanoseconds();
    printf("mapped\n");
    fflush(stdout);
    do {
        long now = nanoseconds();
        if (pread(fd, buffer, 64, 4096) != 64) return 1;
        if (buffer[0] == '0') before = now;
    } while (buffer[0] == '0' && nanoseconds() - start < 50000000000L);
    printf("%ld\n", before);
    return 0;
}

int main(int count, char **words) {
    static const struct part parts[] = {{"positioned", positioned}, {"sequential", sequential}, {"vectors", vectors}, {"descriptors", descriptors}, {"passed", passed}, {"movers", movers}, {"changes", changes}};
    if (count < 3) return 1;
    path = words[2];
    if (strcmp(words[1], "watch") == 0) return watch();
    return run_part(words, parts, sizeof parts / sizeof *parts);
}
