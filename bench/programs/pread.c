/* Reads a cached file in a tight loop.
 *
 * pread FILE BYTES SECONDS WAY     BYTES per call; WAY: pread (random), read (from start to end
 *                                  and again), seek (lseek, then read), memory (mmap and memcpy),
 *                                  open (open, one read, close)
 * Prints {"ns_per_call": N, "calls": N}. Every call's length is checked, and its first byte: the
 * file must hold at each offset the offset's 4 KiB block number, modulo 251.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void check(const char *buffer, off_t offset, ssize_t got, size_t bytes)
{
    if (got != (ssize_t)bytes || (unsigned char)buffer[0] != (offset >> 12) % 251) {
        fprintf(stderr, "pread: %zd bytes at %ld, first %d\n", got, (long)offset, buffer[0]);
        exit(1);
    }
}

/* An offset inside the file, in steps of the call's size. */
static off_t next(uint64_t *state, size_t places, size_t bytes)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return (off_t)(*state % places) * bytes;
}

int main(int count, char **words)
{
    if (count != 5)
        return 2;
    const char *path = words[1], *way = words[4];
    size_t bytes = strtoul(words[2], NULL, 10);
    double seconds = atof(words[3]), began, ends;
    char *buffer = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096 + 4096);
    struct stat status;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &status) != 0 || status.st_size < (off_t)bytes)
        return 3;
    const char *memory = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED, fd, 0);
    size_t places = status.st_size / bytes;
    uint64_t state = 88172645463325252ull;
    unsigned long calls = 0;
    off_t at = 0;
    /* Warm: the file, the stub's opinion of it, the branch predictors. */
    double warm = now() + seconds / 10;
    for (began = now(), ends = began + seconds + seconds / 10; ;) {
        for (int round = 0; round < 256; round++, calls++) {
            off_t offset = next(&state, places, bytes);
            ssize_t got = bytes;
            if (way[0] == 'p')
                got = pread(fd, buffer, bytes, offset);
            else if (way[0] == 'm')
                memcpy(buffer, memory + offset, bytes);
            else if (way[0] == 's')
                lseek(fd, offset, SEEK_SET), got = read(fd, buffer, bytes);
            else if (way[0] == 'o') {
                int again = open(path, O_RDONLY);
                offset = 0, got = read(again, buffer, bytes);
                close(again);
            } else {
                if (at + (off_t)bytes > status.st_size)
                    at = lseek(fd, 0, SEEK_SET);
                offset = at, got = read(fd, buffer, bytes), at += bytes;
            }
            check(buffer, offset, got, bytes);
        }
        if (warm != 0 && now() > warm)
            warm = 0, calls = 0, began = now();
        if (now() > ends)
            break;
    }
    printf("{\"ns_per_call\": %.2f, \"calls\": %lu}\n", (now() - began) * 1e9 / calls, calls);
    return 0;
}
