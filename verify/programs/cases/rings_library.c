/* What a program does by liburing, whose system calls are its own and not libc's:
 * `rings_library FORM PORT`.
 *
 * The peer sends back what it gets. `plain` is a connection that no entry names. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct io_uring ring;
static struct sockaddr_in peer;
static char room[65536];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static struct io_uring_sqe *entry(void) {
    struct io_uring_sqe *found = io_uring_get_sqe(&ring);
    if (!found) exit(2);
    return found;
}

/* Submits, waits for one completion, and gives its result. */
static int complete(unsigned *flags) {
    struct io_uring_cqe *done;
    if (io_uring_submit(&ring) < 0) exit(3);
    if (io_uring_wait_cqe(&ring, &done) < 0) exit(4);
    int result = done->res;
    if (flags) *flags = done->flags;
    io_uring_cqe_seen(&ring, done);
    return result;
}

static int connected(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer)) fail("connect");
    return fd;
}

/* There and back by plain calls. */
static void echo(int fd, const char *text) {
    size_t length = strlen(text), got = 0;
    if (send(fd, text, length, 0) != (ssize_t)length) fail("send");
    while (got < length) {
        ssize_t more = recv(fd, room + got, length - got, 0);
        if (more <= 0) fail("recv");
        got += more;
    }
    printf("plain: %.*s\n", (int)got, room);
}

/* There and back by the ring. */
static void echo_by_ring(int fd, const char *text) {
    int length = strlen(text), got = 0;
    io_uring_prep_send(entry(), fd, text, length, 0);
    printf("sent: %d\n", complete(NULL));
    while (got < length) {
        io_uring_prep_recv(entry(), fd, room + got, length - got, 0);
        int more = complete(NULL);
        if (more <= 0) {
            printf("received: %d\n", more);
            return;
        }
        got += more;
    }
    printf("ring: %.*s\n", got, room);
}

static void form_moved(void) {
    int fd = connected();
    echo(fd, "before");
    echo_by_ring(fd, "between");
    echo(fd, "after");
    close(fd);
}

static void form_connected(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    io_uring_prep_connect(entry(), fd, (struct sockaddr *)&peer, sizeof peer);
    printf("connected: %d\n", complete(NULL));
    echo_by_ring(fd, "by ring");
    echo(fd, "by call");
    io_uring_prep_close(entry(), fd);
    printf("closed: %d\n", complete(NULL));
}

static void form_polled(void) {
    int fd = connected();
    echo(fd, "before");
    if (send(fd, "polled", 6, 0) != 6) fail("send");
    io_uring_prep_poll_multishot(entry(), fd, POLLIN);
    printf("polled: %d\n", complete(NULL) & POLLIN);
    int got = 0;
    while (got < 6) got += recv(fd, room + got, 6 - got, 0);
    printf("read: %.6s\n", room);
    close(fd);
}

/* A listener of the program's own, which accepts by one entry, for two connections of its own. */
static void form_accepted(void) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof here;
    if (bind(listener, (struct sockaddr *)&here, length) || listen(listener, 8)) fail("listen");
    getsockname(listener, (struct sockaddr *)&here, &length);
    peer = here;
    io_uring_prep_multishot_accept(entry(), listener, NULL, NULL, SOCK_CLOEXEC);
    for (int turn = 0; turn < 2; turn++) {
        int client = connected();
        int served = complete(NULL);
        printf("accepted: %s\n", served >= 0 ? "yes" : strerror(-served));
        if (send(client, "greeting", 8, 0) != 8) fail("send");
        io_uring_prep_recv(entry(), served, room, 8, MSG_WAITALL);
        printf("served: %d %.8s\n", complete(NULL), room);
        io_uring_prep_send(entry(), served, "answer", 6, 0);
        printf("answered: %d\n", complete(NULL));
        printf("read: %zd\n", recv(client, room, 6, MSG_WAITALL));
        close(client);
        close(served);
    }
    close(listener);
}

/* Each piece as it comes, into buffers that the kernel chooses. */
static void form_multishot(void) {
    enum { BUFFERS = 8, BYTES = 4096 };
    static char buffers[BUFFERS][BYTES];
    int fd = connected();
    echo(fd, "before");
    io_uring_prep_provide_buffers(entry(), buffers, BYTES, BUFFERS, 1, 0);
    printf("provided: %d\n", complete(NULL));
    struct io_uring_sqe *receive = entry();
    io_uring_prep_recv_multishot(receive, fd, NULL, 0, 0);
    receive->flags |= IOSQE_BUFFER_SELECT;
    receive->buf_group = 1;
    for (int turn = 0; turn < 3; turn++) {
        if (send(fd, "piece", 5, 0) != 5) fail("send");
        unsigned flags;
        int got = complete(&flags);
        printf("piece: %d %.5s %s\n", got, buffers[flags >> IORING_CQE_BUFFER_SHIFT],
               flags & IORING_CQE_F_MORE ? "more" : "last");
    }
    close(fd);
}

/* The ring is for files only: the connection has no reason to leave. */
static void form_file(void) {
    int fd = connected();
    int file = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    echo(fd, "before");
    io_uring_prep_read(entry(), file, room, 4, 0);
    printf("read: %d %.4s\n", complete(NULL), room);
    echo(fd, "after");
    close(file);
    close(fd);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    peer.sin_family = AF_INET;
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    peer.sin_port = htons(atoi(words[2]));
    int plain = connected();
    echo(plain, "first");
    if (io_uring_queue_init(8, &ring, 0)) return 3;
    if (!strcmp(words[1], "moved")) form_moved();
    else if (!strcmp(words[1], "connected")) form_connected();
    else if (!strcmp(words[1], "polled")) form_polled();
    else if (!strcmp(words[1], "accepted")) form_accepted();
    else if (!strcmp(words[1], "multishot")) form_multishot();
    else if (!strcmp(words[1], "file")) form_file();
    else return 2;
    echo(plain, "last");
    puts("over");
    while (getchar() != EOF) {}
    io_uring_queue_exit(&ring);
    return 0;
}
