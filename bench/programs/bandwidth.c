/* One-way bandwidth over one TCP connection.
 *
 *   bandwidth server PORT BYTES            reads BYTES at a time until the end
 *   bandwidth client PORT BYTES SECONDS    prints {"bytes", "seconds"}
 *
 * The clock stops when the server has read everything and has said how much that was.
 */
#include "tcp.h"

static int serve(int port, size_t chunk)
{
    int fd = accept_one(listen_on(port));
    char *buffer = malloc(chunk);
    uint64_t total = 0;
    long got;
    while ((got = must(read(fd, buffer, chunk), "read")) > 0)
        total += (uint64_t)got;
    write_exactly(fd, &total, sizeof total);
    return 0;
}

static int measure(int port, size_t chunk, double seconds)
{
    int fd = connect_to(port);
    char *buffer = malloc(chunk);
    uint64_t sent = 0, arrived = 0, started, end;
    memset(buffer, 0x5a, chunk);
    started = now_ns();
    end = started + (uint64_t)(seconds * 1e9);
    while (now_ns() < end) {
        write_exactly(fd, buffer, chunk);
        sent += chunk;
    }
    must(shutdown(fd, SHUT_WR), "shutdown");
    if (!read_exactly(fd, &arrived, sizeof arrived) || arrived != sent) {
        fprintf(stderr, "sent %llu bytes, %llu arrived\n", (unsigned long long)sent,
                (unsigned long long)arrived);
        return 1;
    }
    printf("{\"bytes\": %llu, \"seconds\": %.6f}\n", (unsigned long long)arrived,
           (double)(now_ns() - started) / 1e9);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "server") == 0)
        return serve(atoi(argv[2]), (size_t)atol(argv[3]));
    if (argc >= 5 && strcmp(argv[1], "client") == 0)
        return measure(atoi(argv[2]), (size_t)atol(argv[3]), atof(argv[4]));
    fprintf(stderr, "bandwidth server PORT BYTES | client PORT BYTES SECONDS\n");
    return 2;
}
