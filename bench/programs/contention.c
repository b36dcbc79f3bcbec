/* Metadata and descriptor operations of many threads in one directory and one descriptor table.
 *
 * contention FOLDER THREADS SECONDS
 * FOLDER is made, filled and removed. Prints "ready" and waits for a line on standard input, so that
 * who measures can attach; then all threads begin at once. A turn of a thread is seven calls: open of
 * a file that all use, dup of the descriptor, fstat, close of both, creation of a file of its own name,
 * its removal. Prints
 * {"calls": N, "seconds": S, "p50_ns": N, "p99_ns": N, "mean_ns": N, "delay_ns": N, "cpu_ns": N}
 *   calls, p50, p99, mean   of single calls, wall time
 *   delay                   what threads waited for a core, in all (/proc/thread-self/schedstat)
 *   cpu                     processor time of the process
 * Every answer is checked; the first wrong one ends the program with 1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 16, PER_OCTAVE = 16, OCTAVES = 40, THREADS_MAX = 4096 };

struct thread {
    pthread_t id;
    int number;
    unsigned long calls, sum_ns, delay_ns;
    unsigned buckets[OCTAVES * PER_OCTAVE];
};

static const char *folder;
static atomic_bool stop;
static pthread_barrier_t begin;
static struct thread *threads;

static unsigned long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ul + t.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "contention: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int bucket_of(unsigned long ns)
{
    int octave = 0;
    for (unsigned long left = ns; left >= 2 * PER_OCTAVE; left >>= 1)
        octave++;
    int place = octave * PER_OCTAVE + (int)(ns >> octave);
    return place < OCTAVES * PER_OCTAVE ? place : OCTAVES * PER_OCTAVE - 1;
}

static double ns_of(int bucket)
{
    if (bucket < 2 * PER_OCTAVE)
        return bucket;
    int octave = bucket / PER_OCTAVE - 1;
    return (double)(bucket - octave * PER_OCTAVE) * (1ul << octave);
}

static int timed(struct thread *own, unsigned long *from, int answer, const char *what)
{
    unsigned long now = now_ns();
    if (answer < 0)
        fail(what);
    own->buckets[bucket_of(now - *from)]++;
    own->sum_ns += now - *from;
    own->calls++;
    *from = now_ns();
    return answer;
}

static unsigned long delay_ns(void)
{
    char text[128] = "";
    unsigned long run = 0, delay = 0;
    int fd = open("/proc/thread-self/schedstat", O_RDONLY);
    if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
        sscanf(text, "%lu %lu", &run, &delay);
    if (fd >= 0)
        close(fd);
    return delay;
}

static void *work(void *argument)
{
    struct thread *own = argument;
    char shared[4096], mine[4096];
    snprintf(mine, sizeof mine, "%s/own-%d", folder, own->number);
    pthread_barrier_wait(&begin);
    unsigned long before = delay_ns();
    for (unsigned turn = own->number; !stop; turn++) {
        struct stat status;
        snprintf(shared, sizeof shared, "%s/%u", folder, turn % FILES);
        unsigned long from = now_ns();
        int fd = timed(own, &from, open(shared, O_RDONLY), "open");
        int copy = timed(own, &from, dup(fd), "dup");
        timed(own, &from, fstat(copy, &status), "fstat");
        timed(own, &from, close(fd), "close");
        timed(own, &from, close(copy), "close");
        if (!S_ISREG(status.st_mode))
            fail("fstat of what was opened");
        int made = open(mine, O_CREAT | O_EXCL | O_WRONLY, 0600);
        timed(own, &from, made, "create");
        if (close(made) != 0)
            fail("close");
        from = now_ns();
        timed(own, &from, unlink(mine), "unlink");
    }
    own->delay_ns = delay_ns() - before;
    return NULL;
}

static double share_ns(const unsigned long *sums, unsigned long calls, double share)
{
    unsigned long wanted = calls * share, seen = 0;
    for (int bucket = 0; bucket < OCTAVES * PER_OCTAVE; bucket++)
        if ((seen += sums[bucket]) > wanted)
            return ns_of(bucket);
    return 0;
}

static void tell(int count, double seconds, unsigned long cpu_ns)
{
    static unsigned long sums[OCTAVES * PER_OCTAVE];
    unsigned long calls = 0, sum_ns = 0, delay = 0;
    for (int one = 0; one < count; one++) {
        for (int bucket = 0; bucket < OCTAVES * PER_OCTAVE; bucket++)
            sums[bucket] += threads[one].buckets[bucket];
        calls += threads[one].calls;
        sum_ns += threads[one].sum_ns;
        delay += threads[one].delay_ns;
    }
    printf("{\"calls\": %lu, \"seconds\": %.4f, \"p50_ns\": %.0f, \"p99_ns\": %.0f, \"mean_ns\": %.1f, "
           "\"delay_ns\": %lu, \"cpu_ns\": %lu}\n",
           calls, seconds, share_ns(sums, calls, 0.5), share_ns(sums, calls, 0.99),
           calls ? (double)sum_ns / calls : 0, delay, cpu_ns);
}

static unsigned long cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ul + t.tv_nsec;
}

static void fill(int create)
{
    char path[4096];
    if (create && mkdir(folder, 0700) != 0)
        fail("mkdir");
    for (int file = 0; file < FILES; file++) {
        snprintf(path, sizeof path, "%s/%d", folder, file);
        int fd = create ? open(path, O_CREAT | O_WRONLY, 0600) : unlink(path);
        if (fd < 0)
            fail(path);
        if (create)
            close(fd);
    }
    if (!create && rmdir(folder) != 0)
        fail("rmdir");
}

int main(int argc, char **argv)
{
    int count = argc == 4 ? atoi(argv[2]) : 0;
    double seconds = argc == 4 ? atof(argv[3]) : 0;
    if (count < 1 || count > THREADS_MAX || seconds <= 0) {
        fprintf(stderr, "contention FOLDER THREADS SECONDS\n");
        return 2;
    }
    folder = argv[1];
    struct rlimit limit = { 65536, 65536 };
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0
        && limit.rlim_cur < 4u * count)
        fail("descriptors");
    threads = calloc(count, sizeof *threads);
    pthread_barrier_init(&begin, NULL, count + 1);
    fill(1);
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF)
        fail("a line to begin");
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int one = 0; one < count; one++) {
        threads[one].number = one;
        if (!threads || pthread_create(&threads[one].id, &small, work, &threads[one]) != 0)
            fail("threads");
    }
    pthread_barrier_wait(&begin);
    unsigned long from = now_ns(), cpu = cpu_ns();
    struct timespec span = { (time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9) };
    nanosleep(&span, NULL);
    stop = 1;
    for (int one = 0; one < count; one++)
        pthread_join(threads[one].id, NULL);
    cpu = cpu_ns() - cpu;
    double passed = (now_ns() - from) / 1e9;
    fill(0);
    tell(count, passed, cpu);
    return 0;
}
