/* Files and connections of a worker, by three ways, to be compared.
 *
 *   worker_io files WAY AT NAME read|write BLOCK THREADS SECONDS
 *   worker_io echo WAY AT PORT                serves for ever: echoes what comes
 *   worker_io ask PORT SIZE CONNECTIONS SECONDS
 *
 * WAY: `lean` (by heliostat_lean.h, as `heliostat coprocessor run` starts it), `host` (the kernel's own calls),
 * `own` (a co-processor's own stack: blocks of 4 KiB by messages to the relay at AT), `staged` (whole blocks by
 * messages). Prints one object of JSON.
 */
#define _GNU_SOURCE
#include "heliostat_lean_host.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* So many of the lean echo have a part of the window, and each a slot. */
enum { ECHOES_MAX = 64 };
enum { MESSAGE_BYTES = 4096, CONNECTIONS_MAX = 512, THREADS_MAX = 64, SAMPLES = 1 << 20 };
enum way { LEAN, HOST, OWN, STAGED };

static hl_lean lean;

static void fail(const char *what)
{
    fprintf(stderr, "worker_io: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static int64_t checked(int64_t value, const char *what)
{
    if (value < 0) {
        errno = (int)-value;
        fail(what);
    }
    return value;
}

static enum way way_of(const char *name)
{
    const char *names[] = {"lean", "host", "own", "staged"};
    for (int way = LEAN; way <= STAGED; way++)
        if (!strcmp(name, names[way])) return (enum way)way;
    errno = EINVAL;
    fail(name);
    return HOST;
}

/* ---- Messages to a relay ---- */

static int relay_at(const char *at)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", at);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) fail(at);
    return fd;
}

static void send_all(int fd, const void *bytes, size_t length)
{
    for (size_t sent = 0; sent < length;) {
        ssize_t more = write(fd, (const char *)bytes + sent, length - sent);
        if (more <= 0) fail("send");
        sent += (size_t)more;
    }
}

static void receive_all(int fd, void *bytes, size_t length)
{
    for (size_t got = 0; got < length;) {
        ssize_t more = read(fd, (char *)bytes + got, length - got);
        if (more <= 0) fail("receive");
        got += (size_t)more;
    }
}

/* One message and its answer; `words` gets what the answer says, `bytes` its bytes: how many. */
static size_t ask_relay(int fd, const char *asked, const void *payload, size_t length, char *words, void *bytes)
{
    char line[512], answer[512];
    size_t at = 0, got;
    int count = snprintf(line, sizeof line, "%s\t%zu\n", asked, length);
    send_all(fd, line, (size_t)count);
    send_all(fd, payload, length);
    do {
        receive_all(fd, answer + at, 1);
    } while (answer[at++] != '\n' && at < sizeof answer);
    answer[at - 1] = 0;
    if (answer[0] != '0') {
        errno = atoi(answer);
        fail(asked);
    }
    char *last = strrchr(answer, '\t');
    got = strtoul(last + 1, NULL, 10);
    *last = 0;
    snprintf(words, 64, "%.63s", strchr(answer, '\t') ? strchr(answer, '\t') + 1 : "");
    receive_all(fd, bytes, got);
    return got;
}

/* ---- Files ---- */

struct load {
    enum way way;
    const char *at, *name;
    int writes;
    uint64_t block, bytes;
    double until;
    unsigned seed;
    uint8_t *buffer;
    hl_object file;
    int fd;
    uint64_t done;
};

static void by_messages(struct load *load, uint64_t offset)
{
    uint64_t piece = load->way == OWN ? MESSAGE_BYTES : load->block;
    char asked[300], words[64];
    uint8_t answer[64];
    for (uint64_t from = 0; from < load->block; from += piece) {
        unsigned long long place = offset + from;
        if (load->writes) {
            snprintf(asked, sizeof asked, "write\t%.200s\t%llu", load->name, place);
            ask_relay(load->fd, asked, load->buffer + from, piece, words, answer);
        } else {
            snprintf(asked, sizeof asked, "read\t%.200s\t%llu\t%llu", load->name, place, (unsigned long long)piece);
            ask_relay(load->fd, asked, "", 0, words, load->buffer + from);
        }
    }
}

static void one_block(struct load *load, uint64_t offset)
{
    int64_t done = 0;
    switch (load->way) {
    case LEAN:
        done = load->writes ? hl_write(&lean, load->file, offset, load->buffer, load->block)
                            : hl_read(&lean, load->file, offset, load->buffer, load->block);
        checked(done, load->writes ? "hl_write" : "hl_read");
        break;
    case HOST:
        done = load->writes ? pwrite(load->fd, load->buffer, load->block, (off_t)offset)
                            : pread(load->fd, load->buffer, load->block, (off_t)offset);
        break;
    default: by_messages(load, offset); done = (int64_t)load->block;
    }
    if (done != (int64_t)load->block) fail("a block was not moved whole");
}

static void *run_load(void *given)
{
    struct load *load = given;
    uint64_t blocks = load->bytes / load->block;
    while (now() < load->until) {
        one_block(load, (uint64_t)rand_r(&load->seed) % blocks * load->block);
        load->done++;
    }
    return NULL;
}

static void open_load(struct load *load)
{
    struct stat facts;
    char name[600];
    snprintf(name, sizeof name, "%s/%s", load->at, load->name);
    if (load->way == LEAN) {
        hl_facts told;
        checked(hl_open(&lean, name, HL_READ | (load->writes ? HL_WRITE : 0), 0, &load->file), "hl_open");
        checked(hl_stat(&lean, load->file, &told), "hl_stat");
        load->bytes = told.size;
    } else if (load->way == HOST) {
        load->fd = open(name, load->writes ? O_RDWR : O_RDONLY);
        if (load->fd < 0 || fstat(load->fd, &facts)) fail(name);
        load->bytes = (uint64_t)facts.st_size;
    } else {
        char words[64];
        load->fd = relay_at(load->at);
        snprintf(name, sizeof name, "length\t%.200s", load->name);
        ask_relay(load->fd, name, "", 0, words, NULL);
        load->bytes = strtoull(words, NULL, 10);
    }
}

static int files(char **words)
{
    static struct load loads[THREADS_MAX];
    static pthread_t threads[THREADS_MAX];
    enum way way = way_of(words[0]);
    uint64_t block = strtoull(words[4], NULL, 10), done = 0;
    int count = atoi(words[5]);
    double seconds = atof(words[6]), started;
    if (way == LEAN) checked(hl_host_attach(&lean), "hl_host_attach");
    for (int number = 0; number < count; number++) {
        struct load *load = &loads[number];
        *load = (struct load){.way = way, .at = words[1], .name = words[2], .block = block, .seed = (unsigned)number + 1};
        load->writes = !strcmp(words[3], "write");
        load->buffer = way == LEAN ? (uint8_t *)hl_payload(&lean) + (uint64_t)number * block : aligned_alloc(4096, block);
        open_load(load);
    }
    started = now();
    for (int number = 0; number < count; number++) {
        loads[number].until = started + seconds;
        pthread_create(&threads[number], NULL, run_load, &loads[number]);
    }
    for (int number = 0; number < count; number++) {
        pthread_join(threads[number], NULL);
        done += loads[number].done;
    }
    printf("{\"bytes_s\": %.0f, \"rate\": %.1f}\n", (double)(done * block) / (now() - started), (double)done / (now() - started));
    return 0;
}

/* ---- Connections ---- */

static int listening(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, CONNECTIONS_MAX)) fail("listen");
    return fd;
}

static void echo_host(int port)
{
    static struct pollfd watched[CONNECTIONS_MAX];
    static uint8_t bytes[1 << 20];
    int count = 1, one = 1;
    watched[0] = (struct pollfd){listening(port), POLLIN, 0};
    puts("ready");
    fflush(stdout);
    while (poll(watched, (nfds_t)count, -1) > 0) {
        if (watched[0].revents && count < CONNECTIONS_MAX) {
            int fd = accept(watched[0].fd, NULL, NULL);
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            watched[count++] = (struct pollfd){fd, POLLIN, 0};
        }
        for (int place = 1; place < count; place++) {
            if (!watched[place].revents) continue;
            ssize_t got = read(watched[place].fd, bytes, sizeof bytes);
            if (got > 0) {
                send_all(watched[place].fd, bytes, (size_t)got);
                continue;
            }
            close(watched[place].fd);
            watched[place] = watched[--count];
        }
    }
}

/* A connection of the lean echo: its transfers go between the socket and its own part of the window. */
struct lean_echo {
    hl_object socket;
    uint8_t *bytes;
    int64_t got;
};

/* One transfer for each of some connections, all asked in one turn; what it moved replaces `got`. */
static void transfer_each(uint32_t kind, struct lean_echo **each, uint32_t count, uint64_t most)
{
    static hl_operation asked[CONNECTIONS_MAX];
    static hl_ticket tickets[CONNECTIONS_MAX];
    for (uint32_t at = 0; at < count; at++) {
        uint64_t bytes = kind == HL_OP_WRITE ? (uint64_t)each[at]->got : most;
        asked[at] = hl_transfer(&lean, kind, each[at]->socket, 0, each[at]->bytes, bytes);
        checked(hl_take_slot(&lean, HL_SOCKETS, at, &tickets[at]), "hl_take_slot");
    }
    if (count) checked(hl_submit(&lean, asked, tickets, count), "hl_submit");
    for (uint32_t at = 0; at < count; at++) {
        int64_t moved = hl_finish(&lean, tickets[at], NULL);
        each[at]->got = kind == HL_OP_WRITE && moved != each[at]->got ? -1 : moved;
    }
}

static void echo_lean(int port)
{
    hl_address at = {4, 0, (uint16_t)port, {127, 0, 0, 1}, 0};
    static struct lean_echo echoes[ECHOES_MAX], *ready[ECHOES_MAX];
    hl_object listener;
    checked(hl_host_attach(&lean), "hl_host_attach");
    hl_poll_entry *watched = hl_payload(&lean);
    uint8_t *bytes = (uint8_t *)hl_payload(&lean) + 4096;
    uint64_t part = (hl_payload_bytes(&lean) - 4096) / ECHOES_MAX & ~4095ull;
    uint32_t count = 0;
    for (uint32_t place = 0; place < ECHOES_MAX; place++) echoes[place].bytes = bytes + place * part;
    checked(hl_listen(&lean, &at, CONNECTIONS_MAX, 0, &listener), "hl_listen");
    watched[0] = (hl_poll_entry){listener, HL_POLL_IN, 0, 0};
    puts("ready");
    fflush(stdout);
    while (hl_poll(&lean, watched, count + 1, 0) > 0) {
        uint32_t readable = 0, answered = 0;
        for (uint32_t place = 0; place < count; place++)
            if (watched[place + 1].found) ready[readable++] = &echoes[place];
        transfer_each(HL_OP_READ, ready, readable, part);
        for (uint32_t one = 0; one < readable; one++)
            if (ready[one]->got > 0) ready[answered++] = ready[one];
        transfer_each(HL_OP_WRITE, ready, answered, part);
        for (uint32_t place = count; place-- > 0;) {
            if (!watched[place + 1].found || echoes[place].got > 0) continue;
            uint8_t *own = echoes[place].bytes;
            hl_close_socket(&lean, echoes[place].socket);
            echoes[place] = echoes[--count];
            echoes[count].bytes = own;
            watched[place + 1] = watched[count + 1];
        }
        if (watched[0].found && count < ECHOES_MAX) {
            checked(hl_accept(&lean, listener, NULL, 0, &echoes[count].socket), "hl_accept");
            watched[count + 1] = (hl_poll_entry){echoes[count].socket, HL_POLL_IN, 0, 0};
            count++;
        }
    }
}

static void echo_by_messages(const char *at)
{
    static uint8_t bytes[1 << 20];
    char asked[80], connection[64], words[64];
    int fd = relay_at(at);
    puts("ready");
    fflush(stdout);
    for (;;) {
        size_t got = ask_relay(fd, "next", "", 0, connection, bytes);
        if (!got) continue;
        snprintf(asked, sizeof asked, "answer\t%.40s", connection);
        ask_relay(fd, asked, bytes, got, words, NULL);
    }
}

/* ---- Clients ---- */

static int by_value(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static int ask(char **words)
{
    static int fds[CONNECTIONS_MAX];
    static double samples[SAMPLES];
    static uint8_t bytes[1 << 20];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[0]))};
    size_t size = strtoul(words[1], NULL, 10);
    int count = atoi(words[2]), one = 1, taken = 0;
    double until = now() + atof(words[3]), started = now();
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int place = 0; place < count; place++) {
        fds[place] = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(fds[place], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (connect(fds[place], (struct sockaddr *)&to, sizeof to)) fail("connect");
    }
    /* All connections have a message under way; a sample is from the sending of all to the answer of each. */
    while (now() < until && taken + count < SAMPLES) {
        double sent = now();
        for (int place = 0; place < count; place++) send_all(fds[place], bytes, size);
        for (int place = 0; place < count; place++) {
            receive_all(fds[place], bytes, size);
            samples[taken++] = (now() - sent) * 1e6;
        }
    }
    double seconds = now() - started;
    qsort(samples, (size_t)taken, sizeof samples[0], by_value);
    printf("{\"rate\": %.1f, \"p50_us\": %.2f, \"p99_us\": %.2f}\n", taken / seconds, samples[taken / 2], samples[(int)(taken * 0.99)]);
    return 0;
}

int main(int count, char **words)
{
    if (count == 9 && !strcmp(words[1], "files")) return files(words + 2);
    if (count == 6 && !strcmp(words[1], "ask")) return ask(words + 2);
    if (count == 5 && !strcmp(words[1], "echo")) {
        enum way way = way_of(words[2]);
        if (way == LEAN) echo_lean(atoi(words[4]));
        else if (way == HOST) echo_host(atoi(words[4]));
        else echo_by_messages(words[3]);
        return 0;
    }
    fputs("worker_io files|echo|ask ..., see its source\n", stderr);
    return 2;
}
