/* Request and response with work on both sides: what waiting costs beside others' load.
 *
 *   turns server PORT HOW WORK_US
 *   turns client PORT HOW WORK_US CONNECTIONS SECONDS
 *       prints {"turns", "p50_us", "p99_us", "client_cpu_us", "server_cpu_us"}, CPU time per turn
 *
 * HOW is `threads` (one that blocks for each connection) or `epoll` (one for all of them). The
 * work of a turn is a loop of so many microseconds on a core that does nothing else. Each request
 * carries its number, the answer repeats it and says how much CPU time the server has taken when
 * it was asked to.
 */
#include "tcp.h"
#include <pthread.h>
#include <sys/epoll.h>

enum { CONNECTIONS_MAX = 1024, TURNS_MAX = 1 << 22, CHUNK = 2000, TRIALS = 200 };

struct message {
    uint64_t number, wants_cpu, cpu_ns, filler[5];
};

struct line {
    int fd;
    uint64_t number, sent_at;
    pthread_t thread;
};

static struct line lines[CONNECTIONS_MAX];
static uint32_t *took;
static uint64_t turns, ends;
static uint64_t work_chunks;
static double chunk_ns;

static uint64_t cpu_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void work_one_chunk(void)
{
    for (volatile int i = 0; i < CHUNK; i++)
        ;
}

static void work(void)
{
    for (uint64_t i = 0; i < work_chunks; i++)
        work_one_chunk();
}

/* The quickest of many short trials: a busy neighbour does not count. */
static void calibrate(double work_us)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < TRIALS; i++) {
        uint64_t began = now_ns();
        work_one_chunk();
        uint64_t lasted = now_ns() - began;
        best = lasted < best ? lasted : best;
    }
    chunk_ns = (double)best;
    work_chunks = (uint64_t)(work_us * 1000.0 / chunk_ns + 0.5);
}

/* Answers one request; 0 at the end of the stream. */
static int answer(int fd)
{
    struct message message;
    if (!read_exactly(fd, &message, sizeof message))
        return 0;
    work();
    message.cpu_ns = message.wants_cpu ? cpu_ns() : 0;
    write_exactly(fd, &message, sizeof message);
    return 1;
}

static void *answer_all(void *given)
{
    int fd = (int)(intptr_t)given;
    while (answer(fd))
        ;
    close(fd);
    return NULL;
}

static void watch(int set, int fd, uint64_t place)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = place};
    must(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

static _Noreturn void serve_by_epoll(int listener)
{
    struct epoll_event events[64];
    int set = (int)must(epoll_create1(0), "epoll_create1");
    watch(set, listener, (uint64_t)listener);
    for (;;) {
        long count = must(epoll_wait(set, events, 64, -1), "epoll_wait");
        for (long i = 0; i < count; i++) {
            int fd = (int)events[i].data.u64;
            if (fd == listener) {
                fd = accept_one(listener);
                watch(set, fd, (uint64_t)fd);
            } else if (!answer(fd)) {
                close(fd);
            }
        }
    }
}

static _Noreturn void serve_by_threads(int listener)
{
    for (;;) {
        pthread_t thread;
        int fd = accept_one(listener);
        if (pthread_create(&thread, NULL, answer_all, (void *)(intptr_t)fd) != 0)
            exit(1);
        pthread_detach(thread);
    }
}

static void ask(struct line *line, uint64_t wants_cpu)
{
    struct message message = {.number = ++line->number, .wants_cpu = wants_cpu};
    line->sent_at = now_ns();
    write_exactly(line->fd, &message, sizeof message);
}

static struct message hear(struct line *line)
{
    struct message message;
    if (!read_exactly(line->fd, &message, sizeof message) || message.number != line->number) {
        fprintf(stderr, "turn %llu: not the answer to it\n", (unsigned long long)line->number);
        exit(1);
    }
    return message;
}

static uint64_t server_cpu_ns(struct line *line)
{
    ask(line, 1);
    return hear(line).cpu_ns;
}

static void note(uint64_t began)
{
    uint64_t place = __atomic_fetch_add(&turns, 1, __ATOMIC_RELAXED);
    if (place < TURNS_MAX)
        took[place] = (uint32_t)(now_ns() - began);
}

static void *ask_all(void *given)
{
    struct line *line = given;
    while (now_ns() < ends) {
        ask(line, 0);
        hear(line);
        note(line->sent_at);
        work();
    }
    return NULL;
}

static void ask_by_threads(int connections)
{
    for (int i = 0; i < connections; i++)
        if (pthread_create(&lines[i].thread, NULL, ask_all, &lines[i]) != 0)
            exit(1);
    for (int i = 0; i < connections; i++)
        pthread_join(lines[i].thread, NULL);
}

static void ask_by_epoll(int connections)
{
    struct epoll_event events[64];
    int set = (int)must(epoll_create1(0), "epoll_create1"), open = connections;
    for (int i = 0; i < connections; i++) {
        watch(set, lines[i].fd, (uint64_t)i);
        ask(&lines[i], 0);
    }
    while (open > 0) {
        long count = must(epoll_wait(set, events, 64, -1), "epoll_wait");
        for (long i = 0; i < count; i++) {
            struct line *line = &lines[events[i].data.u64];
            hear(line);
            note(line->sent_at);
            work();
            if (now_ns() < ends)
                ask(line, 0);
            else
                open--;
        }
    }
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static int measure(int port, int by_epoll, int connections, double seconds)
{
    took = malloc(TURNS_MAX * sizeof *took);
    if (took == NULL || connections < 1 || connections > CONNECTIONS_MAX)
        return 1;
    for (int i = 0; i < connections; i++) {
        lines[i].fd = connect_to(port);
        server_cpu_ns(&lines[i]);
    }
    uint64_t served = server_cpu_ns(&lines[0]), mine = cpu_ns();
    ends = now_ns() + (uint64_t)(seconds * 1e9);
    if (by_epoll)
        ask_by_epoll(connections);
    else
        ask_by_threads(connections);
    mine = cpu_ns() - mine;
    served = server_cpu_ns(&lines[0]) - served;
    uint64_t kept = turns < TURNS_MAX ? turns : TURNS_MAX;
    qsort(took, kept, sizeof *took, ascending);
    printf("{\"turns\": %llu, \"p50_us\": %.3f, \"p99_us\": %.3f, \"client_cpu_us\": %.3f, \"server_cpu_us\": %.3f}\n",
           (unsigned long long)turns, took[kept / 2] / 1e3, took[kept * 99 / 100] / 1e3,
           (double)mine / 1e3 / (double)turns, (double)served / 1e3 / (double)turns);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 5)
        calibrate(atof(argv[4]));
    if (argc >= 5 && strcmp(argv[1], "server") == 0) {
        int listener = listen_on(atoi(argv[2]));
        if (strcmp(argv[3], "epoll") == 0)
            serve_by_epoll(listener);
        serve_by_threads(listener);
    }
    if (argc >= 7 && strcmp(argv[1], "client") == 0)
        return measure(atoi(argv[2]), strcmp(argv[3], "epoll") == 0, atoi(argv[5]), atof(argv[6]));
    fprintf(stderr, "turns server PORT HOW WORK_US | client PORT HOW WORK_US CONNECTIONS SECONDS\n");
    return 2;
}
