/* Files and TCP for a processor without a kernel: the whole stub, in one header.
 *
 *   worker (threads, warps, blocks)                    host
 *     window  <============= bytes =================>  server loops: files, sockets
 *     submission ring  ====== operations ==========>
 *     completion ring  <===== results ==============
 *
 * What the processor has to have: two atomics (swap, compare-and-swap) on memory of its own, loads
 * and stores with acquire and release on memory that the host sees, and a full fence. There is no
 * libc, no allocation and no system call in here, and the same text is valid C11, C++ and CUDA
 * (`__host__ __device__`). Layouts are those of docs/delegated.md, docs/sockets.md and docs/lean.md;
 * their numbers, in heliostat_lean_layout.h, are compared with the Rust ones by a test.
 *
 * Who calls: any number of threads, warps and blocks may use one `hl_lean` at once. Every function
 * that waits ends with -ESHUTDOWN once the host is gone. Results are what they are in POSIX: a
 * number of bytes or 0, or minus an errno.
 *
 * Memory: payload lies in the window (`hl_payload` to its end), and pointers to payload are pointers
 * into it. Names and small structures are copied through scratch memory in the window by the
 * functions themselves.
 */
#ifndef HELIOSTAT_LEAN_H
#define HELIOSTAT_LEAN_H

#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__)
#define HL_FN static __host__ __device__ inline
#else
#define HL_FN static inline
#endif

/* ---- What the surroundings give; the host's header and each kind of processor define theirs ---- */

/* Gives way for a moment inside a wait. */
#ifndef HL_PAUSE
#if defined(__CUDA_ARCH__)
#define HL_PAUSE() __nanosleep(200)
#else
#define HL_PAUSE() ((void)0)
#endif
#endif
/* Wakes whoever sleeps on a 32-bit word, and sleeps on one while it has a value, for 50 ms at most.
 * A processor that has neither leaves them: it looks, and a watcher on the host rings for it. */
#ifndef HL_WAKE
#define HL_WAKE(word) ((void)(word))
#define HL_SLEEP(word, value) HL_PAUSE()
#define HL_SLEEPS 0
#else
#define HL_SLEEPS 1
#endif
/* Pauses at most between two looks of a wait in which others would be in the way. */
#ifndef HL_PAUSES_MAX
#define HL_PAUSES_MAX 64u
#endif
/* Looks of a wait before it sleeps. */
#ifndef HL_LOOKS
#define HL_LOOKS 2000
#endif

#include "heliostat_lean_layout.h"

/* ---- Types ---- */

/* Which of a worker's two sessions. */
#define HL_FILES 0
#define HL_SOCKETS 1

typedef struct hl_object { /* an open file, or a socket */
    uint32_t index, generation;
} hl_object;

typedef struct hl_piece { /* a place in the window */
    uint64_t offset;
    uint32_t bytes, zero;
} hl_piece;

typedef struct hl_operation {
    uint32_t kind, pieces;
    uint32_t timeout_us; /* 0 for never */
    hl_object object;
    uint64_t offset, argument;
    hl_piece piece[2]; /* one operation of this header has two at most */
} hl_operation;

typedef struct hl_result {
    int64_t value;       /* bytes, an index, 0, or minus an errno */
    uint32_t generation; /* of an index */
    uint32_t way;        /* 1 cached, 2 filled, 3 from the device, 4 the kernel's cache */
} hl_result;

/* Files that one call of hl_fetch_begin asks for at most. */
#define HL_FETCHES 16

typedef struct hl_ticket { /* an operation under way */
    uint32_t slot, queue;
} hl_ticket;

typedef struct hl_facts { /* of a file */
    uint64_t size, inode, device;
    int64_t modified_s;
    uint32_t modified_ns, mode, uid, gid;
    uint64_t zero[2];
} hl_facts;

typedef struct hl_address {
    uint8_t family, zero; /* 4 or 6 */
    uint16_t port;        /* in the processor's order */
    uint8_t ip[16];       /* IPv4: the first four */
    uint32_t zeros;
} hl_address;

typedef struct hl_poll_entry { /* lies in the window */
    hl_object socket;
    uint16_t wanted, found;
    uint32_t zero;
} hl_poll_entry;

typedef struct hl_entry { /* of a directory */
    uint64_t inode, cookie;
    uint32_t type, name_bytes;
    const char *name; /* without a zero at its end */
} hl_entry;

typedef struct hl_slot { /* an operation, in the processor's own memory */
    uint32_t state; /* 0 free, 1 under way, 2 done */
    uint32_t serial;
    int64_t value;
    uint32_t generation, way;
} hl_slot;

typedef struct hl_queue { /* one session's state, in the processor's own memory */
    uint32_t submit_lock, zero0[15];
    uint32_t complete_lock, fault, zero1[14];
    uint64_t head, tail_known, zero2[6]; /* under submit_lock */
    uint64_t tail, zero3[7];             /* under complete_lock */
    hl_slot slot[HL_SLOTS];
} hl_queue;

typedef struct hl_lean {
    uint8_t *window;
    uint64_t window_bytes;
    uint8_t *rings[2]; /* null where there is no such session */
    hl_queue *queue[2];
    uint32_t worker, workers;
} hl_lean;

#include "heliostat_lean_atomics.h"
#include "heliostat_lean_operations.h"
#include "heliostat_lean_files.h"
#include "heliostat_lean_sockets.h"
#include "heliostat_lean_warps.h"

#endif
