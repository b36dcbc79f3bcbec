/* Forms for warps and blocks. Part of heliostat_lean.h, which is the one to include. */
#ifndef HELIOSTAT_LEAN_WARPS_H
#define HELIOSTAT_LEAN_WARPS_H

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
HL_FN uint32_t hl_lone_lane(void) { return 0; } /* no constant: it is compared with other lanes */
#define HL_LANE() hl_lone_lane()
#define HL_LANES() 1u
#define HL_WARP_SYNC() ((void)0)
#define HL_SHUFFLE(value, lane) ((uint64_t)(value))
#define HL_BLOCK_LEADER() 1
#define HL_BLOCK_SYNC() ((void)0)
#endif

/* Does one operation for a warp: its first lane asks, all get the result. The host sees what any lane
 * has written before, and every lane sees what the host has written: a shuffle alone orders no memory. */
HL_FN int64_t hl_warp_do(hl_lean *lean, uint32_t which, const hl_operation *asked)
{
    int64_t value = 0;
    HL_WARP_SYNC();
    if (HL_LANE() == 0) value = hl_do(lean, which, asked);
    HL_WARP_SYNC();
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

/* A slot for each lane that asks, or for none of them: who keeps some while it waits for others keeps
 * them from warps that lack as few. Who got too few stays away for longer each time, up to a bound: two
 * warps that try at once take each other's. 0, or minus an errno, the same for all lanes. */
HL_FN int hl_warp_slots(hl_lean *lean, uint32_t which, int asks, hl_ticket *ticket)
{
    uint32_t lane, pause, pauses = 1;
    int over = 0, lacks, has;
    if (!lean->rings[which]) return -HL_ENOTSUP;
    for (;;) {
        has = asks && hl_try_slot(lean, which, HL_LANE() * 8, ticket);
        for (lacks = 0, lane = 0; lane < HL_LANES(); lane++) lacks |= (int)HL_SHUFFLE(asks && !has, lane);
        if (!lacks) return 0;
        if (has) hl_free_slot(lean, *ticket);
        if (HL_LANE() == 0) {
            over = hl_is_over(lean, lean->queue[which]);
            hl_collect(lean, which);
        }
        over = (int)HL_SHUFFLE(over, 0);
        if (over) return -HL_ESHUTDOWN;
        for (pause = 0; pause < pauses; pause++) HL_PAUSE();
        if (pauses < HL_PAUSES_MAX) pauses *= 2;
    }
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
    int64_t value;
    int gone = 0, error;
    hl_ticket ticket = {0, 0};
    error = hl_warp_slots(lean, which, asked != 0, &ticket);
    if (error) return error;
    for (lane = 0; lane < HL_LANES(); lane++) { /* where the lane's record begins */
        uint64_t span = HL_SHUFFLE(own, lane);
        if (lane < HL_LANE()) before += span;
        all += span;
    }
    if (!all) return 0;
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
    HL_WARP_SYNC(); /* the ring's room is there for every lane */
    gone = (int)HL_SHUFFLE(gone, 0);
    head = HL_SHUFFLE(head, 0);
    if (gone) return -HL_ESHUTDOWN;
    if (asked) hl_write_record(rings + HL_RING_DATA_AT, head + before, asked, hl_tag(ticket.slot, hl_load32(&queue->slot[ticket.slot].serial)));
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
    value = asked ? hl_finish(lean, ticket, result) : 0;
    HL_WARP_SYNC(); /* each lane sees what the host has written for the others */
    return value;
}

/* Does one operation for a block, as hl_warp_do for a warp. `shared` is memory that the whole block sees. */
HL_FN int64_t hl_block_do(hl_lean *lean, uint32_t which, const hl_operation *asked, int64_t *shared)
{
    int64_t value;
    HL_BLOCK_SYNC();
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
