/* Emulated warps: one thread for each warp, and 32 fibers that take turns in it.
 *
 * Lanes go on until they wait for each other (a barrier, a shuffle) or pause inside a wait, so that
 * every order of lanes that a processor may choose at such a point is one that this may show. Include
 * before heliostat_lean_host.h.
 */
#ifndef FIBERS_H
#define FIBERS_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { LANES = 32, STACK_BYTES = 256 * 1024 };

struct warp {
    ucontext_t lane[LANES], begin;
    int current, left, is_over[LANES];
    unsigned arrived, passed;
    uint64_t shown[LANES];
    void (*body)(void *);
    void *argument;
    int number;
    pthread_barrier_t *block;
};

static __thread struct warp *own_warp;

static inline void fiber_switch(void)
{
    struct warp *warp = own_warp;
    int from = warp->current, to = from;
    do
        to = (to + 1) % LANES;
    while (warp->is_over[to] && to != from);
    if (to <= from)
        sched_yield();
    if (to == from)
        return;
    warp->current = to;
    swapcontext(&warp->lane[from], &warp->lane[to]);
}

static inline void fiber_sync(void)
{
    struct warp *warp = own_warp;
    unsigned before = warp->passed;
    if (++warp->arrived == LANES) {
        warp->arrived = 0;
        warp->passed++;
        return;
    }
    while (warp->passed == before)
        fiber_switch();
}

static inline uint64_t fiber_shuffle(uint64_t value, uint32_t lane)
{
    struct warp *warp = own_warp;
    uint64_t found;
    warp->shown[warp->current] = value;
    fiber_sync();
    found = warp->shown[lane];
    fiber_sync();
    return found;
}

static inline void fiber_block_sync(void)
{
    fiber_sync();
    if (own_warp->current == 0)
        pthread_barrier_wait(own_warp->block);
    fiber_sync();
}

static void fiber_begin(void)
{
    struct warp *warp = own_warp;
    warp->body(warp->argument);
    warp->is_over[warp->current] = 1;
    if (--warp->left == 0)
        setcontext(&warp->begin);
    fiber_switch();
}

/* Runs a body in all lanes of one warp, on this thread. */
static inline void fiber_run(struct warp *warp, void (*body)(void *), void *argument)
{
    own_warp = warp;
    warp->body = body;
    warp->argument = argument;
    warp->left = LANES;
    warp->current = 0;
    for (int lane = 0; lane < LANES; lane++) {
        getcontext(&warp->lane[lane]);
        warp->lane[lane].uc_stack.ss_sp = malloc(STACK_BYTES);
        warp->lane[lane].uc_stack.ss_size = STACK_BYTES;
        makecontext(&warp->lane[lane], fiber_begin, 0);
    }
    swapcontext(&warp->begin, &warp->lane[0]);
}

#define HL_LANE() ((uint32_t)own_warp->current)
#define HL_LANES() 32u
#define HL_WARP_SYNC() fiber_sync()
#define HL_SHUFFLE(value, lane) fiber_shuffle((uint64_t)(value), lane)
#define HL_BLOCK_LEADER() (own_warp->number == 0 && own_warp->current == 0)
#define HL_BLOCK_SYNC() fiber_block_sync()
#define HL_PAUSE() fiber_switch()
/* The loop is rung; nobody sleeps here, as a lane's sleep would be its whole warp's. */
#define HL_NO_FUTEX
#define HL_WAKE(word) syscall(SYS_futex, word, 1, 0x7fffffff, (void *)0, (void *)0, 0)
#define HL_SLEEP(word, value) fiber_switch()

#endif
