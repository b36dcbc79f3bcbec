/* Many threads fetch small files, some at once, and compare every byte. What fails is said by errno.
 * `fetches FOLDER THREADS ROUNDS [FILES]`: each thread fetches so many files in a round, 4 if nothing is said. */
#include "heliostat_lean_host.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { FILES = 16, BYTES = 1000, ERRNOS = 134 };

static hl_lean lean;
static const char *folder;
static int rounds;
static uint64_t at_once = 4;
static uint32_t failed[ERRNOS], wrong;

static void name_of(char *name, size_t room, uint64_t number) { snprintf(name, room, "%s/file-%llu", folder, (unsigned long long)number); }

static void check(int64_t got, const uint8_t *bytes, uint64_t number)
{
    if (got < 0) {
        __atomic_add_fetch(&failed[-got < ERRNOS ? -got : 0], 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t at = 0; got == BYTES && at < BYTES; at++)
        if (bytes[at] != (uint8_t)(number * 7 + (uint64_t)at)) got = 0;
    if (got != BYTES) __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

static void *run(void *argument)
{
    uint64_t own = (uint64_t)argument;
    uint8_t *room = (uint8_t *)hl_payload(&lean) + own * at_once * 1024;
    char name[HL_FETCHES][512];
    hl_fetch each[HL_FETCHES];
    for (int round = 0; round < rounds; round++) {
        for (uint64_t at = 0; at < at_once; at++) {
            name_of(name[at], sizeof name[at], (own + (uint64_t)round + at) % FILES);
            each[at] = (hl_fetch){name[at], 0, room + at * 1024, 1024, {0, 0}, 0};
        }
        if (hl_fetch_begin(&lean, each, (uint32_t)at_once)) return (void *)1;
        for (uint64_t at = 0; at < at_once; at++)
            check(hl_fetch_end(&lean, &each[at]), each[at].into, (own + (uint64_t)round + at) % FILES);
    }
    return 0;
}

static int make_files(void)
{
    uint8_t *bytes = (uint8_t *)hl_payload(&lean);
    for (uint64_t number = 0; number < FILES; number++) {
        char name[512], own[600];
        hl_object file;
        name_of(name, sizeof name, number);
        /* Workers begin together: each makes its own, which then is the file. */
        snprintf(own, sizeof own, "%s-%u", name, lean.worker);
        for (uint64_t at = 0; at < BYTES; at++) bytes[at] = (uint8_t)(number * 7 + at);
        if (hl_create(&lean, own, 0600, &file) || hl_write(&lean, file, 0, bytes, BYTES) != BYTES) return 1;
        if (hl_close(&lean, file)) return 1;
        if (hl_rename(&lean, own, name, HL_NOREPLACE) && hl_unlink(&lean, own)) return 1;
    }
    return 0;
}

int main(int count, char **words)
{
    pthread_t thread[64];
    int threads = count > 2 ? atoi(words[2]) : 4, over = 0;
    folder = words[1];
    rounds = count > 3 ? atoi(words[3]) : 100;
    at_once = count > 4 ? strtoull(words[4], 0, 10) : at_once;
    if (at_once > HL_FETCHES || hl_fetch_begin(&lean, 0, HL_FETCHES + 1) != -HL_EINVAL) return 8;
    if (hl_host_attach(&lean) || make_files()) return 9;
    for (uint64_t number = 0; number < (uint64_t)threads; number++) pthread_create(&thread[number], 0, run, (void *)number);
    for (int number = 0; number < threads; number++) {
        void *how;
        pthread_join(thread[number], &how);
        over += how != 0;
    }
    for (int number = 0; number < ERRNOS; number++)
        if (failed[number]) printf("errno %d: %u times\n", number, failed[number]);
    printf("%d fetched, %u wrong, %d threads over\n", threads * rounds * (int)at_once, wrong, over);
    for (int number = 0; number < ERRNOS; number++) wrong += failed[number];
    return wrong || over;
}
