/* A worker that writes anything into its rings and its window: records of random bytes, then a ring that is none. */
#include "heliostat_lean_host.h"

static uint64_t drawn(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 16;
}

int main(int count, char **words)
{
    static const uint32_t kinds[] = {1, 2, 3, 5, 6, 7, 8, 10, 12, 16, 17, 224, 225, 226, 227, 228, 229};
    uint64_t state = 88172645463325252ull, records = count > 1 ? (uint64_t)atoi(words[1]) : 1000;
    hl_lean lean;
    if (hl_host_attach(&lean))
        return 9;
    for (uint64_t number = 0; number < records; number++) {
        hl_operation asked = hl_operation_of(kinds[drawn(&state) % (sizeof kinds / sizeof *kinds)], hl_nothing());
        hl_ticket ticket;
        asked.pieces = (uint32_t)(drawn(&state) % 3);
        asked.object.index = (uint32_t)drawn(&state) % 8;
        asked.object.generation = (uint32_t)drawn(&state) % 3;
        asked.offset = drawn(&state) % 2 ? 0 : drawn(&state);
        asked.argument = drawn(&state) % 4 ? drawn(&state) % 300 : drawn(&state);
        asked.timeout_us = 1000;
        for (uint32_t piece = 0; piece < 2; piece++)
            asked.piece[piece] = (hl_piece){drawn(&state) % (lean.window_bytes + 99), (uint32_t)(drawn(&state) % 5000), 0};
        if (hl_begin(&lean, (uint32_t)(drawn(&state) % 2), &asked, &ticket) == 0)
            hl_finish(&lean, ticket, 0);
        *(uint64_t *)((uint8_t *)hl_payload(&lean) + drawn(&state) % (1 << 20) / 8 * 8) = drawn(&state);
    }
    for (uint64_t word = 0; word < HL_SUBMISSION_BYTES / 8; word++)
        ((uint64_t *)(lean.rings[word % 2] + HL_RING_DATA_AT))[word] = drawn(&state);
    hl_ring(lean.rings[0]);
    hl_ring(lean.rings[1]);
    sleep(1);
    return 0;
}
