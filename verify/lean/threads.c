/* Many threads on one worker's memory: each has a file of its own and a part of one that all share,
 * writes, reads back and compares; more operations are wanted at once than there are slots.
 * `threads FOLDER THREADS ROUNDS` */
#include "heliostat_lean_host.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { PART = 4096, BATCH = 24 };

static hl_lean lean;
static hl_object shared;
static const char *folder;
static int rounds;

static int round_of(uint64_t number, hl_object own, uint8_t *part, int round)
{
    hl_ticket ticket[BATCH];
    uint8_t *back = part + PART;
    memset(part, (int)(number * 31 + (uint64_t)round), PART);
    if (hl_write(&lean, own, (uint64_t)round % 7 * PART, part, PART) != PART)
        return 1;
    if (hl_write(&lean, shared, number * PART, part, PART) != PART)
        return 2;
    for (int each = 0; each < BATCH; each++) {
        hl_operation asked = hl_transfer(&lean, HL_OP_READ, shared, number * PART, back + each * 64, 64);
        if (hl_begin(&lean, HL_FILES, &asked, &ticket[each]))
            return 3;
    }
    for (int each = 0; each < BATCH; each++)
        if (hl_finish(&lean, ticket[each], 0) != 64 || memcmp(back + each * 64, part, 64))
            return 4;
    if (hl_read(&lean, own, (uint64_t)round % 7 * PART, back, PART) != PART || memcmp(back, part, PART))
        return 5;
    return 0;
}

static void *run(void *argument)
{
    uint64_t number = (uint64_t)argument;
    char name[512];
    hl_object own;
    uint8_t *part = (uint8_t *)hl_payload(&lean) + number * 4 * PART;
    snprintf(name, sizeof name, "%s/own-%llu", folder, (unsigned long long)number);
    if (hl_create(&lean, name, 0600, &own))
        return (void *)6;
    for (int round = 0; round < rounds; round++) {
        int wrong = round_of(number, own, part, round);
        if (wrong)
            return (void *)(uint64_t)wrong;
    }
    return (void *)(uint64_t)(hl_close(&lean, own) || hl_unlink(&lean, name) ? 7 : 0);
}

int main(int count, char **words)
{
    pthread_t thread[64];
    char name[512];
    int threads = count > 2 ? atoi(words[2]) : 8, failed = 0;
    folder = words[1];
    rounds = count > 3 ? atoi(words[3]) : 100;
    snprintf(name, sizeof name, "%s/shared", folder);
    if (hl_host_attach(&lean) || hl_create(&lean, name, 0600, &shared))
        return 9;
    for (uint64_t number = 0; number < (uint64_t)threads; number++)
        pthread_create(&thread[number], 0, run, (void *)number);
    for (int number = 0; number < threads; number++) {
        void *wrong;
        pthread_join(thread[number], &wrong);
        if (wrong)
            printf("thread %d: step %llu\n", number, (unsigned long long)wrong), failed = 1;
    }
    printf("%d threads, %d rounds\n", threads, rounds);
    return failed;
}
