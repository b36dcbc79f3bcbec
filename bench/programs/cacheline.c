/* The machine's cache-line ping-pong of this moment: two pinned threads, one line, spinning.
 *
 *   cacheline CORE CORE    prints {"round_trip_ns"}: the median of 200 short batches
 *
 * A virtual machine's cores may be neighbours in one second and far apart in the next; no
 * cross-core figure can be judged without this one beside it. On one core it prints null.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tcp.h"

enum { BATCHES = 200, ROUNDS = 2000 };

static _Alignas(128) atomic_ulong line;
static atomic_int done;

static void pin(int core)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    must(sched_setaffinity(0, sizeof cores, &cores), "sched_setaffinity");
}

static void *answer(void *core)
{
    unsigned long expected = 1;
    pin(*(int *)core);
    while (!atomic_load(&done)) {
        if (atomic_load_explicit(&line, memory_order_acquire) == expected) {
            atomic_store_explicit(&line, expected + 1, memory_order_release);
            expected += 2;
        }
    }
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    double batch_ns[BATCHES];
    pthread_t other;
    unsigned long next = 1;
    int cores[2] = {argc > 1 ? atoi(argv[1]) : 0, argc > 2 ? atoi(argv[2]) : 1};
    if (cores[0] == cores[1]) {
        puts("{\"round_trip_ns\": null}");
        return 0;
    }
    pin(cores[0]);
    pthread_create(&other, NULL, answer, &cores[1]);
    for (int i = 0; i < BATCHES; i++) {
        uint64_t started = now_ns();
        for (int j = 0; j < ROUNDS; j++, next += 2) {
            atomic_store_explicit(&line, next, memory_order_release);
            while (atomic_load_explicit(&line, memory_order_acquire) != next + 1)
                __builtin_ia32_pause();
        }
        batch_ns[i] = (double)(now_ns() - started) / ROUNDS;
    }
    atomic_store(&done, 1);
    pthread_join(other, NULL);
    qsort(batch_ns, BATCHES, sizeof *batch_ns, ascending);
    printf("{\"round_trip_ns\": %.1f}\n", batch_ns[BATCHES / 2]);
    return 0;
}
