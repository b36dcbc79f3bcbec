/* A ring by raw system calls, with what is newer than Debian 12's header, and two connections. */
#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_MMAP (1u << 14)
#define NO_SQARRAY (1u << 16)
#define OP_EPOLL_WAIT 59
#define ENTRIES 8
#define PAGES (64 << 10)

static struct {
    int fd;
    unsigned flags, stride, enter_flags, sent;
    char *queue, *entries;
    struct io_uring_params params;
} ring;

static unsigned *word(unsigned offset) { return (unsigned *)(ring.queue + offset); }

static void begin(unsigned flags) {
    struct io_uring_params *p = &ring.params;
    memset(p, 0, sizeof *p);
    p->flags = ring.flags = flags;
    int shared = MAP_SHARED | MAP_ANONYMOUS, rights = PROT_READ | PROT_WRITE;
    if (flags & NO_MMAP) {
        ring.queue = mmap(NULL, PAGES, rights, shared | MAP_POPULATE, -1, 0);
        ring.entries = mmap(NULL, 4096, rights, shared | MAP_POPULATE, -1, 0);
        p->cq_off.resv2 = (unsigned long)ring.queue; /* user_addr, since Linux 6.5 */
        p->sq_off.resv2 = (unsigned long)ring.entries;
    }
    ring.fd = syscall(SYS_io_uring_setup, ENTRIES, p);
    if (ring.fd < 0) perror("io_uring_setup"), exit(3);
    ring.stride = flags & IORING_SETUP_SQE128 ? 128 : 64;
    if (!(flags & NO_MMAP)) {
        ring.queue = mmap(NULL, PAGES / 16, rights, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
        ring.entries = mmap(NULL, ENTRIES * ring.stride, rights, MAP_SHARED, ring.fd, IORING_OFF_SQES);
    }
}

/* The next entry, filled in; it is sent by `submit`. */
static struct io_uring_sqe *entry(int op, int fd, const void *address, unsigned length, unsigned long offset) {
    unsigned tail = *word(ring.params.sq_off.tail), at = tail & (ENTRIES - 1);
    struct io_uring_sqe *e = (struct io_uring_sqe *)(ring.entries + at * ring.stride);
    memset(e, 0, ring.stride);
    e->opcode = op, e->fd = fd, e->addr = (unsigned long)address, e->len = length, e->off = offset;
    e->user_data = ++ring.sent;
    if (!(ring.flags & NO_SQARRAY)) *word(ring.params.sq_off.array + 4 * at) = at;
    __atomic_store_n(word(ring.params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
    return e;
}

static int enter(unsigned count, unsigned wait, unsigned flags) {
    int done = syscall(SYS_io_uring_enter, ring.fd, count, wait, flags | ring.enter_flags, NULL, 0);
    if (done < 0) printf("enter: %s\n", strerrorname_np(errno));
    return done;
}

static void show(const char *what, long value) {
    printf("%s: %ld %s\n", what, value, value < 0 ? strerrorname_np((int)-value) : "");
}

/* Prints `count` completions in the order of their entries. */
static void reap(unsigned count) {
    static int results[1024];
    unsigned first = ring.sent + 1, last = 0;
    for (unsigned step = 0; step < count; step++) {
        unsigned head = *word(ring.params.cq_off.head);
        while (__atomic_load_n(word(ring.params.cq_off.tail), __ATOMIC_ACQUIRE) == head) enter(0, 1, IORING_ENTER_GETEVENTS);
        unsigned at = head & *word(ring.params.cq_off.ring_mask);
        struct io_uring_cqe *c = (struct io_uring_cqe *)(ring.queue + ring.params.cq_off.cqes) + at;
        unsigned entry = c->user_data;
        results[entry] = c->res;
        first = entry < first ? entry : first, last = entry > last ? entry : last;
        __atomic_store_n(word(ring.params.cq_off.head), head + 1, __ATOMIC_RELEASE);
    }
    for (unsigned entry = first; entry <= last; entry++) {
        char name[32];
        snprintf(name, sizeof name, "entry %u", entry);
        show(name, results[entry]);
    }
}

static void submit(unsigned count) {
    enter(count, count, IORING_ENTER_GETEVENTS);
    reap(count);
}

static int register_with_ring(unsigned what, void *argument, unsigned count) {
    int done = syscall(SYS_io_uring_register, ring.fd, what, argument, count);
    return done < 0 ? -errno : done;
}

/* Exactly `count` bytes, printed. */
static void expect(int fd, size_t count) {
    char bytes[4096];
    size_t had = 0;
    for (ssize_t got; had < count && (got = read(fd, bytes + had, count - had)) > 0;) had += got;
    printf("%zu bytes: %.*s\n", had, (int)had, bytes);
}

static void tell(int fd, const char *text) {
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text)) perror("write"), exit(3);
}

static int connect_to(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(fd, (void *)&address, sizeof address)) perror("connect"), exit(3);
    return fd;
}
