/* Bytes that move inside the kernel: sendfile, splice, tee, vmsplice, copy_file_range, clones. */
#include "../case.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>

static int file, target, reader, writer, dir, path, ends[2];

static void made(void)
{
    file = DO(open("file", O_RDWR));
    target = DO(open("empty", O_RDWR));
    reader = DO(open("file", O_RDONLY));
    writer = DO(open("empty", O_WRONLY));
    dir = DO(open("dir", O_RDONLY));
    path = DO(open("file", O_PATH));
    DO(pipe2(ends, O_NONBLOCK));
}

static void from_pipe(void)
{
    char bytes[64] = "";
    CALL(read(ends[0], bytes, 60));
    SHOW("came", "%s", bytes);
}

static void sending(void)
{
    off_t at = 2, early = -1, late = 100;
    made();
    CALL(sendfile(ends[1], reader, NULL, 4));
    CALL(lseek(reader, 0, SEEK_CUR));
    CALL(sendfile(ends[1], reader, &at, 4));
    CALL(lseek(reader, 0, SEEK_CUR));
    SHOW("at", "%ld", (long)at);
    from_pipe();
    CALL(sendfile(target, reader, NULL, 100));
    show_file("empty");
    CALL(sendfile(target, reader, NULL, 100));
    CALL(sendfile(ends[1], reader, &late, 4));
    CALL(sendfile(ends[1], reader, &early, 4));
    CALL(sendfile(reader, file, NULL, 4));
    CALL(sendfile(target, writer, NULL, 4));
    CALL(sendfile(target, ends[0], NULL, 4));
    CALL(sendfile(target, dir, NULL, 4));
    CALL(sendfile(target, path, NULL, 4));
    CALL(sendfile(999, reader, NULL, 4));
    CALL(sendfile(target, 999, NULL, 4));
    CALL(sendfile(target, reader, nowhere(), 4));
    CALL(fcntl(target, F_SETFL, O_APPEND));
    CALL(sendfile(target, reader, NULL, 4));
}

static void splicing(void)
{
    off_t at = 1, to = 3;
    int others[2];
    made();
    DO(pipe2(others, O_NONBLOCK));
    CALL(splice(reader, NULL, ends[1], NULL, 4, 0));
    CALL(lseek(reader, 0, SEEK_CUR));
    CALL(splice(reader, &at, ends[1], NULL, 3, SPLICE_F_MOVE));
    SHOW("at", "%ld", (long)at);
    CALL(tee(ends[0], others[1], 5, 0));
    CALL(splice(ends[0], NULL, target, &to, 100, 0));
    show_file("empty");
    CALL(splice(others[0], NULL, ends[1], NULL, 100, 0));
    from_pipe();
    CALL(splice(ends[0], NULL, target, NULL, 10, SPLICE_F_NONBLOCK));
    CALL(splice(reader, NULL, target, NULL, 4, 0));
    CALL(splice(ends[0], &at, target, NULL, 4, 0));
    CALL(splice(reader, NULL, ends[0], NULL, 4, 0));
    CALL(splice(dir, NULL, ends[1], NULL, 4, 0));
    CALL(splice(999, NULL, ends[1], NULL, 4, 0));
    CALL(splice(reader, NULL, 999, NULL, 4, 0));
    CALL(splice(reader, NULL, ends[1], NULL, 4, 0x100));
    CALL(splice(reader, NULL, ends[1], NULL, 0, 0));
    CALL(splice(reader, nowhere(), ends[1], NULL, 4, 0));
    CALL(tee(ends[0], ends[1], 4, 0));
    CALL(tee(reader, ends[1], 4, 0));
    struct iovec part = {"vector", 6};
    CALL(vmsplice(ends[1], &part, 1, 0));
    CALL(vmsplice(reader, &part, 1, 0));
    CALL(vmsplice(ends[1], nowhere(), 1, 0));
}

static void copying(void)
{
    off_t from = 2, to = 5, early = -1;
    made();
    CALL(copy_file_range(reader, NULL, target, NULL, 4, 0));
    CALL(lseek(reader, 0, SEEK_CUR));
    CALL(lseek(target, 0, SEEK_CUR));
    CALL(copy_file_range(reader, &from, target, &to, 100, 0));
    SHOW("at", "%ld %ld", (long)from, (long)to);
    show_file("empty");
    CALL(copy_file_range(reader, &from, target, &to, 100, 0));
    CALL(copy_file_range(reader, NULL, target, NULL, 4, 1));
    CALL(copy_file_range(writer, NULL, target, NULL, 4, 0));
    CALL(copy_file_range(reader, NULL, reader, NULL, 4, 0));
    from = 0, to = 2;
    CALL(copy_file_range(file, &from, file, &to, 4, 0));
    CALL(copy_file_range(dir, NULL, target, NULL, 4, 0));
    CALL(copy_file_range(reader, NULL, dir, NULL, 4, 0));
    CALL(copy_file_range(ends[0], NULL, target, NULL, 4, 0));
    CALL(copy_file_range(path, NULL, target, NULL, 4, 0));
    CALL(copy_file_range(999, NULL, target, NULL, 4, 0));
    CALL(copy_file_range(reader, &early, target, NULL, 4, 0));
    CALL(copy_file_range(reader, nowhere(), target, NULL, 4, 0));
    CALL(fcntl(target, F_SETFL, O_APPEND));
    CALL(copy_file_range(reader, NULL, target, NULL, 4, 0));
}

static void controls(void)
{
    int flags = -1, length = -1;
    made();
    CALL(ioctl(target, FICLONE, reader));
    CALL(ioctl(target, FICLONERANGE, nowhere()));
    CALL(ioctl(reader, FS_IOC_GETFLAGS, &flags));
    CALL(ioctl(reader, FIGETBSZ, &length));
    SHOW("block", "%d", length);
    CALL(ioctl(reader, FIOQSIZE, &length));
    CALL(ioctl(reader, FIONBIO, &(int){1}));
    CALL(fcntl(reader, F_GETFL) & O_NONBLOCK);
    CALL(ioctl(reader, FIOCLEX));
    CALL(fcntl(reader, F_GETFD));
    CALL(ioctl(reader, FIONCLEX));
    CALL(fcntl(reader, F_GETFD));
    CALL(ioctl(reader, 0xdead));
    CALL(ioctl(999, FIONCLEX));
    CALL(ioctl(path, FIGETBSZ, &length));
}

const struct part movers_parts[] = {
    {"sending", sending}, {"splicing", splicing}, {"copying", copying}, {"controls", controls}, {0},
};
