/* So many connections at once, each of which asks once: `clients PORT COUNT` */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int words_count, char **words)
{
    int port = atoi(words[1]), count = words_count > 2 ? atoi(words[2]) : 100, answered = 0;
    struct rlimit most = {(rlim_t)count + 100, (rlim_t)count + 100};
    if (setrlimit(RLIMIT_NOFILE, &most))
        perror("descriptors");
    struct pollfd *peer = calloc((size_t)count, sizeof *peer);
    for (int number = 0; number < count; number++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        /* Several addresses of the loopback, so that there are ports enough. */
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        peer[number].fd = socket(AF_INET, SOCK_STREAM, 0);
        peer[number].events = POLLIN;
        if (connect(peer[number].fd, (struct sockaddr *)&at, sizeof at)) {
            printf("connection %d: %s\n", number, strerror(errno));
            return 1;
        }
    }
    for (int number = 0; number < count; number++)
        if (send(peer[number].fd, "word", 4, MSG_NOSIGNAL) != 4)
            printf("send %d: %s\n", number, strerror(errno));
    while (answered < count) {
        int ready = poll(peer, (nfds_t)count, 60000);
        if (ready <= 0)
            break;
        for (int number = 0; number < count; number++) {
            char word[8];
            if (!(peer[number].revents & (POLLIN | POLLERR | POLLHUP)))
                continue;
            if (recv(peer[number].fd, word, sizeof word, 0) == 4)
                answered++;
            peer[number].fd = -peer[number].fd;
        }
    }
    printf("%d answered\n", answered);
    return answered == count ? 0 : 1;
}
