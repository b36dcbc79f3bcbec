/* Speaks with an echo server by a library's own system calls: `own_calls_user PORT [LIBRARY]`. The
 * library is linked with, or opened where its path is given. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static long (*send_by)(int, const void *, size_t);
static long (*recv_by)(int, void *, size_t);
static long (*call_by)(long, int, void *, size_t);

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int connected(int port) {
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(port)};
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer)) fail("connect");
    return fd;
}

int main(int count, char **words) {
    char room[64] = "";
    if (count < 2) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    void *from = RTLD_DEFAULT;
    if (count > 2 && !(from = dlopen(words[2], RTLD_NOW))) return 3;
    *(void **)&send_by = dlsym(from, "own_send");
    *(void **)&recv_by = dlsym(from, "own_recv");
    *(void **)&call_by = dlsym(from, "own_call");
    if (!send_by || !recv_by || !call_by) return 4;
    int fd = connected(atoi(words[1]));
    for (int turn = 0; turn < 3; turn++) {
        printf("sent: %ld\n", send_by(fd, "by itself", 9));
        long got = 0;
        while (got < 9) {
            long more = recv_by(fd, room + got, 9 - got);
            if (more <= 0) return 5;
            got += more;
        }
        printf("received: %.9s\n", room);
        printf("written: %ld\n", call_by(1, fd, "by number", 9));
        if (recv(fd, room, 9, MSG_WAITALL) != 9) fail("recv");
        printf("received: %.9s\n", room);
    }
    puts("over");
    while (getchar() != EOF) {}
    return close(fd);
}
