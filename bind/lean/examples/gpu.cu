/* A worker whose processor is a GPU: its kernels read files and serve connections, the host's half only waits.
 *
 *   nvcc -arch=sm_90 -std=c++17 -I../include -o gpu gpu.cu
 *   heliostat coprocessor run --workers 1 --unsealed --watch --root /srv/data -- ./gpu count /srv/data/file 10
 *   heliostat coprocessor run --workers 1 --unsealed --watch --listen 127.0.0.1:7000 -- ./gpu echo 7000 8
 *
 * `count` prints how often a byte is in a file; `echo` sends back what so many connections at once send,
 * a warp each, and ends with them. Unsealed: the driver needs system calls of its own to start.
 */
#include "heliostat_lean_host.h"

#include "search.cu"

#include <stdio.h>
#include <string.h>

enum { WARPS = 32, ECHO_BYTES = 64 * 1024, NAME_BYTES = 4096 };

static void check(cudaError_t answer, const char *what)
{
    if (answer == cudaSuccess) return;
    fprintf(stderr, "gpu: %s: %s\n", what, cudaGetErrorString(answer));
    exit(1);
}

static void check(int64_t error, const char *what)
{
    if (error >= 0) return;
    fprintf(stderr, "gpu: %s: errno %d\n", what, (int)-error);
    exit(1);
}

/* Memory of the device that begins as zeros. */
template <typename T> static T *on_device(uint64_t count)
{
    void *at;
    check(cudaMalloc(&at, count * sizeof(T)), "memory of the device");
    check(cudaMemset(at, 0, count * sizeof(T)), "memory of the device");
    return (T *)at;
}

/* Host memory as the device sees it; null stays null. */
static uint8_t *seen_by_device(uint8_t *at, uint64_t bytes)
{
    void *seen;
    if (!at) return at;
    check(cudaHostRegister(at, bytes, cudaHostRegisterMapped), "memory of the worker");
    check(cudaHostGetDevicePointer(&seen, at, 0), "memory of the worker");
    return (uint8_t *)seen;
}

/* The worker's memory for kernels: the queues' state in the device's own, where its atomics are. */
static hl_lean *attached(void)
{
    hl_lean lean, *there = on_device<hl_lean>(1);
    check((int64_t)hl_host_attach(&lean), "what `heliostat coprocessor run` leaves");
    lean.window = seen_by_device(lean.window, lean.window_bytes);
    for (int which = 0; which < 2; which++) {
        lean.rings[which] = seen_by_device(lean.rings[which], HL_RINGS_BYTES);
        lean.queue[which] = on_device<hl_queue>(1);
    }
    check(cudaMemcpy(there, &lean, sizeof lean, cudaMemcpyHostToDevice), "memory of the device");
    return there;
}

static int64_t told_by(const int64_t *at)
{
    int64_t told;
    check(cudaDeviceSynchronize(), "kernel");
    check(cudaMemcpy(&told, at, sizeof told, cudaMemcpyDeviceToHost), "memory of the device");
    return told;
}

static void count(hl_lean *lean, const char *path, int byte)
{
    char *name = on_device<char>(NAME_BYTES);
    unsigned long long *found = on_device<unsigned long long>(1);
    int64_t *shared = on_device<int64_t>(1);
    struct timespec begin, end;
    check(cudaMemcpy(name, path, strnlen(path, NAME_BYTES - 1), cudaMemcpyHostToDevice), "name");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    count_byte<<<1, 32 * WARPS>>>(lean, name, byte, found, shared);
    check(told_by(shared), path);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%lld\n", (long long)told_by((int64_t *)found));
    fprintf(stderr, "gpu: %.3f ms\n", (end.tv_sec - begin.tv_sec) * 1e3 + (end.tv_nsec - begin.tv_nsec) / 1e6);
}

/* A block: its first thread listens, each warp serves a connection. */
extern "C" __global__ void echo(hl_lean *lean, uint16_t port, int64_t *error)
{
    __shared__ hl_object listener;
    hl_address at = {4, 0, port, {127, 0, 0, 1}, 0};
    const uint32_t warp = threadIdx.x / 32;
    uint8_t *own = (uint8_t *)hl_payload(lean) + (uint64_t)warp * ECHO_BYTES;
    hl_object peer;
    int64_t bytes;
    if (HL_BLOCK_LEADER()) *error = hl_listen(lean, &at, WARPS, 0, &listener);
    HL_BLOCK_SYNC();
    bytes = *error;
    HL_BLOCK_SYNC(); /* a warp that is through may write its own */
    if (bytes < 0) return;
    if (HL_LANE() == 0 && (bytes = hl_accept(lean, listener, (hl_address *)0, 0, &peer)) == 0) {
        while ((bytes = hl_receive(lean, peer, own, ECHO_BYTES, 0)) > 0 && (bytes = hl_send(lean, peer, own, bytes)) > 0) {}
        hl_close_socket(lean, peer);
    }
    if (HL_LANE() == 0 && bytes < 0) *error = bytes;
}

int main(int words, char **word)
{
    if (words != 4 || (strcmp(word[1], "count") && strcmp(word[1], "echo"))) {
        fprintf(stderr, "usage: gpu count FILE BYTE | gpu echo PORT CONNECTIONS\n");
        return 2;
    }
    hl_lean *lean = attached();
    if (!strcmp(word[1], "count")) {
        count(lean, word[2], atoi(word[3]));
        return 0;
    }
    int64_t *error = on_device<int64_t>(1);
    int warps = atoi(word[3]);
    check(warps >= 1 && warps <= WARPS ? (int64_t)0 : (int64_t)-EINVAL, "connections, 1 to 32");
    echo<<<1, 32 * warps>>>(lean, (uint16_t)atoi(word[2]), error);
    check(told_by(error), "echo");
    return 0;
}
