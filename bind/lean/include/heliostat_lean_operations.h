/* Memory, rings, and operations that begin, are waited for and end. Part of heliostat_lean.h, which is the one to include. */
#ifndef HELIOSTAT_LEAN_OPERATIONS_H
#define HELIOSTAT_LEAN_OPERATIONS_H

/* ---- Memory ---- */

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

/* A pointer into the window as a piece. One outside of it is no place, and neither is one of more bytes
 * than an operation moves: both are refused by the host, with EINVAL. */
HL_FN hl_piece hl_piece_at(const hl_lean *lean, const void *at, uint64_t bytes)
{
    hl_piece piece;
    piece.offset = (uint64_t)((const uint8_t *)at - lean->window);
    piece.bytes = bytes > HL_TRANSFER_BYTES_MAX ? 0 : (uint32_t)bytes;
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
        if (hl_load32(&slot->state) == 1 && tag == hl_tag((uint32_t)(tag & (HL_SLOTS - 1)), hl_load32(&slot->serial))) {
            rest = hl_take64(data + ((at + 24) & mask));
            slot->value = (int64_t)hl_take64(data + ((at + 16) & mask));
            slot->generation = (uint32_t)rest;
            slot->way = (uint32_t)(rest >> 32) & 0xff;
            hl_store32(&slot->state, 2);
        }
        hl_store64(&queue->tail, at + 8 + HL_COMPLETION_RECORD_BYTES);
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

/* Takes a slot for an operation if one is free, from `first` on: 1, or 0. */
HL_FN int hl_try_slot(hl_lean *lean, uint32_t which, uint32_t first, hl_ticket *ticket)
{
    hl_queue *queue = lean->queue[which];
    uint32_t i;
    for (i = 0; i < HL_SLOTS; i++) {
        hl_slot *slot = &queue->slot[(first + i) & (HL_SLOTS - 1)];
        if (hl_load32(&slot->state) == 0 && hl_cas32(&slot->state, 0, 1) == 0) {
            hl_store32(&slot->serial, hl_load32(&slot->serial) + 1);
            ticket->slot = (first + i) & (HL_SLOTS - 1);
            ticket->queue = which;
            return 1;
        }
    }
    return 0;
}

/* The same, and waits while all are taken: 0, or -ESHUTDOWN. */
HL_FN int hl_take_slot(hl_lean *lean, uint32_t which, uint32_t first, hl_ticket *ticket)
{
    hl_queue *queue = lean->queue[which];
    if (!lean->rings[which]) return -HL_ENOTSUP;
    while (!hl_try_slot(lean, which, first, ticket)) {
        if (hl_is_over(lean, queue)) return -HL_ESHUTDOWN;
        hl_collect(lean, which);
        HL_PAUSE();
    }
    return 0;
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
        hl_write_record(data, queue->head, &asked[i], hl_tag(tickets[i].slot, hl_load32(&queue->slot[tickets[i].slot].serial)));
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
    asked.argument = hl_tag(ticket.slot, hl_load32(&lean->queue[ticket.queue]->slot[ticket.slot].serial));
    return hl_do(lean, ticket.queue, &asked);
}

#endif
