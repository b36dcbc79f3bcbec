/* Makes one system call in a thread of another process, as whoever had taken it over would.
 *
 *     inject THREAD NUMBER ARGUMENT...     up to six; @TEXT is the address of a text
 *
 * Prints what the kernel answered. The thread goes on as if nothing had been.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

/* Below what the thread has on its stack, red zone included. */
enum { BELOW = 16384, TEXT_MAX = 1024 };

static void must(long result, const char *what) {
    if (result >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(2);
}

static void await(pid_t thread, const char *what) {
    int status;
    must(waitpid(thread, &status, __WALL), what);
    if (!WIFSTOPPED(status))
        exit(2);
}

static unsigned long long argument(pid_t thread, const char *word, unsigned long long place) {
    if (word[0] != '@')
        return (unsigned long long)strtoll(word, NULL, 0);
    char text[TEXT_MAX] = "";
    strncpy(text, word + 1, sizeof text - 1);
    for (size_t at = 0; at < sizeof text; at += sizeof(long)) {
        long eight;
        memcpy(&eight, text + at, sizeof eight);
        must(ptrace(PTRACE_POKEDATA, thread, (void *)(place + at), (void *)eight), "its stack");
    }
    return place;
}

int main(int count, char **words) {
    struct user_regs_struct before, now;
    unsigned long long arguments[6] = {0};
    if (count < 3 || count > 9)
        return 2;
    pid_t thread = atoi(words[1]);
    must(ptrace(PTRACE_ATTACH, thread, 0, 0), "attach");
    await(thread, "its stop");
    must(ptrace(PTRACE_GETREGS, thread, 0, &before), "registers");
    for (int i = 3; i < count; i++)
        arguments[i - 3] = argument(thread, words[i], before.rsp - BELOW + (unsigned long long)(i - 3) * TEXT_MAX);
    now = before;
    now.orig_rax = (unsigned long long)-1; /* what it waits in is made again afterwards */
    now.rip = before.rip - 2;              /* the instruction that it waits behind */
    now.rax = strtoull(words[2], NULL, 0);
    now.rdi = arguments[0], now.rsi = arguments[1], now.rdx = arguments[2];
    now.r10 = arguments[3], now.r8 = arguments[4], now.r9 = arguments[5];
    must(ptrace(PTRACE_SETREGS, thread, 0, &now), "the call");
    must(ptrace(PTRACE_SINGLESTEP, thread, 0, 0), "a step");
    await(thread, "its step");
    must(ptrace(PTRACE_GETREGS, thread, 0, &now), "the answer");
    must(ptrace(PTRACE_SETREGS, thread, 0, &before), "what it was at");
    must(ptrace(PTRACE_DETACH, thread, 0, 0), "detach");
    printf("%lld\n", (long long)now.rax);
    return 0;
}
