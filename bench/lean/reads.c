/* Random reads of a file by a worker: `reads WAY FILE BYTES SECONDS [PORT]`, one JSON line.
 *
 *   lean    the worker's stub asks the host's server loops; bytes go into its window
 *   staged  a host thread reads and copies into the worker's memory, which it rings by a futex
 *   relay   the worker has a connection to a file server on the host, and its own TCP stack
 *   plain   the worker makes the system call: no co-processor at all
 */
#include "heliostat_lean_host.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { SAMPLES_MAX = 1 << 20 };

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t drawn(void)
{
    static uint64_t state = 88172645463325252ull;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 8;
}

/* What a staging host thread and its worker share. */
static struct {
    uint32_t asked, answered;
    uint64_t offset, bytes;
    int fd;
    uint8_t *own, *staged;
} stage;

static void *stage_for_worker(void *unused)
{
    for (uint32_t turn = 1;; turn++) {
        while (__atomic_load_n(&stage.asked, __ATOMIC_ACQUIRE) != turn)
            hl_host_sleep(&stage.asked, turn - 1);
        ssize_t got = pread(stage.fd, stage.own, stage.bytes, (off_t)stage.offset);
        memcpy(stage.staged, stage.own, got > 0 ? (size_t)got : 0);
        __atomic_store_n(&stage.answered, turn, __ATOMIC_RELEASE);
        hl_host_wake(&stage.answered);
    }
    return unused;
}

static int read_staged(uint64_t offset, uint64_t bytes)
{
    uint32_t turn = stage.asked + 1;
    stage.offset = offset;
    stage.bytes = bytes;
    __atomic_store_n(&stage.asked, turn, __ATOMIC_RELEASE);
    hl_host_wake(&stage.asked);
    while (__atomic_load_n(&stage.answered, __ATOMIC_ACQUIRE) != turn)
        hl_host_sleep(&stage.answered, turn - 1);
    return 1;
}

static int read_relayed(int fd, uint64_t offset, uint64_t bytes, uint8_t *into)
{
    uint64_t asked[2] = {offset, bytes};
    if (send(fd, asked, sizeof asked, 0) != sizeof asked)
        return 0;
    for (uint64_t got = 0; got < bytes;) {
        ssize_t part = recv(fd, into + got, bytes - got, 0);
        if (part <= 0)
            return 0;
        got += (uint64_t)part;
    }
    return 1;
}

static int by_value(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

int main(int count, char **words)
{
    const char *way = words[1], *name = words[2];
    uint64_t bytes = strtoull(words[3], 0, 10), ends, reads = 0;
    static uint32_t took[SAMPLES_MAX];
    int fd = -1, relay = -1, is_lean = !strcmp(way, "lean"), is_staged = !strcmp(way, "staged"), is_relay = !strcmp(way, "relay");
    hl_lean lean = {0};
    hl_object file = {0, 0};
    hl_facts facts = {0};
    uint8_t *buffer = aligned_alloc(4096, bytes < 4096 ? 4096 : bytes);
    if (is_lean) {
        if (hl_host_attach(&lean) || hl_open(&lean, name, HL_READ, 0, &file) || hl_stat(&lean, file, &facts))
            return 1;
        buffer = (uint8_t *)hl_payload(&lean);
    } else if (is_relay) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[5]))};
        int one = 1;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        relay = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(relay, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (connect(relay, (struct sockaddr *)&at, sizeof at) || recv(relay, &facts.size, 8, MSG_WAITALL) != 8)
            return 2;
    } else {
        struct stat status;
        fd = open(name, O_RDONLY);
        if (fd < 0 || fstat(fd, &status))
            return 3;
        facts.size = (uint64_t)status.st_size;
        stage.fd = fd;
        stage.own = aligned_alloc(4096, bytes < 4096 ? 4096 : bytes);
        stage.staged = buffer;
        pthread_t host;
        if (is_staged)
            pthread_create(&host, 0, stage_for_worker, 0);
    }
    ends = now_ns() + (uint64_t)(atof(words[4]) * 1e9);
    uint64_t began = now_ns(), last = began;
    while (last < ends && count) {
        uint64_t offset = drawn() % (facts.size / bytes) * bytes;
        int good = is_lean ? hl_read(&lean, file, offset, buffer, bytes) == (int64_t)bytes
            : is_staged    ? read_staged(offset, bytes)
            : is_relay     ? read_relayed(relay, offset, bytes, buffer)
                           : pread(fd, buffer, bytes, (off_t)offset) == (ssize_t)bytes;
        if (!good)
            return 4;
        uint64_t now = now_ns();
        took[reads++ % SAMPLES_MAX] = (uint32_t)(now - last);
        last = now;
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    uint64_t kept = reads < SAMPLES_MAX ? reads : SAMPLES_MAX;
    qsort(took, kept, sizeof *took, by_value);
    double seconds = (double)(last - began) / 1e9;
    printf("{\"mb_per_s\": %.1f, \"p50_us\": %.2f, \"p99_us\": %.2f, \"worker_cpu_us\": %.2f}\n", (double)reads * (double)bytes / seconds / 1e6,
           took[kept / 2] / 1e3, took[kept * 99 / 100] / 1e3,
           ((double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec) * 1e6 / (double)reads
               + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / (double)reads);
    return 0;
}
