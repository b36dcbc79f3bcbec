/* The same calls in a kernel: a block reads a file in parts, a warp each, and counts a byte.
 *
 *   nvcc -arch=sm_90 -std=c++17 -cubin -I../include search.cu
 *
 * The window and the rings are host memory that the device sees (cudaHostRegister, mapped); the queues'
 * state lies in the device's own memory: `lean->queue`. Somebody on the host rings for it, as
 * `heliostat coprocessor run --watch` does.
 */
#include "heliostat_lean.h"

extern "C" __global__ void count_byte(hl_lean *lean, const char *name, int byte, unsigned long long *found, int64_t *shared)
{
    __shared__ hl_object file;
    const uint64_t part = 64 * 1024;
    const uint32_t warp = threadIdx.x / 32, warps = blockDim.x / 32;
    uint8_t *own = (uint8_t *)hl_payload(lean) + (uint64_t)warp * part;
    int64_t bytes;
    if (HL_BLOCK_LEADER()) *shared = hl_open(lean, name, HL_READ, 0, &file);
    HL_BLOCK_SYNC();
    if (*shared) return;
    for (uint64_t at = warp * part;; at += warps * part) {
        unsigned long long seen = 0;
        bytes = hl_warp_read(lean, file, at, own, part);
        for (int64_t next = HL_LANE(); next < bytes; next += HL_LANES()) seen += own[next] == byte;
        if (seen) atomicAdd(found, seen);
        if (bytes < (int64_t)part) break;
    }
    HL_BLOCK_SYNC();
    if (HL_BLOCK_LEADER()) *shared = hl_close(lean, file);
}

extern "C" __global__ void each(hl_lean *lean, hl_object file, uint64_t *words)
{
    hl_operation asked = hl_transfer(lean, HL_OP_READ, file, HL_LANE() * 8, words + HL_LANE(), 8);
    hl_warp_each(lean, HL_FILES, &asked, (hl_result *)0);
}
