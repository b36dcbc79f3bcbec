/* A connection that exchanges a few messages and then falls silent.
 *
 *   idle server PORT read|epoll
 *   idle client PORT read|epoll
 *
 * Both ends then wait for ever, in read() or in epoll_wait(), so that the CPU time of an idle
 * connection can be read from outside. Each prints "idle" when it begins to wait.
 */
#include <sys/epoll.h>

#include "tcp.h"

enum { ROUNDS = 1000, BYTES = 64 };

static void wait_for_ever(int fd, const char *how)
{
    char byte;
    puts("idle");
    fflush(stdout);
    if (strcmp(how, "epoll") == 0) {
        struct epoll_event want = {.events = EPOLLIN}, happened;
        int set = (int)must(epoll_create1(0), "epoll_create1");
        must(epoll_ctl(set, EPOLL_CTL_ADD, fd, &want), "epoll_ctl");
        must(epoll_wait(set, &happened, 1, -1), "epoll_wait");
    }
    must(read(fd, &byte, 1), "read");
}

int main(int argc, char **argv)
{
    char message[BYTES] = {0};
    int server, fd;
    if (argc < 4) {
        fprintf(stderr, "idle server|client PORT read|epoll\n");
        return 2;
    }
    server = strcmp(argv[1], "server") == 0;
    fd = server ? accept_one(listen_on(atoi(argv[2]))) : connect_to(atoi(argv[2]));
    for (int i = 0; i < ROUNDS; i++) {
        if (!server)
            write_exactly(fd, message, sizeof message);
        if (!read_exactly(fd, message, sizeof message))
            return 1;
        if (server)
            write_exactly(fd, message, sizeof message);
    }
    wait_for_ever(fd, argv[3]);
    return 0;
}
