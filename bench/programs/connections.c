/* Rate of connection set-up, one byte each way, and close.
 *
 *   connections server PORT
 *   connections client PORT SECONDS    prints {"connections", "seconds", "p50_ns", "p99_ns"}
 *
 * The client closes with a reset (SO_LINGER 0), so that thousands of TIME_WAIT entries do not
 * end the measurement before its time; the server sees its byte before that.
 */
#include "tcp.h"

enum { CONNECTIONS_MAX = 4 * 1000 * 1000 };

static _Noreturn void serve(int port)
{
    int listener = listen_on(port);
    for (;;) {
        char byte;
        int fd = accept_one(listener);
        if (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) != 1)
            perror("write");
        close(fd);
    }
}

static uint64_t one_connection(int port)
{
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    uint64_t started = now_ns();
    char byte = 'x';
    int fd = connect_to(port);
    write_exactly(fd, &byte, 1);
    if (!read_exactly(fd, &byte, 1))
        exit(1);
    must(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), "SO_LINGER");
    close(fd);
    return now_ns() - started;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static int measure(int port, double seconds)
{
    uint32_t *took = malloc(CONNECTIONS_MAX * sizeof *took);
    uint64_t count = 0, started = now_ns(), end = started + (uint64_t)(seconds * 1e9);
    while (now_ns() < end && count < CONNECTIONS_MAX)
        took[count++] = (uint32_t)one_connection(port);
    double lasted = (double)(now_ns() - started) / 1e9;
    qsort(took, count, sizeof *took, ascending);
    printf("{\"connections\": %llu, \"seconds\": %.6f, \"p50_ns\": %u, \"p99_ns\": %u}\n",
           (unsigned long long)count, lasted, took[count / 2], took[count * 99 / 100]);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "server") == 0)
        serve(atoi(argv[2]));
    if (argc >= 4 && strcmp(argv[1], "client") == 0)
        return measure(atoi(argv[2]), atof(argv[3]));
    fprintf(stderr, "connections server PORT | client PORT SECONDS\n");
    return 2;
}
