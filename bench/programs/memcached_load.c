/* A closed-loop load on memcached: CONNECTIONS connections, one GET in flight on each.
 *
 *   memcached_load PORT CONNECTIONS SECONDS   prints {"requests","seconds","p50_ns","p99_ns"}
 *
 * One thread, epoll, non-blocking reads. The value is stored first and every reply is compared
 * with it byte by byte.
 */
#include <sys/epoll.h>

#include "tcp.h"

enum { CONNECTIONS_MAX = 1024, SAMPLES_MAX = 20 * 1000 * 1000, EVENTS = 64 };

#define VALUE "0123456789abcdef0123456789abcdef"
static const char store[] = "set key 0 0 32\r\n" VALUE "\r\n";
static const char stored[] = "STORED\r\n";
static const char request[] = "get key\r\n";
static const char reply[] = "VALUE key 0 32\r\n" VALUE "\r\nEND\r\n";

struct connection {
    int fd;
    size_t have;
    uint64_t asked_ns;
    char bytes[sizeof reply];
};

static struct connection connections[CONNECTIONS_MAX];
static uint32_t *took;
static uint64_t answered;

static void ask(struct connection *c)
{
    c->have = 0;
    c->asked_ns = now_ns();
    write_exactly(c->fd, request, sizeof request - 1);
}

/* Takes what has arrived; a complete reply is checked, timed and followed by a new request. */
static void take(struct connection *c)
{
    long got = recv(c->fd, c->bytes + c->have, sizeof reply - 1 - c->have, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (must(got, "recv") == 0) {
        fprintf(stderr, "the server closed a connection\n");
        exit(1);
    }
    c->have += (size_t)got;
    if (c->have < sizeof reply - 1)
        return;
    if (memcmp(c->bytes, reply, sizeof reply - 1) != 0) {
        fprintf(stderr, "not the value that was stored\n");
        exit(1);
    }
    if (answered < SAMPLES_MAX)
        took[answered] = (uint32_t)(now_ns() - c->asked_ns);
    answered++;
    ask(c);
}

static int open_all(int port, int count)
{
    int set = (int)must(epoll_create1(0), "epoll_create1");
    char answer[sizeof stored];
    for (int i = 0; i < count; i++) {
        struct epoll_event want = {.events = EPOLLIN, .data.ptr = &connections[i]};
        connections[i].fd = connect_to(port);
        must(epoll_ctl(set, EPOLL_CTL_ADD, connections[i].fd, &want), "epoll_ctl");
    }
    write_exactly(connections[0].fd, store, sizeof store - 1);
    if (!read_exactly(connections[0].fd, answer, sizeof stored - 1) || memcmp(answer, stored, 6) != 0)
        exit(1);
    return set;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS];
    if (argc < 4 || atoi(argv[2]) > CONNECTIONS_MAX) {
        fprintf(stderr, "memcached_load PORT CONNECTIONS SECONDS\n");
        return 2;
    }
    int count = atoi(argv[2]), set = open_all(atoi(argv[1]), count);
    took = malloc(SAMPLES_MAX * sizeof *took);
    for (int i = 0; i < count; i++)
        ask(&connections[i]);
    uint64_t started = now_ns(), end = started + (uint64_t)(atof(argv[3]) * 1e9);
    while (now_ns() < end) {
        long ready = must(epoll_wait(set, events, EVENTS, 1000), "epoll_wait");
        for (long i = 0; i < ready; i++)
            take(events[i].data.ptr);
    }
    double lasted = (double)(now_ns() - started) / 1e9;
    uint64_t samples = answered < SAMPLES_MAX ? answered : SAMPLES_MAX;
    qsort(took, samples, sizeof *took, ascending);
    printf("{\"requests\": %llu, \"seconds\": %.6f, \"p50_ns\": %u, \"p99_ns\": %u}\n",
           (unsigned long long)answered, lasted, took[samples / 2], took[samples * 99 / 100]);
    return 0;
}
