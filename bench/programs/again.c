/* Runs a program again and again, so that a sandbox's own start is not part of its time.
 *
 * again SECONDS PROGRAM [WORD...]  once to warm up, then for SECONDS and at least 3 times
 * Prints {"ms": N, "runs": N}: milliseconds of one run, from posix_spawn to its end. What the
 * program prints goes to /dev/null; one that does not end with 0 ends this one with 1.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void run(char **words)
{
    int status;
    pid_t child;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    int error = posix_spawnp(&child, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "again: %s: error %d, status %#x\n", words[0], error, status);
        exit(1);
    }
}

int main(int count, char **words)
{
    if (count < 3)
        return 2;
    double seconds = atof(words[1]), began;
    unsigned long runs = 0;
    run(words + 2);
    began = now();
    do
        run(words + 2), runs++;
    while (now() < began + seconds || runs < 3);
    printf("{\"ms\": %.4f, \"runs\": %lu}\n", (now() - began) * 1e3 / runs, runs);
    return 0;
}
