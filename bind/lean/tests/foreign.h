/* What the fuzz targets `lean_completions` and `lean_text` do with an input: what a host may write into
 * a worker's rings, and what HELIOSTAT_LEAN may say. Behind each memory is a page that nobody may touch,
 * so that what reads or writes beyond it ends the process. */
#ifndef FOREIGN_H
#define FOREIGN_H

#define HL_NO_FUTEX
#define HL_WAKE(word) ((void)(word))
#define HL_SLEEP(word, value) abort()
#include "heliostat_lean_host.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define FOREIGN_CHECK(holds) ((holds) ? (void)0 : (fprintf(stderr, "line %d: %s\n", __LINE__, #holds), abort()))
#define FOREIGN_STEP 11

/* Memory with a page behind it, of a file or of nobody's. */
static uint8_t *foreign_memory(size_t bytes, int fd)
{
    uint8_t *all = (uint8_t *)mmap(0, bytes + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int flags = MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    FOREIGN_CHECK(all != MAP_FAILED);
    FOREIGN_CHECK(mmap(all, bytes, PROT_READ | PROT_WRITE, flags, fd, 0) == all);
    return all;
}

static void foreign_facts(uint8_t *window, uint64_t bytes)
{
    const uint64_t version = HL_VERSION, magic = HL_MAGIC;
    memcpy(window, &magic, 8);
    memcpy(window + 8, &version, 8);
    memcpy(window + 16, &bytes, 8);
}

/* A worker whose memory is new. */
static void foreign_worker(hl_lean *lean)
{
    static uint8_t *window, *rings;
    if (!window) {
        window = foreign_memory(HL_WINDOW_BYTES_MIN, -1);
        rings = foreign_memory(HL_RINGS_BYTES, -1);
    }
    memset(window, 0, HL_SCRATCH_AT);
    memset(rings, 0, HL_RINGS_BYTES);
    foreign_facts(window, HL_WINDOW_BYTES_MIN);
    FOREIGN_CHECK(hl_attach(lean, window, rings, 0) == 0);
}

/* A record as a host writes one, at the place that is looked at next: its tag is a slot's own, or not. */
static void foreign_record(hl_lean *lean, uint16_t at, uint64_t word)
{
    uint8_t *data = lean->rings[0] + HL_COMPLETION_AT + HL_RING_DATA_AT;
    uint64_t tail = lean->queue[0]->tail, mask = HL_COMPLETION_BYTES - 1;
    uint32_t slot = at & (HL_SLOTS - 1);
    hl_put64(data + ((tail + 8) & mask), at & 0x8000 ? word : hl_tag(slot, lean->queue[0]->slot[slot].serial));
    hl_put64(data + ((tail + 16) & mask), word);
    hl_put64(data + ((tail + 24) & mask), word >> 7);
    hl_put64(data + ((tail + 32) & mask), 0);
    hl_put64(data + (tail & mask), hl_header(tail, HL_COMPLETION_RECORD_BYTES));
}

/* Takes what there is: no more than there are slots, and no slot gets a result that nobody waits for. */
static void foreign_collect(hl_lean *lean)
{
    hl_queue *queue = lean->queue[0];
    uint64_t tail = queue->tail;
    uint32_t before[HL_SLOTS], taken, i;
    for (i = 0; i < HL_SLOTS; i++) before[i] = queue->slot[i].state;
    taken = hl_collect(lean, HL_FILES);
    FOREIGN_CHECK(taken <= HL_SLOTS);
    FOREIGN_CHECK(queue->tail - tail == (uint64_t)taken * (8 + HL_COMPLETION_RECORD_BYTES));
    for (i = 0; i < HL_SLOTS; i++) {
        FOREIGN_CHECK(queue->slot[i].state == before[i] || (before[i] == 1 && queue->slot[i].state == 2));
        taken -= queue->slot[i].state != before[i];
    }
    FOREIGN_CHECK((int32_t)taken >= 0);
    FOREIGN_CHECK(!queue->complete_lock);
}

/* Begins to read, where there is a slot and room. */
static void foreign_begin(hl_lean *lean, hl_ticket *ticket, uint64_t word)
{
    hl_object file = {(uint32_t)word, 1};
    hl_operation asked = hl_transfer(lean, HL_OP_READ, file, word, hl_payload(lean), 64);
    /* The host's word of what it has taken may be any: what contradicts it is noted. */
    if (!hl_fits(lean->rings[0], lean->queue[0], hl_span(1)) || !hl_try_slot(lean, HL_FILES, (uint32_t)word, ticket)) return;
    FOREIGN_CHECK(hl_submit(lean, &asked, ticket, 1) == 0);
}

static void foreign_finish(hl_lean *lean, hl_ticket ticket)
{
    hl_result result = {0, 0, 0};
    if (lean->queue[0]->slot[ticket.slot].state != 2) return;
    FOREIGN_CHECK(hl_finish(lean, ticket, &result) == result.value);
    FOREIGN_CHECK(lean->queue[0]->slot[ticket.slot].state == 0 && result.way < 256);
}

/* Entries of a directory, as the host has written them into the payload's end; its last bytes are cut off. */
static void foreign_entries(hl_lean *lean, uint64_t bytes, uint64_t cut)
{
    uint8_t *all = lean->window + lean->window_bytes - bytes;
    uint64_t at = 0, before = 0;
    hl_entry entry;
    bytes -= cut;
    while (hl_next_entry(all, bytes, &at, &entry)) {
        FOREIGN_CHECK(at > before && (const uint8_t *)entry.name + entry.name_bytes <= all + bytes);
        before = at;
    }
}

/* Steps of 11 bytes: what happens, a place, and a word. */
static void foreign_completions(const uint8_t *input, size_t bytes)
{
    hl_lean lean = {0};
    hl_ticket ticket = {0, 0};
    uint64_t listed = 0;
    foreign_worker(&lean);
    for (; bytes >= FOREIGN_STEP; input += FOREIGN_STEP, bytes -= FOREIGN_STEP) {
        uint16_t at = (uint16_t)(input[1] | input[2] << 8);
        uint64_t word;
        memcpy(&word, input + 3, 8);
        switch (input[0] % 7) {
        case 0: hl_put64(lean.rings[0] + at % (HL_RINGS_BYTES / 8) * 8, word); break;
        case 1: hl_put64(lean.rings[0] + HL_COMPLETION_AT + HL_RING_DATA_AT + at % HL_COMPLETION_BYTES / 8 * 8, word); break;
        case 2: foreign_record(&lean, at, word); break;
        case 3: foreign_begin(&lean, &ticket, word); break;
        case 4: foreign_finish(&lean, ticket); break;
        case 5:
            listed = listed < 4096 ? listed + 8 : listed;
            memcpy(lean.window + lean.window_bytes - listed, &word, 8);
            foreign_entries(&lean, listed, at % 8);
            break;
        default: foreign_collect(&lean);
        }
    }
    foreign_collect(&lean);
}

/* Descriptors that a text may name: 100 a window, 101 one of another version, 102 one that says it is
 * too small, 103 rings. */
static void foreign_descriptors(void)
{
    const uint64_t bytes[4] = {HL_WINDOW_BYTES_MIN, HL_WINDOW_BYTES_MIN, 4096, HL_RINGS_BYTES};
    for (int number = 0; number < 4; number++) {
        int fd = memfd_create("foreign", MFD_CLOEXEC);
        uint8_t *window;
        FOREIGN_CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes[number]) == 0 && dup2(fd, 100 + number) >= 0);
        close(fd);
        window = foreign_memory(4096, 100 + number);
        if (number < 3) foreign_facts(window, bytes[number]);
        if (number == 1) window[8]++;
        munmap(window, 8192);
    }
}

/* Attaches by a text: memory that is none of a worker's is refused, and nothing is left mapped. */
static void foreign_text(const uint8_t *input, size_t bytes)
{
    static int has_descriptors;
    char text[128];
    hl_lean lean = {0};
    int error;
    if (!has_descriptors++) foreign_descriptors();
    bytes = bytes < sizeof text - 1 ? bytes : sizeof text - 1;
    memcpy(text, input, bytes);
    text[bytes] = 0;
    error = hl_host_attach_text(&lean, text);
    FOREIGN_CHECK(error <= 0);
    if (error) return;
    FOREIGN_CHECK(hl_load64(lean.window) == HL_MAGIC && lean.window_bytes >= HL_WINDOW_BYTES_MIN);
    munmap(lean.window, lean.window_bytes);
    for (int which = 0; which < 2; which++)
        if (lean.rings[which]) munmap(lean.rings[which], HL_RINGS_BYTES);
}

#endif
