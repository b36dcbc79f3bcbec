/* More lanes at once than there are slots: 12 emulated warps, each of whose lanes reads by itself. */
#include "../conformance/lean/fibers.h"

#include "heliostat_lean_host.h"

#include <stdio.h>

enum { WARPS = 12, ROUNDS = 50, WORDS = 1024 };

static hl_lean lean;
static hl_object file;
static struct warp warps[WARPS], alone;
static int wrong;

static void read_words(void *nothing)
{
    uint32_t lane = (uint32_t)own_warp->number * LANES + HL_LANE();
    volatile uint64_t *own = (uint64_t *)hl_payload(&lean) + lane;
    (void)nothing;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t word = (lane + round * 7) % WORDS;
        hl_operation asked = hl_transfer(&lean, HL_OP_READ, file, word * 8, (void *)own, 8);
        if (hl_warp_each(&lean, HL_FILES, &asked, (hl_result *)0) != 8 || *own != word * word)
            __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
    }
}

static void *run_warp(void *number)
{
    struct warp *own = &warps[(intptr_t)number];
    own->number = (int)(intptr_t)number;
    fiber_run(own, read_words, 0);
    return 0;
}

int main(int count, char **words)
{
    char name[512];
    pthread_t threads[WARPS];
    uint64_t *all;
    /* The header's waits give way to other lanes, of which this thread has none. */
    own_warp = &alone;
    for (int lane = 1; lane < LANES; lane++)
        alone.is_over[lane] = 1;
    snprintf(name, sizeof name, "%s/words", count > 1 ? words[1] : ".");
    if (hl_host_attach(&lean) || hl_create(&lean, name, 0600, &file))
        return 1;
    all = hl_payload(&lean);
    for (uint64_t word = 0; word < WORDS; word++)
        all[word] = word * word;
    if (hl_write(&lean, file, 0, all, WORDS * 8) != WORDS * 8 || hl_write(&lean, file, 0, all, (1ull << 32) + 1) != -HL_EINVAL)
        return 2;
    for (intptr_t number = 0; number < WARPS; number++)
        pthread_create(&threads[number], 0, run_warp, (void *)number);
    for (int number = 0; number < WARPS; number++)
        pthread_join(threads[number], 0);
    printf("%d warps, %d wrong\n", WARPS, wrong);
    return wrong != 0;
}
