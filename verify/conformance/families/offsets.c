/* Where and how long: lseek with data and holes, truncate, ftruncate, fallocate. */
#include "../case.h"

enum { PAGE = 4096 };

static void seeking(void)
{
    int fd = DO(open("file", O_RDWR)), dir = DO(open("dir", O_RDONLY));
    CALL(lseek(fd, 3, SEEK_SET));
    CALL(lseek(fd, 2, SEEK_CUR));
    CALL(lseek(fd, -4, SEEK_CUR));
    CALL(lseek(fd, -2, SEEK_CUR));
    CALL(lseek(fd, -1, SEEK_END));
    CALL(lseek(fd, 100, SEEK_END));
    CALL(lseek(fd, -11, SEEK_END));
    CALL(lseek(fd, -1, SEEK_SET));
    CALL(lseek(fd, INT64_MAX, SEEK_SET));
    CALL(lseek(fd, INT64_MAX, SEEK_CUR));
    CALL(lseek(fd, 1ll << 40, SEEK_SET));
    CALL(lseek(fd, 0, 9));
    CALL(lseek(fd, 0, -1));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(lseek(dir, 0, SEEK_SET));
    CALL(lseek(dir, -1, SEEK_SET));
    CALL(lseek(-1, 0, SEEK_SET));
}

static void holes(void)
{
    int fd = DO(open("holes", O_RDWR | O_CREAT, 0600));
    DO(pwrite(fd, "a", 1, 0));
    DO(pwrite(fd, "b", 1, 16 * PAGE));
    DO(ftruncate(fd, 32 * PAGE));
    CALL(lseek(fd, 0, SEEK_DATA));
    CALL(lseek(fd, 0, SEEK_HOLE));
    CALL(lseek(fd, PAGE, SEEK_DATA));
    CALL(lseek(fd, 16 * PAGE, SEEK_HOLE));
    CALL(lseek(fd, 20 * PAGE, SEEK_DATA));
    CALL(lseek(fd, 32 * PAGE, SEEK_DATA));
    CALL(lseek(fd, 32 * PAGE, SEEK_HOLE));
    CALL(lseek(fd, 33 * PAGE, SEEK_HOLE));
    CALL(lseek(fd, -1, SEEK_DATA));
    CALL(lseek(fd, 0, SEEK_CUR));
    int empty = DO(open("empty", O_RDONLY));
    CALL(lseek(empty, 0, SEEK_DATA));
    CALL(lseek(empty, 0, SEEK_HOLE));
    int dir = DO(open("dir", O_RDONLY));
    CALL(lseek(dir, 0, SEEK_DATA) >= 0);
}

static void by_name(void)
{
    CALL(truncate("file", 4));
    show_file("file");
    CALL(truncate("link", 6));
    show_file("file");
    CALL(truncate("file", -1));
    CALL(truncate("file", INT64_MAX));
    CALL(truncate("dir", 0));
    CALL(truncate("fifo", 0));
    CALL(truncate("missing", 0));
    CALL(truncate("dangling", 0));
    CALL(truncate("loop", 0));
    CALL(truncate("file/", 0));
    CALL(truncate("", 0));
    CALL(truncate(nowhere(), 0));
    CALL(truncate("/dev/null", 0));
    CALL(truncate("readonly", 2));
    show_file("file");
}

static void by_descriptor(void)
{
    char byte = 'x';
    int fd = DO(open("file", O_RDWR)), reader = DO(open("file", O_RDONLY)), dir = DO(open("dir", O_RDONLY));
    CALL(lseek(fd, 0, SEEK_END));
    CALL(ftruncate(fd, 3));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(read(fd, &byte, 1));
    CALL(write(fd, "y", 1));
    show_file("file");
    CALL(ftruncate(fd, 5000));
    CALL(pread(reader, &byte, 1, 4999));
    SHOW("byte", "%d", byte);
    CALL(ftruncate(fd, -1));
    CALL(ftruncate(fd, INT64_MAX));
    CALL(ftruncate(reader, 0));
    CALL(ftruncate(dir, 0));
    CALL(ftruncate(-1, 0));
    CALL(ftruncate(999, 0));
    CALL(ftruncate(fd, 0));
    CALL(read(reader, &byte, 1));
}

static void allocation(void)
{
    int fd = DO(open("file", O_RDWR)), reader = DO(open("file", O_RDONLY)), dir = DO(open("dir", O_RDONLY));
    int ends[2];
    DO(pipe(ends));
    CALL(fallocate(fd, 0, 0, 100));
    show_file("file");
    CALL(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 100000));
    show_file("file");
    CALL(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 3));
    show_file("file");
    CALL(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 2, 3));
    CALL(fallocate(fd, FALLOC_FL_ZERO_RANGE, 5, 2));
    show_file("file");
    CALL(fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 1, 1));
    CALL(fallocate(fd, 0x4000, 0, 1));
    CALL(fallocate(fd, 0, -1, 1));
    CALL(fallocate(fd, 0, 0, 0));
    CALL(fallocate(fd, 0, 0, -1));
    CALL(fallocate(fd, 0, INT64_MAX, 1));
    CALL(fallocate(reader, 0, 0, 1));
    CALL(fallocate(dir, 0, 0, 1));
    CALL(fallocate(ends[1], 0, 0, 1));
    CALL(fallocate(-1, 0, 0, 1));
    CALL(posix_fallocate(fd, 0, 200));
    CALL(posix_fallocate(fd, 0, -1));
    CALL(posix_fallocate(reader, 0, 1));
    CALL(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    CALL(posix_fadvise(fd, 0, 0, 77));
    CALL(posix_fadvise(ends[0], 0, 0, POSIX_FADV_NORMAL));
    CALL(posix_fadvise(-1, 0, 0, POSIX_FADV_NORMAL));
    CALL(readahead(fd, 0, 100));
    CALL(readahead(dir, 0, 100));
    CALL(readahead(-1, 0, 100));
    show_file("file");
}

const struct part offsets_parts[] = {
    {"seeking", seeking}, {"holes", holes}, {"by-name", by_name},
    {"by-descriptor", by_descriptor}, {"allocation", allocation}, {0},
};
