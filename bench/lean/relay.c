/* What a co-processor with a stack of its own is served by: a file over TCP, or connections passed on.
 *
 *   relay file PORT FILE          answers (offset, bytes) with bytes of the file
 *   relay connections PORT TO     copies both directions between each connection and one to TO
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static uint8_t buffer[1 << 23];

static struct sockaddr_in local(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

static int send_all(int fd, const uint8_t *bytes, size_t count)
{
    while (count) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
        if (sent <= 0)
            return 0;
        bytes += sent;
        count -= (size_t)sent;
    }
    return 1;
}

static void serve_file(int peer, const char *name)
{
    struct stat status;
    uint64_t asked[2];
    int fd = open(name, O_RDONLY);
    fstat(fd, &status);
    send_all(peer, (uint8_t *)&(uint64_t){(uint64_t)status.st_size}, 8);
    while (recv(peer, asked, sizeof asked, MSG_WAITALL) == sizeof asked && asked[1] <= sizeof buffer) {
        ssize_t got = pread(fd, buffer, asked[1], (off_t)asked[0]);
        if (got <= 0 || !send_all(peer, buffer, (size_t)got))
            break;
    }
    close(fd);
}

static void pass_on(int peer, int port)
{
    struct sockaddr_in to = local(port);
    int other = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(other, (struct sockaddr *)&to, sizeof to))
        return;
    struct pollfd both[2] = {{peer, POLLIN, 0}, {other, POLLIN, 0}};
    while (poll(both, 2, -1) > 0)
        for (int from = 0; from < 2; from++) {
            if (!both[from].revents)
                continue;
            ssize_t got = recv(both[from].fd, buffer, sizeof buffer, 0);
            if (got <= 0 || !send_all(both[!from].fd, buffer, (size_t)got)) {
                close(other);
                return;
            }
        }
}

int main(int count, char **words)
{
    struct sockaddr_in at = local(atoi(words[2]));
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (count < 4 || bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 64))
        return 1;
    fprintf(stderr, "listens\n");
    for (int peer; (peer = accept(listener, 0, 0)) >= 0; close(peer)) {
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (!strcmp(words[1], "file"))
            serve_file(peer, words[3]);
        else
            pass_on(peer, atoi(words[3]));
    }
    return 0;
}
