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

/* ---- Memory ---- */

#include "heliostat_lean_atomics.h"

/* Words that only one side writes at a time, and that a release or an acquire publishes. */
HL_FN void hl_put64(void *at, uint64_t value) { *(volatile uint64_t *)at = value; }
HL_FN uint64_t hl_take64(const void *at) { return *(const volatile uint64_t *)at; }

HL_FN int hl_is_over(const hl_lean *lean, const hl_queue *queue)
{
    return hl_load32(lean->window + HL_OVER_AT) != 0 || hl_load32(&queue->fault) != 0;
}

/* Takes a lock; 0 where the host is gone meanwhile. */
HL_FN int hl_lock_word(const hl_lean *lean, hl_queue *queue, uint32_t *lock)
{
    while (hl_swap32(lock, 1)) {
        if (hl_is_over(lean, queue)) return 0;
        HL_PAUSE();
    }
    return 1;
}

/* Attaches to the memory of a worker: 0, or minus an errno. Either of the rings may be null. */
HL_FN int hl_attach(hl_lean *lean, void *window, void *file_rings, void *socket_rings)
{
    uint8_t *at = (uint8_t *)window;
    if (hl_load64(at) != HL_MAGIC || hl_load32(at + 8) != HL_VERSION) return -HL_EPROTO;
    lean->window = at;
    lean->window_bytes = hl_load64(at + 16);
    lean->worker = hl_load32(at + 32);
    lean->workers = hl_load32(at + 36);
    lean->rings[0] = (uint8_t *)file_rings;
    lean->rings[1] = (uint8_t *)socket_rings;
    lean->queue[0] = (hl_queue *)(at + HL_QUEUE_AT);
    lean->queue[1] = (hl_queue *)(at + HL_QUEUE_AT + HL_QUEUE_BYTES);
    return 0;
}

/* The first byte of the program's own memory in the window, and how many there are. */
HL_FN void *hl_payload(const hl_lean *lean) { return lean->window + HL_PAYLOAD_AT; }
HL_FN uint64_t hl_payload_bytes(const hl_lean *lean) { return lean->window_bytes - HL_PAYLOAD_AT; }

/* A pointer into the window as a piece. One outside of it is no place, which the host refuses. */
HL_FN hl_piece hl_piece_at(const hl_lean *lean, const void *at, uint64_t bytes)
{
    hl_piece piece;
    piece.offset = (uint64_t)((const uint8_t *)at - lean->window);
    piece.bytes = (uint32_t)bytes;
    piece.zero = 0;
    return piece;
}

HL_FN uint8_t *hl_scratch(const hl_lean *lean, hl_ticket ticket)
{
    return lean->window + HL_SCRATCH_AT + ((uint64_t)ticket.queue * HL_SLOTS + ticket.slot) * HL_SCRATCH_BYTES;
}

/* ---- Rings ---- */

HL_FN uint64_t hl_span(uint32_t pieces)
{
    return 8 + HL_OPERATION_HEAD_BYTES + (uint64_t)pieces * HL_PIECE_BYTES;
}

HL_FN uint64_t hl_header(uint64_t at, uint64_t bytes)
{
    return ((at / 8) & 0x3fffffffull) << 34 | 1ull << 32 | bytes;
}

/* Rings the loop if it sleeps. */
HL_FN void hl_ring(uint8_t *rings)
{
    uint32_t *bell = (uint32_t *)(rings + HL_RING_BELL_AT);
    hl_fence();
    if (HL_SLEEPS && hl_load32(bell) && hl_swap32(bell, 0)) HL_WAKE(bell);
}

/* Writes one operation's record behind the ring's last, unseen by the host: its place is `at`. */
HL_FN void hl_write_record(uint8_t *data, uint64_t at, const hl_operation *asked, uint64_t tag)
{
    const uint64_t mask = HL_SUBMISSION_BYTES - 1;
    uint64_t word[5], i;
    word[0] = asked->kind | (uint64_t)asked->pieces << 16 | (uint64_t)asked->timeout_us << 32;
    word[1] = asked->object.index | (uint64_t)asked->object.generation << 32;
    word[2] = asked->offset;
    word[3] = tag;
    word[4] = asked->argument;
    for (i = 0; i < 5; i++) hl_put64(data + ((at + 8 + 8 * i) & mask), word[i]);
    for (i = 0; i < asked->pieces; i++) {
        hl_put64(data + ((at + 48 + 16 * i) & mask), asked->piece[i].offset);
        hl_put64(data + ((at + 56 + 16 * i) & mask), asked->piece[i].bytes);
    }
}

/* Publishes it: the word behind it is zeroed first, since the host may look there at once. */
HL_FN void hl_publish(uint8_t *data, uint64_t at, uint32_t pieces)
{
    const uint64_t mask = HL_SUBMISSION_BYTES - 1;
    hl_put64(data + ((at + hl_span(pieces)) & mask), 0);
    hl_store64(data + (at & mask), hl_header(at, hl_span(pieces) - 8));
}

HL_FN uint64_t hl_tag(uint32_t slot, uint32_t serial) { return slot | (uint64_t)serial << 8; }

/* Whether so many bytes fit behind the head; under submit_lock. */
HL_FN int hl_fits(uint8_t *rings, hl_queue *queue, uint64_t bytes)
{
    if (queue->head - queue->tail_known + bytes + 8 <= HL_SUBMISSION_BYTES) return 1;
    queue->tail_known = hl_load64(rings + HL_RING_TAIL_AT);
    if (queue->head - queue->tail_known > HL_SUBMISSION_BYTES) {
        hl_store32(&queue->fault, HL_EPROTO);
        return 0;
    }
    return queue->head - queue->tail_known + bytes + 8 <= HL_SUBMISSION_BYTES;
}

/* Takes what has completed; the number. Who has the lock takes for all. */
HL_FN uint32_t hl_collect(hl_lean *lean, uint32_t which)
{
    hl_queue *queue = lean->queue[which];
    uint8_t *ring = lean->rings[which] + HL_COMPLETION_AT, *data = ring + HL_RING_DATA_AT;
    const uint64_t mask = HL_COMPLETION_BYTES - 1;
    uint32_t taken = 0;
    if (hl_load32(&queue->complete_lock) || hl_swap32(&queue->complete_lock, 1)) return 0;
    while (taken < HL_SLOTS) {
        uint64_t at = queue->tail, header = hl_load64(data + (at & mask)), tag, rest;
        hl_slot *slot;
        if (!header) break;
        if (header != hl_header(at, HL_COMPLETION_RECORD_BYTES)) {
            hl_store32(&queue->fault, HL_EPROTO);
            break;
        }
        tag = hl_take64(data + ((at + 8) & mask));
        slot = &queue->slot[tag & (HL_SLOTS - 1)];
        if (hl_load32(&slot->state) == 1 && tag == hl_tag((uint32_t)(tag & (HL_SLOTS - 1)), slot->serial)) {
            rest = hl_take64(data + ((at + 24) & mask));
            slot->value = (int64_t)hl_take64(data + ((at + 16) & mask));
            slot->generation = (uint32_t)rest;
            slot->way = (uint32_t)(rest >> 32) & 0xff;
            hl_store32(&slot->state, 2);
        }
        queue->tail = at + 8 + HL_COMPLETION_RECORD_BYTES;
        taken++;
    }
    if (taken) hl_store64(ring + HL_RING_TAIL_AT, queue->tail);
    hl_store32(&queue->complete_lock, 0);
    if (taken && HL_SLEEPS) {
        /* Others may sleep whose results these were. */
        uint32_t *bell = (uint32_t *)(ring + HL_RING_BELL_AT);
        hl_fence();
        if (hl_load32(bell) && hl_swap32(bell, 0)) HL_WAKE(bell);
    }
    return taken;
}

/* Whether the completion ring has something; only to decide about a sleep. */
HL_FN int hl_has_completions(const hl_lean *lean, uint32_t which)
{
    const uint8_t *ring = lean->rings[which] + HL_COMPLETION_AT;
    uint64_t tail = hl_load64(&lean->queue[which]->tail);
    return hl_load64(ring + HL_RING_DATA_AT + (tail & (HL_COMPLETION_BYTES - 1))) != 0;
}

/* ---- Operations: begin, look, wait, end ---- */

/* Takes a slot for an operation, from `first` on: 0, or -ESHUTDOWN. Waits while all are taken. */
HL_FN int hl_take_slot(hl_lean *lean, uint32_t which, uint32_t first, hl_ticket *ticket)
{
    hl_queue *queue = lean->queue[which];
    uint32_t i;
    if (!lean->rings[which]) return -HL_ENOTSUP;
    for (;;) {
        for (i = 0; i < HL_SLOTS; i++) {
            hl_slot *slot = &queue->slot[(first + i) & (HL_SLOTS - 1)];
            if (hl_load32(&slot->state) == 0 && hl_cas32(&slot->state, 0, 1) == 0) {
                slot->serial++;
                ticket->slot = (first + i) & (HL_SLOTS - 1);
                ticket->queue = which;
                return 0;
            }
        }
        if (hl_is_over(lean, queue)) return -HL_ESHUTDOWN;
        hl_collect(lean, which);
        HL_PAUSE();
    }
}

HL_FN void hl_free_slot(hl_lean *lean, hl_ticket ticket)
{
    hl_store32(&lean->queue[ticket.queue]->slot[ticket.slot].state, 0);
}

/* Submits operations whose slots were taken, in order and in one turn, and rings once. */
HL_FN int hl_submit(hl_lean *lean, const hl_operation *asked, const hl_ticket *tickets, uint32_t count)
{
    uint32_t which = tickets[0].queue, i;
    hl_queue *queue = lean->queue[which];
    uint8_t *rings = lean->rings[which], *data = rings + HL_RING_DATA_AT;
    if (!hl_lock_word(lean, queue, &queue->submit_lock)) return -HL_ESHUTDOWN;
    for (i = 0; i < count; i++) {
        while (!hl_fits(rings, queue, hl_span(asked[i].pieces))) {
            if (hl_is_over(lean, queue)) {
                hl_store32(&queue->submit_lock, 0);
                return -HL_ESHUTDOWN;
            }
            hl_ring(rings);
            hl_collect(lean, which);
            HL_PAUSE();
        }
        hl_write_record(data, queue->head, &asked[i], hl_tag(tickets[i].slot, queue->slot[tickets[i].slot].serial));
        hl_publish(data, queue->head, asked[i].pieces);
        queue->head += hl_span(asked[i].pieces);
    }
    hl_store64(rings + HL_RING_HEAD_AT, queue->head);
    hl_store32(&queue->submit_lock, 0);
    hl_ring(rings);
    return 0;
}

/* Whether an operation has ended, without a wait. */
HL_FN int hl_is_done(hl_lean *lean, hl_ticket ticket)
{
    hl_slot *slot = &lean->queue[ticket.queue]->slot[ticket.slot];
    if (hl_load32(&slot->state) == 2) return 1;
    hl_collect(lean, ticket.queue);
    return hl_load32(&slot->state) == 2;
}

/* Waits until an operation has ended: 0, or -ESHUTDOWN. Its slot stays taken. */
HL_FN int hl_await(hl_lean *lean, hl_ticket ticket)
{
    hl_queue *queue = lean->queue[ticket.queue];
    uint32_t *bell = (uint32_t *)(lean->rings[ticket.queue] + HL_COMPLETION_AT + HL_RING_BELL_AT);
    uint32_t looks = 0;
    while (!hl_is_done(lean, ticket)) {
        if (hl_is_over(lean, queue)) return -HL_ESHUTDOWN;
        if (!HL_SLEEPS || ++looks < HL_LOOKS) {
            HL_PAUSE();
            continue;
        }
        hl_store32(bell, 1);
        hl_fence();
        if (hl_load32(&queue->slot[ticket.slot].state) != 2 && !hl_has_completions(lean, ticket.queue))
            HL_SLEEP(bell, 1);
    }
    return 0;
}

/* Waits for an operation's end and gives its slot back: its result's value. `result` may be null.
 * After -ESHUTDOWN the slot stays taken: nothing is asked any more. */
HL_FN int64_t hl_finish(hl_lean *lean, hl_ticket ticket, hl_result *result)
{
    const hl_slot *slot = &lean->queue[ticket.queue]->slot[ticket.slot];
    int error = hl_await(lean, ticket);
    int64_t value;
    if (error) return error;
    value = slot->value;
    if (result) {
        result->value = value;
        result->generation = slot->generation;
        result->way = slot->way;
    }
    hl_free_slot(lean, ticket);
    return value;
}

/* Begins an operation that needs no scratch memory: 0, or -ESHUTDOWN. */
HL_FN int hl_begin(hl_lean *lean, uint32_t which, const hl_operation *asked, hl_ticket *ticket)
{
    int error = hl_take_slot(lean, which, (uint32_t)(asked->offset >> 12), ticket);
    if (error) return error;
    return hl_submit(lean, asked, ticket, 1);
}

HL_FN int64_t hl_do(hl_lean *lean, uint32_t which, const hl_operation *asked)
{
    hl_ticket ticket;
    int error = hl_begin(lean, which, asked, &ticket);
    return error ? error : hl_finish(lean, ticket, (hl_result *)0);
}

HL_FN hl_operation hl_operation_of(uint32_t kind, hl_object object)
{
    hl_operation asked;
    asked.kind = kind;
    asked.pieces = 0;
    asked.timeout_us = 0;
    asked.object = object;
    asked.offset = 0;
    asked.argument = 0;
    return asked;
}

HL_FN hl_object hl_nothing(void)
{
    hl_object none;
    none.index = none.generation = 0;
    return none;
}

/* A transfer between a file or socket and a place in the window. */
HL_FN hl_operation hl_transfer(const hl_lean *lean, uint32_t kind, hl_object object, uint64_t offset, const void *at,
                               uint64_t bytes)
{
    hl_operation asked = hl_operation_of(kind, object);
    asked.offset = offset;
    asked.pieces = 1;
    asked.piece[0] = hl_piece_at(lean, at, bytes);
    return asked;
}

/* Cancels an operation; it still has to be finished, with -ECANCELED or as if nobody had asked. */
HL_FN int64_t hl_cancel(hl_lean *lean, hl_ticket ticket)
{
    hl_operation asked = hl_operation_of(HL_OP_CANCEL, hl_nothing());
    asked.argument = hl_tag(ticket.slot, lean->queue[ticket.queue]->slot[ticket.slot].serial);
    return hl_do(lean, ticket.queue, &asked);
}

/* ---- Files ---- */

/* Copies a name into scratch memory as a piece; one that is too long has no bytes, and is refused. */
HL_FN hl_piece hl_name(const hl_lean *lean, uint8_t *scratch, const char *name, uint32_t most)
{
    uint32_t bytes = 0;
    while (bytes < most && name[bytes]) {
        scratch[bytes] = (uint8_t)name[bytes];
        bytes++;
    }
    return hl_piece_at(lean, scratch, name[bytes] ? 0 : bytes);
}

/* Asks what is about one name, or two; the result of Open has a generation. */
HL_FN int64_t hl_do_name(hl_lean *lean, uint32_t kind, const char *name, const char *other, uint64_t argument, hl_result *result)
{
    hl_operation asked = hl_operation_of(kind, hl_nothing());
    hl_ticket ticket;
    uint32_t most = other ? HL_SCRATCH_BYTES / 2 : HL_SCRATCH_BYTES, i;
    int error = hl_take_slot(lean, HL_FILES, 0, &ticket);
    if (error) return error;
    asked.argument = argument;
    asked.pieces = other ? 2 : 1;
    asked.piece[0] = hl_name(lean, hl_scratch(lean, ticket), name, most);
    if (other) asked.piece[1] = hl_name(lean, hl_scratch(lean, ticket) + most, other, most);
    for (i = 0; i < asked.pieces; i++) {
        if (asked.piece[i].bytes) continue;
        hl_free_slot(lean, ticket);
        return (i ? other : name)[0] ? -HL_ENAMETOOLONG : -HL_ENOENT;
    }
    error = hl_submit(lean, &asked, &ticket, 1);
    return error ? error : hl_finish(lean, ticket, result);
}

/* An index and its generation become an object, which is none after an error: 0, or the errno. */
HL_FN int64_t hl_opened(int64_t value, const hl_result *result, hl_object *object)
{
    object->index = value < 0 ? 0xffffffffu : (uint32_t)value;
    object->generation = value < 0 ? 0 : result->generation;
    return value < 0 ? value : 0;
}

/* Opens a file by its absolute name: flags HL_READ, HL_WRITE and others; permissions with HL_CREATE. */
HL_FN int64_t hl_open(hl_lean *lean, const char *name, uint32_t flags, uint32_t permissions, hl_object *file)
{
    uint64_t argument = flags | (flags & HL_CREATE ? (uint64_t)(permissions & 07777) << HL_MODE_SHIFT : 0);
    hl_result result = {0, 0, 0};
    int64_t value = hl_do_name(lean, HL_OP_OPEN, name, (const char *)0, argument, &result);
    return hl_opened(value, &result, file);
}
/* Makes a file, or empties the one that is there, for reading and writing. */
HL_FN int64_t hl_create(hl_lean *lean, const char *name, uint32_t permissions, hl_object *file)
{
    return hl_open(lean, name, HL_READ | HL_WRITE | HL_CREATE | HL_TRUNCATE, permissions, file);
}
HL_FN int64_t hl_mkdir(hl_lean *lean, const char *name, uint32_t permissions)
{
    return hl_do_name(lean, HL_OP_MKDIR, name, (const char *)0, permissions & 07777, (hl_result *)0);
}
HL_FN int64_t hl_rmdir(hl_lean *lean, const char *name)
{
    return hl_do_name(lean, HL_OP_RMDIR, name, (const char *)0, 0, (hl_result *)0);
}
HL_FN int64_t hl_unlink(hl_lean *lean, const char *name)
{
    return hl_do_name(lean, HL_OP_UNLINK, name, (const char *)0, 0, (hl_result *)0);
}
/* Gives a file another name, and replaces what has it in one step, or nothing with HL_NOREPLACE. Each
 * name has 2,048 bytes at most. */
HL_FN int64_t hl_rename(hl_lean *lean, const char *from, const char *to, uint32_t flags)
{
    return hl_do_name(lean, HL_OP_RENAME, from, to, flags, (hl_result *)0);
}
/* Reads at an offset into the window: bytes, fewer than asked at the file's end only. */
HL_FN int64_t hl_read(hl_lean *lean, hl_object file, uint64_t offset, void *into, uint64_t bytes)
{
    hl_operation asked = hl_transfer(lean, HL_OP_READ, file, offset, into, bytes);
    return bytes ? hl_do(lean, HL_FILES, &asked) : 0;
}
/* Writes from the window at an offset. */
HL_FN int64_t hl_write(hl_lean *lean, hl_object file, uint64_t offset, const void *from, uint64_t bytes)
{
    hl_operation asked = hl_transfer(lean, HL_OP_WRITE, file, offset, from, bytes);
    return bytes ? hl_do(lean, HL_FILES, &asked) : 0;
}
/* Writes at the file's end, wherever that is then. */
HL_FN int64_t hl_append(hl_lean *lean, hl_object file, const void *from, uint64_t bytes)
{
    hl_operation asked = hl_transfer(lean, HL_OP_APPEND, file, 0, from, bytes);
    return bytes ? hl_do(lean, HL_FILES, &asked) : 0;
}
/* An operation on an object without a place in the window. */
HL_FN int64_t hl_do_plain(hl_lean *lean, uint32_t which, uint32_t kind, hl_object object, uint64_t argument)
{
    hl_operation asked = hl_operation_of(kind, object);
    asked.argument = argument;
    return hl_do(lean, which, &asked);
}
/* What was written before is on the disk when it returns. */
HL_FN int64_t hl_fsync(hl_lean *lean, hl_object file) { return hl_do_plain(lean, HL_FILES, HL_OP_FSYNC, file, 0); }
HL_FN int64_t hl_truncate(hl_lean *lean, hl_object file, uint64_t length)
{
    return hl_do_plain(lean, HL_FILES, HL_OP_TRUNCATE, file, length);
}
/* HL_SHARED, HL_ALONE or HL_UNLOCK, with HL_NOW without a wait. */
HL_FN int64_t hl_lock(hl_lean *lean, hl_object file, uint32_t how) { return hl_do_plain(lean, HL_FILES, HL_OP_LOCK, file, how); }
HL_FN int64_t hl_close(hl_lean *lean, hl_object file) { return hl_do_plain(lean, HL_FILES, HL_OP_CLOSE, file, 0); }

/* Asks with a small structure of words in scratch memory, which goes there and comes back. */
HL_FN int64_t hl_do_small(hl_lean *lean, uint32_t which, hl_operation *asked, void *small, uint32_t bytes, hl_result *result)
{
    hl_ticket ticket;
    uint8_t *scratch, *own = (uint8_t *)small;
    int64_t value;
    uint32_t i;
    int error = hl_take_slot(lean, which, 0, &ticket);
    if (error) return error;
    scratch = hl_scratch(lean, ticket);
    for (i = 0; i < bytes; i++) scratch[i] = own[i];
    asked->pieces = 1;
    asked->piece[0] = hl_piece_at(lean, scratch, bytes);
    error = hl_submit(lean, asked, &ticket, 1);
    if (!error) error = hl_await(lean, ticket);
    if (error) return error;
    for (i = 0; i < bytes; i++) own[i] = *(volatile uint8_t *)(scratch + i);
    value = hl_finish(lean, ticket, result);
    return value;
}
HL_FN int64_t hl_stat(hl_lean *lean, hl_object file, hl_facts *facts)
{
    hl_operation asked = hl_operation_of(HL_OP_STAT, file);
    return hl_do_small(lean, HL_FILES, &asked, facts, sizeof *facts, (hl_result *)0);
}
/* Reads entries of a directory from a cookie on (first 0) into the window: bytes, 0 at its end. */
HL_FN int64_t hl_readdir(hl_lean *lean, hl_object directory, uint64_t cookie, void *into, uint64_t bytes)
{
    hl_operation asked = hl_transfer(lean, HL_OP_READDIR, directory, cookie, into, bytes);
    return hl_do(lean, HL_FILES, &asked);
}
/* The entry at `*at` of so many bytes that hl_readdir gave; 0 behind the last. Moves `*at` on. */
HL_FN int hl_next_entry(const void *entries, uint64_t bytes, uint64_t *at, hl_entry *entry)
{
    const uint8_t *here = (const uint8_t *)entries + *at;
    if (*at + 24 > bytes) return 0;
    entry->inode = hl_take64(here);
    entry->cookie = hl_take64(here + 8);
    entry->name_bytes = here[16] | (uint32_t)here[17] << 8;
    entry->type = here[18];
    entry->name = (const char *)here + 24;
    if (*at + 24 + entry->name_bytes > bytes) return 0;
    *at += 24 + ((entry->name_bytes + 7ull) & ~7ull);
    return 1;
}

/* ---- Sockets ---- */

/* Connects to an address: a socket, or -ECONNREFUSED and others. `timeout_us` 0 for the kernel's own. */
HL_FN int64_t hl_connect(hl_lean *lean, const hl_address *to, uint32_t timeout_us, hl_object *socket)
{
    hl_operation asked = hl_operation_of(HL_OP_CONNECT, hl_nothing());
    hl_address address = *to;
    hl_result result = {0, 0, 0};
    asked.timeout_us = timeout_us;
    return hl_opened(hl_do_small(lean, HL_SOCKETS, &asked, &address, sizeof address, &result), &result, socket);
}
/* Listens at an address, which gets the one that it has then; flags HL_SHARED_LISTENER. */
HL_FN int64_t hl_listen(hl_lean *lean, hl_address *at, uint32_t backlog, uint32_t flags, hl_object *listener)
{
    hl_operation asked = hl_operation_of(HL_OP_LISTEN, hl_nothing());
    hl_result result = {0, 0, 0};
    asked.argument = backlog | flags;
    return hl_opened(hl_do_small(lean, HL_SOCKETS, &asked, at, sizeof *at, &result), &result, listener);
}
/* Waits for the next connection of a listener, -ETIMEDOUT after `timeout_us` (0: never). */
HL_FN int64_t hl_accept(hl_lean *lean, hl_object listener, hl_address *peer, uint32_t timeout_us, hl_object *socket)
{
    hl_operation asked = hl_operation_of(HL_OP_ACCEPT, listener);
    hl_address unread = {0, 0, 0, {0}, 0};
    hl_result result = {0, 0, 0};
    asked.timeout_us = timeout_us;
    return hl_opened(hl_do_small(lean, HL_SOCKETS, &asked, peer ? peer : &unread, sizeof unread, &result), &result, socket);
}
/* Sends from the window: bytes, all of them unless the connection ended meanwhile. */
HL_FN int64_t hl_send(hl_lean *lean, hl_object socket, const void *from, uint64_t bytes)
{
    hl_operation asked = hl_transfer(lean, HL_OP_WRITE, socket, 0, from, bytes);
    return bytes ? hl_do(lean, HL_SOCKETS, &asked) : 0;
}
/* Receives what is there into the window, as soon as anything is: bytes, 0 at the peer's end. */
HL_FN int64_t hl_receive(hl_lean *lean, hl_object socket, void *into, uint64_t bytes, uint32_t timeout_us)
{
    hl_operation asked = hl_transfer(lean, HL_OP_READ, socket, 0, into, bytes);
    asked.timeout_us = timeout_us;
    return bytes ? hl_do(lean, HL_SOCKETS, &asked) : 0;
}
/* Waits until some of the sockets that entries in the window name are ready: how many are, and
 * -ETIMEDOUT after `timeout_us` (0: never). */
HL_FN int64_t hl_poll(hl_lean *lean, hl_poll_entry *entries, uint32_t count, uint32_t timeout_us)
{
    hl_operation asked = hl_transfer(lean, HL_OP_POLL, hl_nothing(), 0, entries, (uint64_t)count * sizeof *entries);
    asked.timeout_us = timeout_us;
    return hl_do(lean, HL_SOCKETS, &asked);
}
HL_FN int64_t hl_shutdown(hl_lean *lean, hl_object socket, uint32_t how)
{
    return hl_do_plain(lean, HL_SOCKETS, HL_OP_SHUTDOWN, socket, how);
}
/* The address of a socket's own end (HL_OWN), or the other one (HL_PEER). */
HL_FN int64_t hl_address_of(hl_lean *lean, hl_object socket, uint32_t end, hl_address *address)
{
    hl_operation asked = hl_operation_of(HL_OP_ADDRESS, socket);
    asked.argument = end;
    return hl_do_small(lean, HL_SOCKETS, &asked, address, sizeof *address, (hl_result *)0);
}
HL_FN int64_t hl_close_socket(hl_lean *lean, hl_object socket) { return hl_do_plain(lean, HL_SOCKETS, HL_OP_CLOSE, socket, 0); }

/* ---- Warps and blocks: every lane calls, with the same arguments where nothing else is said ---- */

#if defined(__CUDA_ARCH__) && !defined(HL_LANE)
#define HL_LANE() (threadIdx.x & 31u)
#define HL_LANES() 32u
#define HL_WARP_SYNC() __syncwarp()
#define HL_SHUFFLE(value, lane) __shfl_sync(0xffffffffu, (unsigned long long)(value), lane)
#define HL_BLOCK_LEADER() (threadIdx.x == 0)
#define HL_BLOCK_SYNC() __syncthreads()
#endif

#if defined(HL_LANE) || defined(__CUDACC__)
#if !defined(HL_LANE) /* the host's half of a CUDA file: a warp of one */
#define HL_LANE() 0u
#define HL_LANES() 1u
#define HL_WARP_SYNC() ((void)0)
#define HL_SHUFFLE(value, lane) ((uint64_t)(value))
#define HL_BLOCK_LEADER() 1
#define HL_BLOCK_SYNC() ((void)0)
#endif

/* Does one operation for a warp: its first lane asks, all get the result. */
HL_FN int64_t hl_warp_do(hl_lean *lean, uint32_t which, const hl_operation *asked)
{
    int64_t value = 0;
    if (HL_LANE() == 0) value = hl_do(lean, which, asked);
    return (int64_t)HL_SHUFFLE(value, 0);
}
HL_FN int64_t hl_warp_read(hl_lean *lean, hl_object file, uint64_t offset, void *into, uint64_t bytes)
{
    hl_operation asked = hl_transfer(lean, HL_OP_READ, file, offset, into, bytes);
    return hl_warp_do(lean, HL_FILES, &asked);
}
HL_FN int64_t hl_warp_write(hl_lean *lean, hl_object file, uint64_t offset, const void *from, uint64_t bytes)
{
    hl_operation asked = hl_transfer(lean, HL_OP_WRITE, file, offset, from, bytes);
    return hl_warp_do(lean, HL_FILES, &asked);
}

/* Each lane's own operation, or none (null): all are submitted in one turn of the ring with one bell,
 * and each lane gets its own result. Every lane writes its record itself, between two steps of the
 * first one. */
HL_FN int64_t hl_warp_each(hl_lean *lean, uint32_t which, const hl_operation *asked, hl_result *result)
{
    hl_queue *queue = lean->queue[which];
    uint8_t *rings = lean->rings[which];
    uint32_t own = asked ? (uint32_t)hl_span(asked->pieces) : 0, lane;
    uint64_t before = 0, all = 0, head = 0;
    int error = 0, gone = 0;
    hl_ticket ticket = {0, 0};
    if (asked) error = hl_take_slot(lean, which, HL_LANE() * 8, &ticket);
    for (lane = 0; lane < HL_LANES(); lane++) { /* where the lane's record begins */
        uint64_t span = HL_SHUFFLE(own, lane);
        if (lane < HL_LANE()) before += span;
        all += span;
        gone |= (int)HL_SHUFFLE(error != 0, lane);
    }
    if (gone || !all) return error ? error : gone ? -HL_ESHUTDOWN : 0;
    if (HL_LANE() == 0) {
        gone = !hl_lock_word(lean, queue, &queue->submit_lock);
        while (!gone && !hl_fits(rings, queue, all)) {
            hl_ring(rings);
            hl_collect(lean, which);
            gone = hl_is_over(lean, queue);
            if (gone) hl_store32(&queue->submit_lock, 0);
            HL_PAUSE();
        }
        head = queue->head;
    }
    gone = (int)HL_SHUFFLE(gone, 0);
    head = HL_SHUFFLE(head, 0);
    if (gone) return -HL_ESHUTDOWN;
    if (asked) hl_write_record(rings + HL_RING_DATA_AT, head + before, asked, hl_tag(ticket.slot, queue->slot[ticket.slot].serial));
    HL_WARP_SYNC();
    /* From the last to the first: the host sees none before all are there. */
    for (lane = HL_LANES(); lane-- > 0; HL_WARP_SYNC())
        if (lane == HL_LANE() && asked) {
            if (before + own == all) hl_put64(rings + HL_RING_DATA_AT + ((head + all) & (HL_SUBMISSION_BYTES - 1)), 0);
            hl_store64(rings + HL_RING_DATA_AT + ((head + before) & (HL_SUBMISSION_BYTES - 1)), hl_header(head + before, own - 8));
        }
    if (HL_LANE() == 0) {
        queue->head = head + all;
        hl_store64(rings + HL_RING_HEAD_AT, queue->head);
        hl_store32(&queue->submit_lock, 0);
        hl_ring(rings);
    }
    return asked ? hl_finish(lean, ticket, result) : 0;
}

/* Does one operation for a block. `shared` is memory that the whole block sees. */
HL_FN int64_t hl_block_do(hl_lean *lean, uint32_t which, const hl_operation *asked, int64_t *shared)
{
    int64_t value;
    if (HL_BLOCK_LEADER()) *(volatile int64_t *)shared = hl_do(lean, which, asked);
    HL_BLOCK_SYNC();
    value = *(volatile int64_t *)shared;
    HL_BLOCK_SYNC();
    return value;
}
HL_FN int64_t hl_block_read(hl_lean *lean, hl_object file, uint64_t offset, void *into, uint64_t bytes, int64_t *shared)
{
    hl_operation asked = hl_transfer(lean, HL_OP_READ, file, offset, into, bytes);
    return hl_block_do(lean, HL_FILES, &asked, shared);
}
#endif
#endif
