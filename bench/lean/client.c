/* Sends and awaits the same bytes: `client PORT BYTES SECONDS`, one JSON line. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES_MAX = 1 << 20 };

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int by_value(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

int main(int count, char **words)
{
    static uint32_t took[SAMPLES_MAX];
    static uint8_t bytes[1 << 20];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[1]))};
    size_t size = strtoul(words[2], 0, 10);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    uint64_t turns = 0;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (count < 4 || connect(fd, (struct sockaddr *)&at, sizeof at))
        return 1;
    uint64_t began = now_ns(), last = began, ends = began + (uint64_t)(atof(words[3]) * 1e9);
    while (last < ends) {
        if (send(fd, bytes, size, 0) != (ssize_t)size || recv(fd, bytes, size, MSG_WAITALL) != (ssize_t)size)
            return 2;
        uint64_t now = now_ns();
        took[turns++ % SAMPLES_MAX] = (uint32_t)(now - last);
        last = now;
    }
    uint64_t kept = turns < SAMPLES_MAX ? turns : SAMPLES_MAX;
    qsort(took, kept, sizeof *took, by_value);
    printf("{\"per_s\": %.0f, \"p50_us\": %.2f, \"p99_us\": %.2f}\n", (double)turns * 1e9 / (double)(last - began), took[kept / 2] / 1e3,
           took[kept * 99 / 100] / 1e3);
    return 0;
}
