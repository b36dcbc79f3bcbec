/* The process that must stay unharmed: parent of the sealed program's supervisor.
 *
 * victim PROGRAM [ARG]...     with a terminal as standard input
 *
 * It leads a session on that terminal, keeps a known word in its memory, its environment and
 * behind a descriptor, counts every signal that reaches it, starts the program in its own
 * process group when told to, and answers one letter on descriptor 3 with one line on descriptor 4:
 *   g  starts the program: `gone PID`
 *   w  how it is with the program: `running`, or `exit STATUS` as wait(2) gives it
 *   s  its own state: signals, niceness, cores, limits, scheduling, memory
 * Everything that an attacker of the same user could change about it from outside is in there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ASK = 3, ANSWER = 4, IOPRIO_WHO_PROCESS = 1 };

static volatile sig_atomic_t signals;
static char word[256];

static void count(int number) {
    (void)number;
    signals++;
}

static void listen_to_signals(void) {
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    for (int number = 1; number < NSIG; number++)
        if (number != SIGCHLD)
            sigaction(number, &action, NULL);
}

static void start(char **words) {
    char text[64];
    snprintf(text, sizeof text, "%d", getppid());
    setenv("VICTIM", text, 1);
    snprintf(text, sizeof text, "%lu", (unsigned long)word);
    setenv("VICTIM_WORD", text, 1);
    unsetenv("WORD");
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    close(ASK);
    close(ANSWER);
    execvp(words[0], words);
    perror(words[0]);
    _exit(127);
}

static void progress(pid_t child) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child)
        dprintf(ANSWER, "exit %d\n", status);
    else
        dprintf(ANSWER, "running\n");
}

static void state(void) {
    struct rlimit files, cores;
    cpu_set_t set;
    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_CORE, &cores);
    sched_getaffinity(0, sizeof set, &set);
    dprintf(ANSWER,
            "state signals=%d word=%s nice=%d cores=%d files=%lu/%lu core=%lu scheduler=%d "
            "io=%ld group=%d session=%d terminal=%d dumpable=%d\n",
            (int)signals, word, getpriority(PRIO_PROCESS, 0), CPU_COUNT(&set), files.rlim_cur, files.rlim_max,
            cores.rlim_cur, sched_getscheduler(0), syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0), getpgrp(),
            getsid(0), tcgetpgrp(0), prctl(PR_GET_DUMPABLE));
}

int main(int total, char **words) {
    char letter, secret[256];
    if (total < 2 || !getenv("WORD"))
        return 2;
    snprintf(word, sizeof word, "%s", getenv("WORD"));
    snprintf(secret, sizeof secret, "%s/outside/secret", getenv("TESTBED"));
    open(secret, O_RDONLY | O_CLOEXEC);
    setsid();
    ioctl(0, TIOCSCTTY, 0);
    listen_to_signals();
    pid_t child = -1;
    while (read(ASK, &letter, 1) == 1) {
        if (letter == 'g' && (child = fork()) == 0)
            start(words + 1);
        if (letter == 'g')
            dprintf(ANSWER, "gone %d\n", child);
        else if (letter == 'w')
            progress(child);
        else
            state();
    }
    return 0;
}
