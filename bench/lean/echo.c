/* A worker that echoes: `echo lean|plain PORT`, on one connection after the other. */
#include "heliostat_lean_host.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { BYTES = 1 << 20 };

static void serve_plain(int port)
{
    static uint8_t buffer[BYTES];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 64))
        exit(1);
    fprintf(stderr, "listens\n");
    for (int peer; (peer = accept(listener, 0, 0)) >= 0; close(peer)) {
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        for (ssize_t got; (got = recv(peer, buffer, BYTES, 0)) > 0;)
            if (send(peer, buffer, (size_t)got, 0) < 0)
                break;
    }
}

int main(int count, char **words)
{
    hl_lean lean = {0};
    hl_object listener = {0, 0}, peer;
    hl_address at = {4, 0, (uint16_t)atoi(words[count - 1]), {127, 0, 0, 1}, 0};
    if (!strcmp(words[1], "plain"))
        serve_plain(at.port);
    if (hl_host_attach(&lean) || hl_listen(&lean, &at, 64, HL_SHARED_LISTENER, &listener))
        return 1;
    fprintf(stderr, "listens\n");
    while (hl_accept(&lean, listener, (hl_address *)0, 0, &peer) == 0) {
        uint8_t *buffer = (uint8_t *)hl_payload(&lean);
        for (int64_t got; (got = hl_receive(&lean, peer, buffer, BYTES, 0)) > 0;)
            if (hl_send(&lean, peer, buffer, (uint64_t)got) < 0)
                break;
        hl_close_socket(&lean, peer);
    }
    return 0;
}
