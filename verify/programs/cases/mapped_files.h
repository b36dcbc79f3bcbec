/* What the programs that read mapped files share. Each is run as: PROGRAM PART PATH, where PATH is
   made and removed; every answer of every call is printed, and plain Linux prints the same. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path;
static char buffer[1 << 20];
extern char **environ;
#define SHOW(what, value) do { long answer = (long)(value); \
    printf("%s: %ld%s%s\n", what, answer, answer < 0 ? " " : "", answer < 0 ? strerrorname_np(errno) : ""); } while (0)

static unsigned sum(const char *at, long bytes) {
    unsigned hash = 1;
    for (long i = 0; i < bytes; i++) hash = hash * 31 + (unsigned char)at[i];
    return hash;
}

/* Opens, and reads often enough that it is worth a mapping. */
static int warm(int flags) {
    int fd = open(path, O_RDONLY | flags);
    for (int i = 0; i < 600; i++) pread(fd, buffer, 100, i);
    return fd;
}

struct part {
    const char *name;
    void (*run)(void);
};

/* Makes the file, runs one part, removes the file. */
static int run_part(char **words, const struct part *parts, size_t count) {
    path = words[2];
    int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    for (int i = 0; i < 100000; i++) buffer[i] = i * 7 + i / 251;
    if (write(fd, buffer, 100000) != 100000) return 1;
    close(fd);
    for (size_t i = 0; i < count; i++)
        if (strcmp(words[1], parts[i].name) == 0) parts[i].run();
    unlink(path);
    return 0;
}
