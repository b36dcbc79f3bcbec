/* A thread that writes into a durable file and makes no other call: until it does nobody knows whether its write
 * has landed. silent_writer first|kept FILE: meanwhile another thread makes the file's first flush, or one of what
 * was appended, and then one more. Ends when it is killed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int has_written;
static int file, at;

static void check(long result, const char *what) {
    if (result >= 0) return;
    perror(what);
    exit(1);
}

static void *writes(void *unused) {
    (void)unused;
    check(pwrite(file, "Z", 1, at), "pwrite");
    atomic_store(&has_written, 1);
    while (atomic_load(&has_written)) {
    }
    return 0;
}

static void append(int end) {
    char bytes[100];
    memset(bytes, 'x', sizeof bytes);
    check(pwrite(file, bytes, sizeof bytes, end), "append");
}

int main(int count, char **words) {
    file = open(words[count - 1], O_RDWR | O_CREAT, 0600);
    check(file, "open");
    append(0);
    if (!strcmp(words[1], "kept")) {
        check(fdatasync(file), "fdatasync");
        append(100);
    }
    at = 50 + 100 * !strcmp(words[1], "kept");
    pthread_t thread;
    check(-pthread_create(&thread, 0, writes, 0), "thread");
    while (!atomic_load(&has_written)) {
    }
    check(fdatasync(file), "fdatasync");
    check(fdatasync(file), "fdatasync");
    puts("done");
    fflush(stdout);
    for (;;) pause();
}
