/* What the measuring programs share: sockets on 127.0.0.1, a clock, exact reads and writes.
 *
 * The programs know nothing of Heliostat. Every helper ends the program on an error, so that
 * a figure is never printed for a run that went wrong.
 */
#ifndef BENCH_TCP_H
#define BENCH_TCP_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static inline long must(long result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(1);
    }
    return result;
}

static inline uint64_t now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static inline struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static inline int listen_on(int port)
{
    struct sockaddr_in address = loopback(port);
    int one = 1, fd = (int)must(socket(AF_INET, SOCK_STREAM, 0), "socket");
    must(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), "SO_REUSEADDR");
    must(bind(fd, (struct sockaddr *)&address, sizeof address), "bind");
    must(listen(fd, 1024), "listen");
    return fd;
}

static inline int connect_to(int port)
{
    struct sockaddr_in address = loopback(port);
    int one = 1, fd = (int)must(socket(AF_INET, SOCK_STREAM, 0), "socket");
    must(connect(fd, (struct sockaddr *)&address, sizeof address), "connect");
    must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), "TCP_NODELAY");
    return fd;
}

static inline int accept_one(int listener)
{
    int one = 1, fd = (int)must(accept(listener, NULL, NULL), "accept");
    must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), "TCP_NODELAY");
    return fd;
}

/* Reads exactly `bytes`; returns 0 at the end of the stream. */
static inline int read_exactly(int fd, void *into, size_t bytes)
{
    size_t have = 0;
    while (have < bytes) {
        long got = must(read(fd, (char *)into + have, bytes - have), "read");
        if (got == 0)
            return 0;
        have += (size_t)got;
    }
    return 1;
}

static inline void write_exactly(int fd, const void *from, size_t bytes)
{
    size_t sent = 0;
    while (sent < bytes)
        sent += (size_t)must(write(fd, (const char *)from + sent, bytes - sent), "write");
}

#endif
