/* Cancels threads that wait in system calls, or make nothing but them: each runs its cleanup. */
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int pipes[2];
static int cleaned;
static volatile int is_ready;

static void clean(void *count) { ++*(int *)count; }

static void *waits(void *nothing) {
    char byte;
    pthread_cleanup_push(clean, &cleaned);
    is_ready = 1;
    read(pipes[0], &byte, 1);
    pthread_cleanup_pop(0);
    return nothing;
}

static void *asks(void *nothing) {
    struct stat found;
    int before;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    pthread_cleanup_push(clean, &cleaned);
    is_ready = 1;
    for (;;) stat("/usr", &found);
    pthread_cleanup_pop(0);
    return nothing;
}

int main(void) {
    void *(*works[])(void *) = {waits, asks};
    if (pipe(pipes)) return 1;
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        void *result = NULL;
        is_ready = 0;
        if (pthread_create(&thread, NULL, works[round % 2], NULL)) return 2;
        do usleep(round * 500);
        while (!is_ready);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED) return 3;
    }
    printf("cleaned %d\n", cleaned);
    return 0;
}
