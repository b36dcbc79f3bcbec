/* Does what it is told to files, and says exactly what came of it.
 *
 * reader PATH...      commands on standard input, answers on standard output
 *
 * A batch is a count (u32) and that many commands; its answers are written together. The same
 * commands go to one reader under plain Linux and to one under Heliostat: every answer must be
 * equal, number by number and byte by byte.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 16, BYTES_MAX = 1 << 17 };

enum operation {
    OPEN, CLOSE, PREAD, READ, SEEK, READV, PREADV, DUP, SIZE, CHILD_READS, INTO_NOWHERE,
    SENDFILE, PWRITE, TRUNCATE, SPLICE, THREAD_READS, HALF_NOWHERE, PREADV2, LOCK_HERE,
};

struct command {
    uint32_t operation, slot;
    int64_t offset;
    uint64_t length;
    int64_t argument;
};

struct answer {
    int64_t result;
    int32_t error;
    uint32_t bytes;
};

static int slots[SLOTS];
static char **paths;
static char buffer[BYTES_MAX];
static char *nowhere; /* a page that nothing may touch, after one that may be written */

static struct iovec *three(uint64_t length)
{
    static struct iovec parts[3];
    size_t first = length / 3, second = length / 5;
    parts[0] = (struct iovec){buffer, first};
    parts[1] = (struct iovec){buffer + first, second};
    parts[2] = (struct iovec){buffer + first + second, length - first - second};
    return parts;
}

/* A forked child reads from the shared offset; the parent passes its bytes on. */
static int64_t child_reads(int fd, uint64_t length)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        ssize_t got = read(fd, buffer, length);
        int64_t told = got < 0 ? -errno : got;
        (void)!write(ends[1], &told, sizeof told);
        for (ssize_t at = 0; at < got;)
            at += write(ends[1], buffer + at, got - at);
        _exit(0);
    }
    close(ends[1]);
    int64_t told = -EIO;
    (void)!read(ends[0], &told, sizeof told);
    for (int64_t at = 0; at < told;) {
        ssize_t some = read(ends[0], buffer + at, told - at);
        if (some <= 0)
            break;
        at += some;
    }
    close(ends[0]);
    waitpid(child, NULL, 0);
    if (told < 0)
        errno = -told;
    return told < 0 ? -1 : told;
}

static int64_t through_pipe(int fd, uint64_t length, int by_splice)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    length = length < 32768 ? length : 32768;
    int64_t moved = by_splice ? splice(fd, NULL, ends[1], NULL, length, 0)
                              : sendfile(ends[1], fd, NULL, length);
    int error = errno;
    close(ends[1]);
    for (int64_t at = 0; at < moved;)
        at += read(ends[0], buffer + at, moved - at);
    close(ends[0]);
    errno = error;
    return moved;
}

struct order {
    int fd;
    uint64_t length;
    int64_t offset, result;
    int error;
};

static void *read_elsewhere(void *given)
{
    struct order *order = given;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    order->result = pread(order->fd, buffer, order->length, order->offset);
    order->error = errno;
    return NULL;
}

static int64_t thread_reads(int fd, uint64_t length, int64_t offset)
{
    struct order order = {fd, length, offset, -1, 0};
    pthread_t thread;
    if (pthread_create(&thread, NULL, read_elsewhere, &order) != 0)
        return -1;
    pthread_join(thread, NULL);
    errno = order.error;
    return order.result;
}

static int64_t open_slot(const struct command *c)
{
    if (slots[c->slot] >= 0)
        close(slots[c->slot]);
    slots[c->slot] = open(paths[c->argument & 0xff], (int)(c->argument >> 8), 0600);
    return slots[c->slot] < 0 ? -1 : 0;
}

static int64_t duplicate(const struct command *c)
{
    int to = c->argument % SLOTS;
    if (slots[to] >= 0)
        close(slots[to]);
    slots[to] = c->length % 2 ? fcntl(slots[c->slot], F_DUPFD_CLOEXEC, 3) : dup(slots[c->slot]);
    return slots[to] < 0 ? -1 : 0;
}

/* How many bytes of `buffer` the answer brings is its result, where that is a number of bytes. */
static int64_t obey(const struct command *c, int *brings)
{
    int fd = slots[c->slot];
    uint64_t length = c->length < BYTES_MAX ? c->length : BYTES_MAX;
    struct flock here = {.l_type = F_RDLCK, .l_whence = SEEK_CUR, .l_start = 0, .l_len = 1};
    struct stat status;
    *brings = 1;
    switch ((enum operation)c->operation) {
    case PREAD: return pread(fd, buffer, length, c->offset);
    case READ: return read(fd, buffer, length);
    case READV: return readv(fd, three(length), 3);
    case PREADV: return preadv(fd, three(length), 3, c->offset);
    case PREADV2: return preadv2(fd, three(length), 3, c->offset, 0);
    case CHILD_READS: return child_reads(fd, length);
    case THREAD_READS: return thread_reads(fd, length, c->offset);
    case SENDFILE: return through_pipe(fd, length, 0);
    case SPLICE: return through_pipe(fd, length, 1);
    default: break;
    }
    *brings = 0;
    switch ((enum operation)c->operation) {
    case OPEN: return open_slot(c);
    case CLOSE: slots[c->slot] = -1; return close(fd);
    case SEEK: return lseek(fd, c->offset, (int)c->argument);
    case DUP: return duplicate(c);
    case SIZE: return fstat(fd, &status) ? -1 : status.st_size;
    case INTO_NOWHERE: return pread(fd, nowhere, length, c->offset);
    case HALF_NOWHERE: return pread(fd, nowhere - 100, length, c->offset);
    case PWRITE: memset(buffer, (int)c->argument, length); return pwrite(fd, buffer, length, c->offset);
    case TRUNCATE: return ftruncate(fd, c->offset);
    case LOCK_HERE: return fcntl(fd, F_OFD_GETLK, &here) ? -1 : here.l_type;
    default: errno = ENOSYS; return -1;
    }
}

static void answer(const struct command *c)
{
    int brings;
    errno = 0;
    int64_t result = obey(c, &brings);
    struct answer a = {result, result < 0 ? errno : 0, 0};
    if (brings && result > 0)
        a.bytes = result;
    fwrite(&a, sizeof a, 1, stdout);
    fwrite(buffer, 1, a.bytes, stdout);
}

int main(int count, char **words)
{
    (void)count;
    paths = words + 1;
    for (int at = 0; at < SLOTS; at++)
        slots[at] = -1;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    nowhere = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, flags, -1, 0) + 4096;
    mprotect(nowhere, 4096, PROT_NONE);
    uint32_t many;
    while (fread(&many, sizeof many, 1, stdin) == 1) {
        for (struct command c; many > 0 && fread(&c, sizeof c, 1, stdin) == 1; many--) {
            c.slot %= SLOTS;
            answer(&c);
        }
        fflush(stdout);
    }
    return 0;
}
