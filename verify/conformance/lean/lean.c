/* The lean interface's answers: by one thread, by a warp that asks as one, or by a block that does. */
#include "fibers.h"

#include "heliostat_lean_host.h"

#include "ways.h"

#include <stdio.h>
#include <string.h>

enum { OBJECTS = 128 };

static hl_lean lean;
static int is_warps, is_blocks;
static hl_object objects[OBJECTS];
static struct warp only_warp;
/* The warp is a block by itself. */
static pthread_barrier_t only_barrier;
static int64_t block_word;
/* In the window: what goes to and comes from the host. A part for each lane is behind it. */
static uint8_t *buffer;

int lean_begin(int by_warps, int by_blocks)
{
    int error = hl_host_attach(&lean);
    is_warps = by_warps || by_blocks;
    is_blocks = by_blocks;
    only_warp.block = &only_barrier;
    pthread_barrier_init(&only_barrier, 0, 1);
    buffer = (uint8_t *)hl_payload(&lean);
    for (int number = 0; number < OBJECTS; number++)
        objects[number].index = 0xffffffffu;
    return error;
}

static void run_body(void *body)
{
    (*(void (**)(void))body)();
}

void lean_run(void (*body)(void))
{
    if (is_warps) {
        fiber_run(&only_warp, run_body, &body);
    } else {
        /* Outside of warps the header's macros mean lane 0 of nothing. */
        own_warp = &only_warp;
        for (int lane = 1; lane < LANES; lane++)
            only_warp.is_over[lane] = 1;
        body();
    }
}

int lean_prints(void)
{
    return own_warp->current == 0;
}

/* One lane does it for all, as a warp would. */
#define ALONE(expression) (is_warps ? once_begin() ? once_end((expression)) : once_end(0) : (expression))
static int once_begin(void) { return HL_LANE() == 0; }
static int64_t once_end(int64_t value) { return (int64_t)HL_SHUFFLE(value, 0); }

static int64_t keep(int64_t error, hl_object object)
{
    for (int number = 0; error == 0 && number < OBJECTS; number++)
        if (objects[number].index == 0xffffffffu) {
            objects[number] = object;
            return number;
        }
    return error ? error : -24;
}
static hl_object of(int64_t number) { return number >= 0 && number < OBJECTS ? objects[number] : hl_nothing(); }
static int64_t drop(int64_t number, int64_t error)
{
    if (number >= 0 && number < OBJECTS)
        objects[number].index = 0xffffffffu;
    return error;
}

/* A name that a lease keeps is EAGAIN where its holder takes long to give it back: a busy machine. */
#define PATIENT(expression) \
    ({ \
        int64_t answer; \
        for (int turn = 0; (answer = (expression)) == -11 && turn < 100; turn++) \
            usleep(50000); \
        answer; \
    })

static int64_t opens_now(const char *name, uint32_t flags, uint32_t mode)
{
    hl_object file;
    int64_t error = PATIENT(hl_open(&lean, name, flags, mode, &file));
    return keep(error, file);
}
static int64_t opens(const char *name, uint32_t flags, uint32_t mode) { return ALONE(opens_now(name, flags, mode)); }
static int64_t closes(int64_t file) { return ALONE(drop(file, hl_close(&lean, of(file)))); }
static int64_t reads_now(hl_object file, uint64_t offset, uint64_t bytes)
{
    if (is_blocks)
        return hl_block_read(&lean, file, offset, buffer, bytes, &block_word);
    return is_warps ? hl_warp_read(&lean, file, offset, buffer, bytes) : hl_read(&lean, file, offset, buffer, bytes);
}
static int64_t reads(int64_t file, uint64_t offset, void *into, uint64_t bytes)
{
    int64_t result = reads_now(of(file), offset, bytes);
    if (result > 0)
        memcpy(into, buffer, (size_t)result);
    /* Before a lane that is ahead writes there. */
    if (is_warps)
        HL_WARP_SYNC();
    return result;
}
static int64_t fetches(const char *name, uint64_t offset, void *into, uint64_t bytes)
{
    int64_t result = ALONE(PATIENT(hl_fetch_file(&lean, name, offset, buffer, bytes)));
    if (result > 0)
        memcpy(into, buffer, (size_t)result);
    if (is_warps)
        HL_WARP_SYNC();
    return result;
}
static int64_t writes(int64_t file, uint64_t offset, const void *from, uint64_t bytes)
{
    memcpy(buffer, from, bytes);
    if (is_blocks) {
        hl_operation asked = hl_transfer(&lean, HL_OP_WRITE, of(file), offset, buffer, bytes);
        return hl_block_do(&lean, HL_FILES, &asked, &block_word);
    }
    return is_warps ? hl_warp_write(&lean, of(file), offset, buffer, bytes) : hl_write(&lean, of(file), offset, buffer, bytes);
}
static int64_t appends(int64_t file, const void *from, uint64_t bytes)
{
    memcpy(buffer, from, bytes);
    return ALONE(hl_append(&lean, of(file), buffer, bytes));
}
static int64_t syncs(int64_t file) { return ALONE(hl_fsync(&lean, of(file))); }
static int64_t truncates(int64_t file, uint64_t length) { return ALONE(PATIENT(hl_truncate(&lean, of(file), length))); }
static struct seen shown;
static int64_t stats_now(int64_t file)
{
    hl_facts facts;
    int64_t error = hl_stat(&lean, of(file), &facts);
    if (error == 0)
        shown = (struct seen){(facts.mode & 0170000) == 0040000 ? 0 : facts.size, facts.mode};
    return error;
}
static int64_t stats(int64_t file, struct seen *seen)
{
    int64_t error = ALONE(stats_now(file));
    *seen = shown;
    return error;
}
static int64_t makes(const char *name, uint32_t mode) { return ALONE(hl_mkdir(&lean, name, mode)); }
static int64_t removes(const char *name) { return ALONE(hl_rmdir(&lean, name)); }
static int64_t unlinks(const char *name) { return ALONE(PATIENT(hl_unlink(&lean, name))); }
static int64_t renames(const char *from, const char *to, uint32_t flags) { return ALONE(PATIENT(hl_rename(&lean, from, to, flags))); }
static int64_t lists_now(const char *name, char *into, uint64_t bytes)
{
    hl_object folder;
    hl_entry entry = {0, 0, 0, 0, 0};
    uint64_t used = 0, at;
    int64_t found = hl_open(&lean, name, HL_READ | HL_DIRECTORY, 0, &folder);
    if (found)
        return found;
    while ((found = hl_readdir(&lean, folder, entry.cookie, buffer, 4096)) > 0)
        for (at = 0; hl_next_entry(buffer, (uint64_t)found, &at, &entry);)
            used += (uint64_t)snprintf(into + used, bytes - used, "%.*s\n", (int)entry.name_bytes, entry.name);
    hl_close(&lean, folder);
    return found < 0 ? found : (int64_t)used;
}
static int64_t lists(const char *name, char *into, uint64_t bytes) { return ALONE(lists_now(name, into, bytes)); }

static hl_address at_port(uint16_t port)
{
    hl_address address = {4, 0, port, {127, 0, 0, 1}, 0};
    return address;
}
static uint16_t port_shown;
static int64_t listens_now(uint16_t port)
{
    hl_address address = at_port(port);
    hl_object listener;
    int64_t error = hl_listen(&lean, &address, 16, 0, &listener);
    port_shown = address.port;
    return keep(error, listener);
}
static int64_t listens(uint16_t *port)
{
    int64_t result = ALONE(listens_now(*port));
    *port = port_shown;
    return result;
}
static int64_t connects_now(uint16_t port)
{
    hl_address address = at_port(port);
    hl_object socket;
    int64_t error = hl_connect(&lean, &address, 0, &socket);
    return keep(error, socket);
}
static int64_t connects(uint16_t port) { return ALONE(connects_now(port)); }
static int64_t accepts_now(int64_t listener, uint32_t timeout_us)
{
    hl_object socket;
    int64_t error = hl_accept(&lean, of(listener), (hl_address *)0, timeout_us, &socket);
    return keep(error, socket);
}
static int64_t accepts(int64_t listener, uint32_t timeout_us) { return ALONE(accepts_now(listener, timeout_us)); }
static int64_t sends(int64_t socket, const void *from, uint64_t bytes)
{
    memcpy(buffer, from, bytes);
    return ALONE(hl_send(&lean, of(socket), buffer, bytes));
}
static int64_t receives(int64_t socket, void *into, uint64_t bytes, uint32_t timeout_us)
{
    int64_t result = ALONE(hl_receive(&lean, of(socket), buffer, bytes, timeout_us));
    if (result > 0)
        memcpy(into, buffer, (size_t)result);
    /* Before a lane that is ahead writes there. */
    if (is_warps)
        HL_WARP_SYNC();
    return result;
}
static int64_t polls_now(int64_t socket, uint32_t wanted, uint32_t timeout_us)
{
    hl_poll_entry *entry = (hl_poll_entry *)buffer;
    *entry = (hl_poll_entry){of(socket), (uint16_t)wanted, 0, 0};
    int64_t count = hl_poll(&lean, entry, 1, timeout_us);
    return count < 0 ? count : entry->found;
}
static int64_t polls(int64_t socket, uint32_t wanted, uint32_t timeout_us) { return ALONE(polls_now(socket, wanted, timeout_us)); }
static int64_t shuts(int64_t socket, uint32_t how) { return ALONE(hl_shutdown(&lean, of(socket), how)); }
static int64_t closes_socket(int64_t socket) { return ALONE(drop(socket, hl_close_socket(&lean, of(socket)))); }

const struct way lean_way = {
    "lean", opens, closes, reads, fetches, writes, appends, syncs, truncates, stats, makes, removes, unlinks, renames, lists,
    listens, connects, accepts, sends, receives, polls, shuts, closes_socket,
};

/* Each lane reads a word of its own place, all in one turn of the ring; odd ones sit out one round. */
void each_lane(const struct way *way, const char *folder)
{
    char name[512];
    uint64_t word, sum = 0;
    snprintf(name, sizeof name, "%s/lanes", folder);
    int64_t file = way->open(name, HL_READ | HL_WRITE | HL_CREATE | HL_TRUNCATE, 0644);
    for (word = 0; word < 64; word++)
        way->write(file, word * 8, &(uint64_t){word * word}, 8);
    for (uint32_t round = 0; round < 4; round++) {
        if (way == &kernel_way || !is_warps) {
            for (uint32_t lane = 0; lane < 32; lane++)
                if (!(round & 1 && lane & 1) && way->read(file, (lane + round) * 8, &word, 8) == 8)
                    sum += word * (lane + 1);
            continue;
        }
        uint64_t *own = (uint64_t *)(buffer + BUFFER_BYTES) + HL_LANE(), part;
        int sits_out = round & 1 && HL_LANE() & 1;
        hl_operation asked = hl_transfer(&lean, HL_OP_READ, of(file), (HL_LANE() + round) * 8, own, 8);
        int64_t result = hl_warp_each(&lean, HL_FILES, sits_out ? (hl_operation *)0 : &asked, (hl_result *)0);
        part = !sits_out && result == 8 ? *own * (HL_LANE() + 1) : 0;
        for (uint32_t lane = 0; lane < 32; lane++)
            sum += HL_SHUFFLE(part, lane);
    }
    say("lanes %llu\n", (unsigned long long)sum);
    way->close(file);
}

/* A block of several warps, each with a thread of its own: its leader reads a word that all take, and
 * writes it elsewhere; then it asks for what is refused. */
enum { BLOCK_WARPS = 3, BLOCK_ROUNDS = 4, BLOCK_THREADS = BLOCK_WARPS * LANES };
static struct {
    struct warp warps[BLOCK_WARPS];
    pthread_barrier_t barrier;
    hl_object file;
    int64_t word;
    uint64_t sum;
} block;

static void block_body(void *nothing)
{
    volatile uint64_t *taken = (uint64_t *)(buffer + BUFFER_BYTES) + LANES;
    uint64_t sum = 0;
    (void)nothing;
    for (uint32_t round = 0; round < BLOCK_ROUNDS; round++) {
        if (hl_block_read(&lean, block.file, round * 8, (void *)taken, 8, &block.word) == 8)
            sum += *taken;
        hl_operation asked = hl_transfer(&lean, HL_OP_WRITE, block.file, (64 + round) * 8, (void *)taken, 8);
        sum += (uint64_t)hl_block_do(&lean, HL_FILES, &asked, &block.word);
        sum += (uint64_t)-hl_block_read(&lean, hl_nothing(), 0, (void *)taken, 8, &block.word);
    }
    __atomic_add_fetch(&block.sum, sum, __ATOMIC_RELAXED);
}
static void *block_warp(void *number)
{
    struct warp *own = &block.warps[(intptr_t)number];
    own->number = (int)(intptr_t)number;
    own->block = &block.barrier;
    fiber_run(own, block_body, 0);
    return 0;
}
static int64_t block_runs(hl_object file)
{
    pthread_t thread[BLOCK_WARPS];
    block.file = file;
    block.sum = 0;
    pthread_barrier_init(&block.barrier, 0, BLOCK_WARPS);
    for (intptr_t number = 0; number < BLOCK_WARPS; number++)
        pthread_create(&thread[number], 0, block_warp, (void *)number);
    for (int number = 0; number < BLOCK_WARPS; number++)
        pthread_join(thread[number], 0);
    return (int64_t)block.sum;
}

void each_block(const struct way *way, const char *folder)
{
    char name[512];
    uint64_t word, back = 0;
    int64_t sum = 0;
    snprintf(name, sizeof name, "%s/blocks", folder);
    int64_t file = way->open(name, HL_READ | HL_WRITE | HL_CREATE | HL_TRUNCATE, 0644);
    for (word = 0; word < 64; word++)
        way->write(file, word * 8, &(uint64_t){word * word + 7}, 8);
    if (way == &lean_way && is_blocks) {
        sum = ALONE(block_runs(of(file)));
    } else {
        for (uint32_t round = 0; round < BLOCK_ROUNDS; round++) {
            way->read(file, round * 8, &word, 8);
            sum += BLOCK_THREADS * ((int64_t)word + way->write(file, (64 + round) * 8, &word, 8) - way->read(-1, 0, &back, 8));
        }
    }
    for (uint32_t round = 0; round < BLOCK_ROUNDS; round++)
        if (way->read(file, (64 + round) * 8, &word, 8) == 8)
            back += word << round;
    say("blocks %lld %llu\n", (long long)sum, (unsigned long long)back);
    way->close(file);
}
