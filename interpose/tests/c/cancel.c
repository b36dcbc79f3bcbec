/* Cancels threads that are blocked in, or busy with, system calls.
 *
 * usage: cancel CASE ROUNDS. Prints one line: how many threads ended as cancelled, and how many
 * cleanup handlers ran, those that are found by unwinding the stack included. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static int pipe_ends[2], pair[2], epoll_fd;
static sem_t never, ready;
static const char *which;
static int pushed, unwound;

/* By way of a pointer: what the compiler knows about dup2 is that nothing is thrown there. */
static int (*volatile copy)(int, int) = dup2;

static void count_pushed(void *unused) { (void)unused; __sync_fetch_and_add(&pushed, 1); }
static void count_unwound(int *unused) { (void)unused; __sync_fetch_and_add(&unwound, 1); }

static void block(void) {
    char byte;
    struct epoll_event event;
    struct pollfd none = { .fd = pipe_ends[0], .events = POLLIN };
    if (!strcmp(which, "read")) read(pipe_ends[0], &byte, 1);
    else if (!strcmp(which, "recv")) recv(pair[0], &byte, 1, 0);
    else if (!strcmp(which, "accept")) accept(pair[0], NULL, NULL);
    else if (!strcmp(which, "poll")) poll(&none, 1, -1);
    else if (!strcmp(which, "epoll_wait")) epoll_wait(epoll_fd, &event, 1, -1);
    else if (!strcmp(which, "sem_wait")) sem_wait(&never);
    else if (!strcmp(which, "sleep")) sleep(100);
    else if (!strcmp(which, "pause")) pause();
    else if (!strcmp(which, "busy")) for (;;) getppid();
    else if (!strcmp(which, "copies")) for (;;) copy(pair[0], pair[0]);
    else abort();
}

static void *thread(void *unused) {
    int marker __attribute__((cleanup(count_unwound))) = 0;
    (void)marker;
    pthread_cleanup_push(count_pushed, NULL);
    if (!strcmp(which, "busy") || !strcmp(which, "copies")) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    sem_post(&ready);
    block();
    pthread_cleanup_pop(0);
    return unused;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    which = argv[1];
    int rounds = atoi(argv[2]), cancelled = 0;
    if (pipe(pipe_ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 3;
    if (!strcmp(which, "accept")) {
        pair[0] = socket(AF_INET, SOCK_STREAM, 0);
        listen(pair[0], 1);
    }
    epoll_fd = epoll_create1(0);
    sem_init(&never, 0, 0);
    sem_init(&ready, 0, 0);
    for (int round = 0; round < rounds; round++) {
        pthread_t id;
        void *result = NULL;
        if (pthread_create(&id, NULL, thread, NULL)) return 4;
        while (sem_wait(&ready)) {}
        usleep(round * 37 % 1000); /* sometimes before it blocks, sometimes after */
        pthread_cancel(id);
        pthread_join(id, &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    printf("cancelled %d pushed %d unwound %d\n", cancelled, pushed, unwound);
    return 0;
}
