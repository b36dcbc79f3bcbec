/* Blocking ping-pong over one TCP connection.
 *
 *   pingpong server PORT BYTES
 *   pingpong client PORT BYTES SECONDS    prints {"rounds","p50_ns","p99_ns","p999_ns"}
 *
 * Each message carries its number and the client checks the echo, so that a fast path which
 * loses or repeats bytes has no figure.
 */
#include "tcp.h"

enum { BYTES_MAX = 65536, WARM_ROUNDS = 2000, ROUNDS_MAX = 40 * 1000 * 1000 };

static unsigned char message[BYTES_MAX], echo[BYTES_MAX];

static int serve(int port, size_t bytes)
{
    int fd = accept_one(listen_on(port));
    while (read_exactly(fd, message, bytes))
        write_exactly(fd, message, bytes);
    return 0;
}

static uint64_t round_trip(int fd, size_t bytes, uint64_t number)
{
    uint64_t started = now_ns();
    memcpy(message, &number, sizeof number);
    write_exactly(fd, message, bytes);
    if (!read_exactly(fd, echo, bytes) || memcmp(message, echo, bytes) != 0) {
        fprintf(stderr, "round %llu: not the bytes that were sent\n", (unsigned long long)number);
        exit(1);
    }
    return now_ns() - started;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static int measure(int port, size_t bytes, double seconds)
{
    int fd = connect_to(port);
    uint32_t *took = malloc(ROUNDS_MAX * sizeof *took);
    uint64_t rounds = 0, end;
    memset(message, 0xa5, sizeof message);
    for (uint64_t i = 0; i < WARM_ROUNDS; i++)
        round_trip(fd, bytes, i);
    end = now_ns() + (uint64_t)(seconds * 1e9);
    while (now_ns() < end && rounds < ROUNDS_MAX) {
        took[rounds] = (uint32_t)round_trip(fd, bytes, rounds);
        rounds++;
    }
    qsort(took, rounds, sizeof *took, ascending);
    printf("{\"rounds\": %llu, \"p50_ns\": %u, \"p99_ns\": %u, \"p999_ns\": %u}\n",
           (unsigned long long)rounds, took[rounds / 2], took[rounds * 99 / 100],
           took[rounds * 999 / 1000]);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "server") == 0)
        return serve(atoi(argv[2]), (size_t)atoi(argv[3]));
    if (argc >= 5 && strcmp(argv[1], "client") == 0)
        return measure(atoi(argv[2]), (size_t)atoi(argv[3]), atof(argv[4]));
    fprintf(stderr, "pingpong server PORT BYTES | client PORT BYTES SECONDS\n");
    return 2;
}
