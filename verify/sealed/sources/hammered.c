/* Makes calls that no signal ends on the plain kernel, in the middle of many signals.
 *
 * hammered KIND RESTARTS MILLISECONDS: alarms every 100 us (`alarm`), a process that sends SIGUSR1
 * (`sender`), or children that end (`children`); the handlers with SA_RESTART (1) or without (0).
 * Prints each call that has failed as the plain kernel would not make it fail, once, and how many
 * signals came in: enough, or too few. Calls that a signal may end while they wait have to be
 * ended: a program relies on its alarms.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t signals;
static int failures;

enum { ENOUGH = 20 };

static void heard(int number)
{
    int before = errno;
    signals++;
    while (number == SIGCHLD && waitpid(-1, NULL, WNOHANG) > 0)
        ;
    errno = before;
}

static void hear(int number, int flags)
{
    struct sigaction action = {.sa_handler = heard, .sa_flags = flags};
    sigaction(number, &action, NULL);
}

static void alarms(long us)
{
    struct itimerval each = {{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &each, NULL);
}

/* Prints a call that has failed, the first ten times. */
static long told(const char *what, long result, int expected)
{
    if (result < 0 && errno != expected && failures++ < 10)
        printf("%s: %s\n", what, strerror(errno));
    return result;
}

#define TRY(...) told(#__VA_ARGS__, (long)(__VA_ARGS__), 0)
#define FAILS(error, ...) told(#__VA_ARGS__, (long)(__VA_ARGS__), error)

static long milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void await(pid_t child)
{
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void born(void)
{
    pid_t child = TRY(fork());
    if (child == 0)
        _exit(0);
    await(child);
    child = TRY(vfork());
    if (child == 0)
        _exit(0);
    await(child);
}

static void named(void)
{
    char text[64];
    struct stat status;
    int file = TRY(open("file", O_RDWR | O_CREAT, 0600));
    if (file >= 0)
        close(file);
    file = TRY(open("/dev/null", O_WRONLY));
    if (file >= 0)
        close(file);
    FILE *stream = fopen("file", "r");
    TRY(stream ? fclose(stream) : -1);
    FAILS(ENOENT, open("missing", O_RDONLY));
    TRY(stat("file", &status));
    TRY(lstat("file", &status));
    TRY(access("file", R_OK));
    TRY(chmod("file", 0600));
    TRY(truncate("file", 1));
    TRY(rename("file", "renamed"));
    TRY(link("renamed", "file"));
    TRY(unlink("renamed"));
    TRY(symlink("file", "link"));
    TRY(readlink("link", text, sizeof text));
    TRY(unlink("link"));
    TRY(mkdir("folder", 0700));
    TRY(chdir("folder"));
    TRY(getcwd(text, sizeof text) || errno == ERANGE ? 0 : -1);
    TRY(chdir(".."));
    TRY(rmdir("folder"));
}

static void executed(char *self)
{
    static int rounds;
    if (rounds++ % 8)
        return;
    pid_t child = TRY(fork());
    if (child == 0) {
        /* The alarms of a process are not its child's. */
        alarms(100);
        for (int tries = 0; tries < 20; tries++)
            FAILS(ENOENT, execl("missing", "missing", (char *)NULL));
        alarms(0);
        execl(self, self, (char *)NULL);
        _exit(1);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
}

/* What waits has to be ended by an alarm whose handler does not restart it. */
static void ended(void)
{
    mkfifo("fifo", 0600);
    alarms(20000);
    errno = 0;
    int end = open("fifo", O_RDONLY);
    printf("open of a FIFO without a writer: %s\n", end < 0 ? strerror(errno) : "opened");
    int held = open("file", O_RDWR | O_CREAT, 0600), other = open("file", O_RDWR);
    flock(held, LOCK_EX);
    errno = 0;
    int locked = flock(other, LOCK_EX);
    printf("flock of a locked file: %s\n", locked < 0 ? strerror(errno) : "locked");
    alarms(0);
}

static pid_t send_all_the_time(void)
{
    pid_t target = getpid(), sender = fork();
    while (sender == 0) {
        if (kill(target, SIGUSR1))
            _exit(0);
        usleep(60);
    }
    return sender;
}

int main(int count, char **words)
{
    if (count < 4)
        return 0;
    int flags = atoi(words[2]) ? SA_RESTART : 0, sender = 0, children = !strcmp(words[1], "children");
    long ends = milliseconds() + atol(words[3]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    hear(SIGALRM, flags);
    hear(SIGUSR1, flags);
    if (!strcmp(words[1], "sender"))
        sender = send_all_the_time();
    if (children)
        hear(SIGCHLD, flags);
    if (!strcmp(words[1], "alarm"))
        alarms(100);
    /* Longer on a machine that is so busy that hardly any came: a minute, then it is a failure. */
    while (milliseconds() < ends || (signals < ENOUGH && milliseconds() < ends + 60000)) {
        if (children && TRY(fork()) == 0)
            _exit(0);
        named();
        born();
        executed(words[0]);
    }
    alarms(0);
    if (sender > 0) {
        kill(sender, SIGKILL);
        await(sender);
    }
    printf("signals: %s\n", signals >= ENOUGH ? "enough" : "too few");
    if (!flags)
        ended();
    return failures > 0;
}
