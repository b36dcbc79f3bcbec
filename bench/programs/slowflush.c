/* A flush that takes longer: LD_PRELOAD=slowflush.so HELIOSTAT_SLOW_FLUSH_US=100 PROGRAM.
 *
 * The calls that make a file durable return so much later: fdatasync, fsync, msync with MS_SYNC, pwritev2 with RWF_DSYNC,
 * and pwrite to what was opened with O_DSYNC. For files in memory, where these calls cost nothing. One flush at a time, as
 * Linux gives them to a disk: who asks meanwhile shares the next one. It lasts as backend/block's LatencyDevice has it:
 * a sleep, since that ends late only until shortly before, and then others may have the core. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_US 1000ULL
#define NS_PER_S 1000000000ULL
/* What is left of a wait when the thread begins to look at the clock. */
#define SPIN_NS (50 * NS_PER_US)

static uint64_t extra_ns;

__attribute__((constructor)) static void read_extra(void)
{
    const char *text = getenv("HELIOSTAT_SLOW_FLUSH_US");
    extra_ns = text ? strtoull(text, NULL, 10) * NS_PER_US : 0;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void last_extra(void)
{
    uint64_t ends = now_ns() + extra_ns;
    if (extra_ns > SPIN_NS) {
        uint64_t ns = extra_ns - SPIN_NS;
        struct timespec span = {ns / NS_PER_S, ns % NS_PER_S};
        nanosleep(&span, NULL);
    }
    while (now_ns() < ends)
        sched_yield();
}

/* Returns when a flush has ended that began after this was called. */
static void wait_extra(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
    static uint64_t begun, ended;
    if (!extra_ns)
        return;
    pthread_mutex_lock(&lock);
    uint64_t mine = begun + 1;
    while (ended < mine) {
        if (begun > ended) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        begun++;
        pthread_mutex_unlock(&lock);
        last_extra();
        pthread_mutex_lock(&lock);
        ended = begun;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
}

int fdatasync(int fd)
{
    int answer = syscall(SYS_fdatasync, fd);
    wait_extra();
    return answer;
}

int fsync(int fd)
{
    int answer = syscall(SYS_fsync, fd);
    wait_extra();
    return answer;
}

int msync(void *at, size_t bytes, int flags)
{
    int answer = syscall(SYS_msync, at, bytes, flags);
    if (flags & MS_SYNC)
        wait_extra();
    return answer;
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
    ssize_t answer = syscall(SYS_pwrite64, fd, from, bytes, offset);
    if (extra_ns && fcntl(fd, F_GETFL) & O_DSYNC)
        wait_extra();
    return answer;
}

ssize_t pwrite64(int fd, const void *from, size_t bytes, off64_t offset)
{
    return pwrite(fd, from, bytes, offset);
}

ssize_t pwritev2(int fd, const struct iovec *pieces, int count, off_t offset, int flags)
{
    ssize_t answer = syscall(SYS_pwritev2, fd, pieces, count, offset, 0, flags);
    if (flags & RWF_DSYNC)
        wait_extra();
    return answer;
}

ssize_t pwritev64v2(int fd, const struct iovec *pieces, int count, off64_t offset, int flags)
{
    return pwritev2(fd, pieces, count, offset, flags);
}
