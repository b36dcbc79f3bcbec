/* Cases: calls with answers, then random ones. `cases kernel|lean|warps|blocks FOLDER SEED` */
#include "ways.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ = 1, WRITE = 2, CREATE = 16, EXCLUSIVE = 32, TRUNCATE = 64, DIRECTORY = 128, OPEN_FILES = 8, STEPS = 400 };

static const struct way *way;
static const char *folder;
static uint64_t chance;
static int is_kernel;

void say(const char *format, ...)
{
    va_list rest;
    if (!is_kernel && !lean_prints())
        return;
    va_start(rest, format);
    vprintf(format, rest);
    va_end(rest);
}

#define CALL(...) say("%s: %lld\n", #__VA_ARGS__, (long long)(__VA_ARGS__))
/* Whose result is a number that differs from way to way: 0, or the errno. */
#define DOES(...) say("%s: %lld\n", #__VA_ARGS__, (long long)ok(__VA_ARGS__))
static int64_t ok(int64_t result) { return result < 0 ? result : 0; }

static const char *in(const char *name)
{
    static char text[4][512];
    static int turn;
    char *at = text[turn++ % 4];
    snprintf(at, 512, "%s/%s", folder, name);
    return at;
}

static uint32_t drawn(uint64_t *state, uint32_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)((*state >> 16) % below);
}

static int by_text(const void *one, const void *other) { return strcmp(*(char *const *)one, *(char *const *)other); }

static void show_names(const char *there)
{
    char text[4096] = "", name[512], *names[NAMES_MAX], *rest;
    int count = 0;
    /* Of a lane's own: others go on meanwhile. */
    snprintf(name, sizeof name, "%s", there);
    int64_t bytes = way->list(name, text, sizeof text);
    say("names %s: %lld", name + strlen(folder), (long long)ok(bytes));
    if (bytes > 0)
        for (char *line = strtok_r(text, "\n", &rest); line && count < NAMES_MAX; line = strtok_r(0, "\n", &rest))
            names[count++] = line;
    qsort(names, (size_t)count, sizeof *names, by_text);
    for (int at = 0; at < count; at++)
        say(" %s", names[at]);
    say("\n");
}

static void show_file(int64_t file)
{
    char bytes[200] = "";
    struct seen seen = {0, 0};
    int64_t error = way->stat(file, &seen), length = way->read(file, 0, bytes, sizeof bytes);
    uint64_t sum = 0;
    for (int64_t at = 0; at < length; at++)
        sum = sum * 31 + (uint8_t)bytes[at];
    say("file %lld %lld %o, %lld of %llx\n", (long long)error, (long long)seen.size, seen.mode, (long long)length, (unsigned long long)sum);
}

static void files(void)
{
    char bytes[8192];
    int64_t file, other;
    memset(bytes, 'a', sizeof bytes);
    DOES(way->open(in("none"), READ, 0));
    DOES(file = way->open(in("one"), READ | WRITE | CREATE | EXCLUSIVE, 0640));
    DOES(way->open(in("one"), READ | WRITE | CREATE | EXCLUSIVE, 0640));
    CALL(way->write(file, 0, "hello world", 11));
    CALL(way->write(file, 5000, bytes, 8192));
    CALL(way->read(file, 13190, bytes, 100));
    CALL(way->read(file, 20000, bytes, 100));
    CALL(way->append(file, "end", 3));
    CALL(way->fsync(file));
    show_file(file);
    CALL(way->truncate(file, 4));
    show_file(file);
    DOES(other = way->open(in("one"), READ, 0));
    CALL(way->write(other, 0, "x", 1));
    CALL(way->read(other, 2, bytes, 100));
    CALL(way->close(other));
    DOES(other = way->open(in("one"), WRITE, 0));
    CALL(way->read(other, 0, bytes, 10));
    CALL(way->close(other));
    CALL(way->close(file));
    DOES(file = way->open(in("one"), WRITE | TRUNCATE, 0));
    CALL(way->close(file));
    DOES(file = way->open(in("one"), READ, 0));
    show_file(file);
    CALL(way->close(file));
}

static void fetches(void)
{
    char bytes[8192], name[5000];
    int64_t file;
    memset(bytes, 'f', sizeof bytes);
    memset(name, '/', sizeof name - 1);
    name[sizeof name - 1] = 0;
    CALL(way->fetch(in("fetched"), 0, bytes, 100));
    DOES(file = way->open(in("fetched"), READ | WRITE | CREATE, 0600));
    CALL(way->fetch(in("fetched"), 0, bytes, 100));
    CALL(way->write(file, 3000, "the end", 7));
    CALL(way->fetch(in("fetched"), 0, bytes, sizeof bytes));
    CALL(way->fetch(in("fetched"), 3004, bytes, sizeof bytes));
    say("%.3s\n", bytes);
    CALL(way->fetch(in("fetched"), 2998, bytes, 4));
    CALL(way->fetch(in("fetched"), 3007, bytes, 4));
    CALL(way->fetch(in("fetched"), 1 << 20, bytes, 4));
    CALL(way->close(file));
    CALL(way->fetch(in(""), 0, bytes, 10));
    CALL(way->fetch(in("fetched/below"), 0, bytes, 10));
    CALL(way->fetch("", 0, bytes, 10));
    CALL(way->fetch(name, 0, bytes, 10));
    CALL(way->unlink(in("fetched")));
}

static void names(void)
{
    int64_t file;
    CALL(way->mkdir(in("dir"), 0750));
    CALL(way->mkdir(in("dir"), 0750));
    CALL(way->mkdir(in("none/dir"), 0750));
    DOES(file = way->open(in("dir/inner"), WRITE | CREATE, 0600));
    CALL(way->close(file));
    CALL(way->rmdir(in("dir")));
    CALL(way->rmdir(in("one")));
    CALL(way->unlink(in("none")));
    CALL(way->unlink(in("dir")));
    CALL(way->rename(in("dir/inner"), in("moved"), 0));
    CALL(way->rename(in("dir/inner"), in("moved"), 0));
    CALL(way->rename(in("moved"), in("one"), 1));
    CALL(way->rename(in("moved"), in("one"), 0));
    CALL(way->rename(in("one"), in("dir"), 0));
    CALL(way->rename(in("dir"), in("dir/below"), 0));
    show_names(in(""));
    CALL(way->rmdir(in("dir")));
    DOES(way->open(in("one/below"), READ, 0));
    DOES(way->open(in("one"), READ | DIRECTORY, 0));
    CALL(way->unlink(in("one")));
    show_names(in(""));
    for (int number = 0; number < 40; number++) {
        char name[64];
        snprintf(name, sizeof name, "a-name-of-some-length-%02d", number);
        CALL(way->close(way->open(in(name), WRITE | CREATE, 0600)));
    }
    show_names(in(""));
}

static void sockets(void)
{
    char bytes[1 << 15];
    uint16_t port = 0;
    int64_t listener, client, server, sent = 0, got = 0;
    memset(bytes, 's', sizeof bytes);
    DOES(listener = way->listen(&port));
    DOES(way->accept(listener, 20000));
    CALL(way->poll(listener, 1, 20000));
    DOES(client = way->connect(port));
    CALL(way->poll(listener, 1, 1000000));
    DOES(server = way->accept(listener, 0));
    CALL(way->poll(client, 3, 1000000));
    CALL(way->receive(client, bytes, 10, 20000));
    CALL(way->send(client, "question", 8));
    CALL(way->receive(server, bytes, sizeof bytes, 0));
    CALL(way->send(server, "answer", 6));
    CALL(way->receive(client, bytes, 3, 0));
    CALL(way->receive(client, bytes, 10, 0));
    for (int turn = 0; turn < 8; turn++) {
        sent += way->send(client, bytes, sizeof bytes);
        while (got < sent) {
            int64_t part = way->receive(server, bytes, sizeof bytes, 0);
            if (part <= 0)
                break;
            got += part;
        }
    }
    say("sent %lld, got %lld\n", (long long)sent, (long long)got);
    CALL(way->shutdown(client, 2));
    CALL(way->receive(server, bytes, 10, 0));
    CALL(way->send(server, "still", 5));
    CALL(way->receive(client, bytes, 10, 0));
    CALL(way->send(client, "no more", 7));
    CALL(way->close_socket(server));
    CALL(way->receive(client, bytes, 10, 0));
    CALL(way->close_socket(client));
    CALL(way->close_socket(listener));
    DOES(way->connect(port));
    CALL(way->shutdown(client, 2));
}

/* Random calls on a few names and open files, drawn alike on every way. */
static void steps(void)
{
    char bytes[4096], name[16];
    int64_t file[OPEN_FILES];
    uint64_t state = chance;
    for (int slot = 0; slot < OPEN_FILES; slot++)
        file[slot] = -1;
    for (int step = 0; step < STEPS; step++) {
        uint32_t slot = drawn(&state, OPEN_FILES), kind = drawn(&state, 11), number = drawn(&state, 6);
        uint32_t offset = drawn(&state, 20000), length = 1 + drawn(&state, 4096), other = drawn(&state, 6);
        snprintf(name, sizeof name, "r%u", number);
        memset(bytes, 'A' + step % 26, length);
        say("%d: ", step);
        if (kind < 2 || file[slot] < 0) {
            if (file[slot] >= 0)
                way->close(file[slot]);
            uint32_t flags = READ | WRITE | (drawn(&state, 3) ? CREATE : 0) | (drawn(&state, 8) ? 0 : TRUNCATE);
            DOES(file[slot] = way->open(in(name), flags, 0600));
        } else if (kind < 4) {
            CALL(way->write(file[slot], offset, bytes, length));
        } else if (kind < 6) {
            int64_t got = way->read(file[slot], offset, bytes, length);
            say("read %lld %d\n", (long long)got, got > 0 ? bytes[got - 1] : 0);
        } else if (kind == 6) {
            CALL(way->append(file[slot], bytes, length));
        } else if (kind == 7) {
            CALL(way->truncate(file[slot], offset));
        } else if (kind == 8) {
            char to[16];
            snprintf(to, sizeof to, "r%u", other);
            CALL(way->rename(in(name), in(to), drawn(&state, 2)));
        } else if (kind == 9) {
            int64_t got = way->fetch(in(name), offset, bytes, length);
            say("fetch %lld %d\n", (long long)got, got > 0 ? bytes[got - 1] : 0);
        } else {
            CALL(way->unlink(in(name)));
        }
    }
    for (int slot = 0; slot < OPEN_FILES; slot++)
        if (file[slot] >= 0) {
            show_file(file[slot]);
            way->close(file[slot]);
        }
    show_names(in(""));
}

static void all(void)
{
    files();
    fetches();
    names();
    steps();
    each_lane(way, folder);
    each_block(way, folder);
    sockets();
}

int main(int count, char **words)
{
    if (count < 4)
        return 2;
    folder = words[2];
    chance = strtoull(words[3], 0, 10) * 0x9e3779b97f4a7c15ull | 1;
    is_kernel = strcmp(words[1], "kernel") == 0;
    way = is_kernel ? &kernel_way : &lean_way;
    if (is_kernel) {
        all();
        return 0;
    }
    int error = lean_begin(strcmp(words[1], "warps") == 0, strcmp(words[1], "blocks") == 0);
    if (error) {
        fprintf(stderr, "no lean memory: errno %d\n", -error);
        return 1;
    }
    lean_run(all);
    fflush(stdout);
    return 0;
}
