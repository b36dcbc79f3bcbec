/* What a program does by a ring with one of its two connections: `rings FORM PORT`.
 *
 * `one` is what a form's entries name, `other` is named by none. Both are used by plain calls
 * before, and `other` after. The server sends back what it gets. */
#define _GNU_SOURCE
#include "rings.h"

static int one, other, port;
static char room[4096];

/* Bytes wait to be read while the entry comes that names the connection. */
static void leave_unread(void) {
    tell(one, "waiting-");
    struct pollfd ready = {.fd = one, .events = POLLIN};
    poll(&ready, 1, -1);
}

static void receive(int op, unsigned length) {
    memset(room, 0, sizeof room);
    struct iovec part = {room, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (op == IORING_OP_READV) entry(op, one, &part, 1, 0);
    else if (op == IORING_OP_RECVMSG) entry(op, one, &message, 1, 0);
    else entry(op, one, room, length, 0)->msg_flags = op == IORING_OP_RECV ? MSG_WAITALL : 0;
    submit(1);
    printf("received: %s\n", room);
}

static void form_unnamed(void) {
    begin(0);
    entry(IORING_OP_NOP, -1, NULL, 0, 0);
    entry(IORING_OP_STATX, AT_FDCWD, "/", 0, (unsigned long)room);
    entry(IORING_OP_TIMEOUT, one, &(struct __kernel_timespec){.tv_nsec = 1000}, 1, 0);
    submit(3);
    tell(one, "plain"), expect(one, 5);
}

static void form_send(void) {
    begin(0);
    leave_unread();
    entry(IORING_OP_SEND, one, "by-ring", 7, 0);
    submit(1);
    receive(IORING_OP_RECV, 15);
    tell(one, "after"), expect(one, 5);
}

static void form_read(void) {
    begin(NO_SQARRAY);
    leave_unread();
    receive(IORING_OP_READ, 4);
    entry(IORING_OP_WRITE, one, "written", 7, 0);
    submit(1);
    expect(one, 11);
}

static void form_vectors(void) {
    begin(IORING_SETUP_SQE128);
    entry(IORING_OP_NOP, -1, NULL, 0, 0);
    submit(1); /* the next entry is not the first of the ring */
    leave_unread();
    struct iovec parts[] = {{"two ", 4}, {"parts", 5}};
    entry(IORING_OP_WRITEV, one, parts, 2, 0);
    submit(1);
    expect(one, 17);
    tell(one, "third");
    receive(IORING_OP_READV, 5);
}

static void form_messages(void) {
    begin(0);
    struct iovec part = {"message", 7};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    entry(IORING_OP_SENDMSG, one, &message, 1, 0);
    submit(1);
    expect(one, 7);
    leave_unread();
    receive(IORING_OP_RECVMSG, 8);
}

static void form_poll(void) {
    begin(0);
    entry(IORING_OP_POLL_ADD, one, NULL, 0, 0)->poll32_events = POLLIN;
    enter(1, 0, 0);
    tell(one, "wake");
    reap(1);
    expect(one, 4);
}

static void form_registered(void) {
    begin(0);
    leave_unread();
    int files[] = {-1, one, other, ring.fd};
    show("registered", register_with_ring(IORING_REGISTER_FILES, files, 2));
    entry(IORING_OP_WRITE, 1, "fixed", 5, 0)->flags = IOSQE_FIXED_FILE;
    entry(IORING_OP_NOP, 1, NULL, 0, 0);
    submit(2);
    expect(one, 13);
}

static void form_updated(void) {
    begin(0);
    int files[] = {-1, -1};
    show("registered", register_with_ring(IORING_REGISTER_FILES, files, 2));
    leave_unread();
    entry(IORING_OP_FILES_UPDATE, -1, &one, 1, 1);
    submit(1);
    entry(IORING_OP_WRITE, 1, "updated", 7, 0)->flags = IOSQE_FIXED_FILE;
    submit(1);
    expect(one, 15);
}

static void form_updated_by_call(void) {
    begin(0);
    int files[] = {-1, -1};
    show("registered", register_with_ring(IORING_REGISTER_FILES, files, 2));
    leave_unread();
    struct io_uring_files_update update = {.offset = 0, .fds = (unsigned long)&one};
    show("updated", register_with_ring(IORING_REGISTER_FILES_UPDATE, &update, 1));
    entry(IORING_OP_WRITE, 0, "called", 6, 0)->flags = IOSQE_FIXED_FILE;
    submit(1);
    expect(one, 14);
}

static void form_splice(void) {
    begin(0);
    int pipes[2];
    if (pipe(pipes)) exit(3);
    leave_unread();
    struct io_uring_sqe *e = entry(IORING_OP_SPLICE, pipes[1], NULL, 8, -1);
    e->splice_off_in = -1, e->splice_fd_in = one;
    submit(1);
    expect(pipes[0], 8);
    tell(one, "again"), expect(one, 5);
}

static void form_close(void) {
    begin(0);
    tell(one, "last"), expect(one, 4);
    entry(IORING_OP_CLOSE, one, NULL, 0, 0);
    submit(1);
    show("its number", dup(other) == one);
    tell(one, "by the copy"), expect(other, 11);
    show("closed twice", close(one));
}

static void form_close_linked(void) {
    begin(0);
    leave_unread();
    struct io_uring_sqe *e = entry(IORING_OP_RECV, one, room, 8, 0);
    e->msg_flags = MSG_WAITALL, e->flags = IOSQE_IO_LINK;
    entry(IORING_OP_CLOSE, one, NULL, 0, 0);
    submit(2);
    printf("received: %.8s\n", room);
    show("read", read(one, room, 1) < 0 ? -errno : 0);
}

static void form_close_epoll(void) {
    begin(0);
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7};
    epoll_ctl(set, EPOLL_CTL_ADD, one, &event);
    entry(IORING_OP_CLOSE, set, NULL, 0, 0);
    submit(1);
    show("wait", epoll_wait(set, &event, 1, 0) < 0 ? -errno : 0);
    tell(one, "still"), expect(one, 5);
}

static void form_shutdown(void) {
    begin(0);
    leave_unread();
    entry(IORING_OP_SHUTDOWN, one, NULL, SHUT_WR, 0);
    submit(1);
    expect(one, 1000); /* up to the end */
}

static void form_connect(void) {
    begin(0);
    int third = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    entry(IORING_OP_CONNECT, third, &address, 0, sizeof address);
    submit(1);
    tell(third, "by connect"), expect(third, 10);
    tell(one, "plain"), expect(one, 5);
}

static void form_accept(void) {
    begin(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&address, length) || listen(listener, 8)) exit(3);
    getsockname(listener, (void *)&address, &length);
    entry(IORING_OP_ACCEPT, listener, NULL, 0, 0);
    enter(1, 0, 0);
    int client = connect_to(ntohs(address.sin_port));
    enter(0, 1, IORING_ENTER_GETEVENTS);
    int accepted = client + 1;
    reap(1);
    tell(client, "accepted"), expect(accepted, 8);
    tell(accepted, "answered"), expect(client, 8);
    tell(one, "plain"), expect(one, 5);
}

/* Event loops change their sets by rings: the connection in the set stays what it is. */
static void form_epoll_changed(void) {
    begin(NO_SQARRAY);
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1234567812345678}, found[4] = {0};
    entry(IORING_OP_EPOLL_CTL, set, &event, EPOLL_CTL_MOD, one);
    entry(IORING_OP_EPOLL_CTL, set, &event, EPOLL_CTL_ADD, one);
    entry(IORING_OP_EPOLL_CTL, set, &event, EPOLL_CTL_ADD, one);
    submit(3);
    show("quiet", epoll_wait(set, found, 4, 20));
    tell(one, "wake");
    show("ready", epoll_wait(set, found, 4, -1));
    printf("%x %lx\n", found[0].events, found[0].data.u64);
    event.data.u64 = 99, event.events = EPOLLIN | EPOLLOUT;
    entry(IORING_OP_EPOLL_CTL, set, &event, EPOLL_CTL_MOD, one)->flags = IOSQE_ASYNC;
    submit(1);
    show("changed", epoll_wait(set, found, 4, -1));
    printf("%x %lx\n", found[0].events, found[0].data.u64);
    entry(IORING_OP_EPOLL_CTL, set, NULL, EPOLL_CTL_DEL, one);
    entry(IORING_OP_EPOLL_CTL, set, NULL, EPOLL_CTL_DEL, one);
    entry(IORING_OP_EPOLL_CTL, set, NULL, EPOLL_CTL_ADD, one);
    submit(3);
    show("gone", epoll_wait(set, found, 4, 0));
    expect(one, 4);
}

/* What is put in after another entry of its chain is put in by the kernel. */
static void form_epoll_linked(void) {
    begin(0);
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 41}, found[4] = {0};
    leave_unread();
    entry(IORING_OP_NOP, -1, NULL, 0, 0)->flags = IOSQE_IO_LINK;
    entry(IORING_OP_EPOLL_CTL, set, &event, EPOLL_CTL_ADD, one);
    submit(2);
    show("ready", epoll_wait(set, found, 4, -1));
    printf("%x %lx\n", found[0].events, found[0].data.u64);
    expect(one, 8);
}

static void form_epoll_polled(void) {
    begin(0);
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 5}, found[4] = {0};
    epoll_ctl(set, EPOLL_CTL_ADD, one, &event);
    entry(IORING_OP_POLL_ADD, set, NULL, 0, 0)->poll32_events = POLLIN;
    enter(1, 0, 0);
    tell(one, "wake");
    reap(1);
    show("ready", epoll_wait(set, found, 4, 0));
    expect(one, 4);
}

static void form_epoll_waited(void) {
    begin(0);
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 77}, found[4] = {0};
    epoll_ctl(set, EPOLL_CTL_ADD, one, &event);
    show("quiet", epoll_wait(set, found, 4, 0));
    entry(OP_EPOLL_WAIT, set, found, 4, 0);
    enter(1, 0, 0);
    tell(one, "wake");
    reap(1);
    printf("%x %lx\n", found[0].events, found[0].data.u64);
    expect(one, 4);
}

static void form_registered_ring(void) {
    begin(0);
    struct io_uring_rsrc_update place = {.offset = -1, .data = ring.fd};
    show("registered", register_with_ring(IORING_REGISTER_RING_FDS, &place, 1));
    close(ring.fd);
    ring.fd = place.offset, ring.enter_flags = IORING_ENTER_REGISTERED_RING;
    leave_unread();
    entry(IORING_OP_SEND, one, "by-place", 8, 0);
    submit(1);
    expect(one, 16);
}

static void form_given_memory(void) {
    begin(NO_MMAP);
    leave_unread();
    entry(IORING_OP_SEND, one, "given", 5, 0);
    submit(1);
    expect(one, 13);
}

static void form_forked(void) {
    begin(0);
    leave_unread();
    fflush(stdout);
    if (fork() == 0) {
        entry(IORING_OP_SEND, one, "by the child", 12, 0);
        submit(1);
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    expect(one, 20);
}

static void form_restricted(void) {
    begin(IORING_SETUP_R_DISABLED);
    struct io_uring_restriction only = {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_EPOLL_CTL};
    show("restricted", register_with_ring(IORING_REGISTER_RESTRICTIONS, &only, 1));
    show("enabled", register_with_ring(IORING_REGISTER_ENABLE_RINGS, NULL, 0));
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 3}, found[4] = {0};
    entry(IORING_OP_EPOLL_CTL, set, &event, EPOLL_CTL_ADD, one);
    submit(1);
    tell(one, "wake");
    show("ready", epoll_wait(set, found, 4, -1));
    expect(one, 4);
}

static void form_file(void) {
    begin(0);
    int file = open("/proc/self/exe", O_RDONLY), same = 0;
    char by_ring[64], by_call[64];
    for (int at = 0; at < 600; at++) same += pread(file, by_call, 64, at) == 64;
    show("read", same + read(file, by_call, 64));
    entry(IORING_OP_READ, file, by_ring, 64, -1);
    submit(1);
    show("offset", lseek(file, 0, SEEK_CUR));
    pread(file, by_call, 64, 64);
    show("differ", memcmp(by_ring, by_call, 64));
    entry(IORING_OP_CLOSE, file, NULL, 0, 0);
    submit(1);
    show("closed", pread(file, by_call, 64, 0) < 0 ? -errno : 0);
    tell(one, "plain"), expect(one, 5);
}

static void form_polled_by_kernel(void) {
    leave_unread();
    begin(IORING_SETUP_SQPOLL);
    entry(IORING_OP_SEND, one, "unseen", 6, 0);
    enter(0, 0, IORING_ENTER_SQ_WAKEUP);
    reap(1);
    expect(one, 14);
}

static void form_copied(void) {
    begin(0);
    leave_unread();
    int copy = dup(ring.fd);
    close(ring.fd);
    ring.fd = copy;
    entry(IORING_OP_SEND, one, "copy", 4, 0);
    submit(1);
    expect(one, 12);
}

static const struct {
    const char *name;
    void (*run)(void);
} forms[] = {
    {"unnamed", form_unnamed}, {"send", form_send}, {"read", form_read}, {"vectors", form_vectors},
    {"messages", form_messages}, {"poll", form_poll}, {"registered", form_registered},
    {"updated", form_updated}, {"updated_by_call", form_updated_by_call}, {"splice", form_splice},
    {"close", form_close}, {"close_linked", form_close_linked}, {"close_epoll", form_close_epoll},
    {"shutdown", form_shutdown}, {"connect", form_connect}, {"accept", form_accept},
    {"epoll_changed", form_epoll_changed}, {"epoll_linked", form_epoll_linked},
    {"epoll_polled", form_epoll_polled}, {"epoll_waited", form_epoll_waited},
    {"registered_ring", form_registered_ring}, {"given_memory", form_given_memory},
    {"forked", form_forked}, {"restricted", form_restricted}, {"file", form_file},
    {"polled_by_kernel", form_polled_by_kernel}, {"copied", form_copied},
};

int main(int count, char **words) {
    if (count < 3) return 2;
    alarm(100);
    port = atoi(words[2]);
    one = connect_to(port), other = connect_to(port);
    tell(one, "one"), expect(one, 3);
    tell(other, "other"), expect(other, 5);
    for (size_t at = 0; at < sizeof forms / sizeof *forms; at++)
        if (!strcmp(forms[at].name, words[1])) forms[at].run();
    tell(other, "last"), expect(other, 4);
    int late = connect_to(port);
    tell(late, "late"), expect(late, 4);
    printf("over\n");
    fflush(stdout);
    while (read(0, room, 1) > 0) {}
    return 0;
}
