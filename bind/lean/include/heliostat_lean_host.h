/* A worker's memory on Linux: maps what it was started with. Include before nothing else of these.
 *
 * `heliostat coprocessor run` leaves three descriptors open and says their numbers in HELIOSTAT_LEAN:
 * window, rings of files, rings of sockets, `-` for what is not there. mmap(2) is all that is needed of
 * the kernel; futex(2) saves looking, and is left out with HL_NO_FUTEX (then a watcher on the host
 * rings: `heliostat coprocessor run --watch`), as in a CUDA file, where a device waits.
 */
#ifndef HELIOSTAT_LEAN_HOST_H
#define HELIOSTAT_LEAN_HOST_H

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* In a CUDA file it is the device that waits, which has neither. */
#if !defined(HL_NO_FUTEX) && !defined(__CUDACC__)
/* Shared with other processes: FUTEX_WAKE 1, FUTEX_WAIT 0. */
static inline void hl_host_wake(void *word)
{
    syscall(SYS_futex, word, 1, 0x7fffffff, (void *)0, (void *)0, 0);
}
static inline void hl_host_sleep(void *word, uint32_t value)
{
    const struct timespec slice = {0, 50 * 1000 * 1000};
    syscall(SYS_futex, word, 0, value, &slice, (void *)0, 0);
}
#define HL_WAKE(word) hl_host_wake(word)
#define HL_SLEEP(word, value) hl_host_sleep(word, value)
#endif
#if !defined(HL_PAUSE) && !defined(__CUDACC__)
/* A few looks, then the core to whoever wants it. */
static inline void hl_host_pause(void)
{
    static __thread unsigned looks;
    if (++looks % 64 == 0) {
        sched_yield();
        return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}
#define HL_PAUSE() hl_host_pause()
#endif

#include "heliostat_lean.h"

static inline void *hl_host_map(const char **numbers, uint64_t bytes)
{
    char *end;
    long fd = strtol(*numbers, &end, 10);
    void *at = MAP_FAILED;
    if (end != *numbers)
        at = mmap((void *)0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    else if (*end == '-')
        end++;
    *numbers = *end == ',' ? end + 1 : end;
    return at == MAP_FAILED ? (void *)0 : at;
}

/* Maps the memory that `text` (HELIOSTAT_LEAN's value) names: 0, or minus an errno. */
static inline int hl_host_attach_text(hl_lean *lean, const char *text)
{
    const char *rest = text;
    void *rings[2], *facts = hl_host_map(&rest, 4096), *window;
    uint64_t bytes;
    int error, which;
    if (!facts) return -EBADF;
    bytes = ((const uint64_t *)facts)[2];
    munmap(facts, 4096);
    if (bytes < HL_WINDOW_BYTES_MIN) return -HL_EPROTO;
    rest = text;
    window = hl_host_map(&rest, bytes);
    if (!window) return -errno;
    rings[0] = hl_host_map(&rest, HL_RINGS_BYTES);
    rings[1] = hl_host_map(&rest, HL_RINGS_BYTES);
    error = hl_attach(lean, window, rings[0], rings[1]);
    if (!error) return 0;
    munmap(window, bytes);
    for (which = 0; which < 2; which++)
        if (rings[which]) munmap(rings[which], HL_RINGS_BYTES);
    return error;
}

/* Maps the memory that this worker was started with. */
static inline int hl_host_attach(hl_lean *lean)
{
    const char *text = getenv("HELIOSTAT_LEAN");
    return text ? hl_host_attach_text(lean, text) : -ENOENT;
}

#endif
