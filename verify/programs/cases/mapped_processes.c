/* Mapped files among children, signals and threads. */
#include "mapped_files.h"

static void children(void) {
    int fd = warm(0), status;
    SHOW("read", read(fd, buffer, 100));
    if (fork() == 0) {
        printf("child at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
        long got = read(fd, buffer, 50);
        printf("child reads %ld, %x\n", got, sum(buffer, got));
        got = pread(fd, buffer, 50, 7);
        printf("child preads %ld, %x\n", got, sum(buffer, got));
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
    SHOW("child", status);
    SHOW("cur", lseek(fd, 0, SEEK_CUR));
    SHOW("read", read(fd, buffer, 100));
    if (vfork() == 0) _exit(3);
    wait(&status);
    SHOW("vfork", status);
    SHOW("cur", lseek(fd, 0, SEEK_CUR));
    close(fd);
    for (int cloexec = 0; cloexec < 2; cloexec++) {
        fd = warm(cloexec ? O_CLOEXEC : 0);
        read(fd, buffer, 33);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, fd, 0);
        char *argv[] = {"sh", "-c", "dd bs=1 count=7 2>/dev/null | od -An -tx1", NULL};
        pid_t pid;
        fflush(stdout);
        SHOW("spawn", posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ));
        waitpid(pid, &status, 0);
        SHOW("cur after the child has read", lseek(fd, 0, SEEK_CUR));
        SHOW("read", read(fd, buffer, 9));
        printf("%x\n", sum(buffer, 9));
        SHOW("cur", lseek(fd, 0, SEEK_CUR));
        fflush(stdout);
        SHOW("system", system("true"));
        SHOW("read", read(fd, buffer, 9));
        SHOW("cur", lseek(fd, 0, SEEK_CUR));
        close(fd);
    }
    fd = open(path, O_RDONLY); /* shared before it is ever mapped */
    if (fork() == 0) {
        for (int i = 0; i < 500; i++) read(fd, buffer, 10);
        _exit(0);
    }
    wait(&status);
    for (int i = 0; i < 500; i++) read(fd, buffer, 10);
    SHOW("both have read", lseek(fd, 0, SEEK_CUR));
    close(fd);
    fd = warm(0);
    read(fd, buffer, 11);
    fflush(stdout);
    if (fork() == 0) {
        dup2(fd, 0);
        execl("/bin/sh", "sh", "-c", "dd bs=1 count=5 2>/dev/null | od -An -tx1", NULL);
    }
    wait(&status);
    SHOW("after exec in a child", lseek(fd, 0, SEEK_CUR));
    close(fd);
}

static sigjmp_buf back;
static volatile int seen;
static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    seen = number;
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    printf("handler %d code %d blocked %d %d %d\n", number, info->si_code, sigismember(&mask, SIGSEGV),
           sigismember(&mask, SIGBUS), sigismember(&mask, SIGUSR1));
    siglongjmp(back, 1);
}
static void on_plain(int number) { seen = number; }

static void poke(volatile char *at) {
    if (sigsetjmp(back, 1) == 0) printf("%d\n", *at);
}

static void show_action(int number) {
    struct sigaction action;
    sigaction(number, NULL, &action);
    printf("action of %d: %s flags %x mask %d\n", number,
           action.sa_handler == SIG_DFL ? "default" : action.sa_handler == SIG_IGN ? "ignored"
           : action.sa_sigaction == on_fault ? "on_fault" : action.sa_handler == on_plain ? "on_plain" : "other",
           action.sa_flags, sigismember(&action.sa_mask, SIGUSR1));
}

static int dies(void (*how)(void)) {
    int status;
    fflush(stdout);
    if (fork() == 0) {
        how();
        _exit(7);
    }
    wait(&status);
    return status & 0x7f ? (status & 0x7f) + 1000 : WEXITSTATUS(status);
}
static void by_null(void) { *(volatile char *)8 = 1; }
static void by_raise(void) { raise(SIGSEGV); }
static void by_kill(void) { kill(getpid(), SIGBUS); sleep(1); }
static void ignored_sent(void) { signal(SIGSEGV, SIG_IGN); raise(SIGSEGV); }
static void ignored_fault(void) { signal(SIGSEGV, SIG_IGN); by_null(); }
static void blocked_fault(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    int fd = warm(0);
    printf("blocked: %ld %d\n", (long)pread(fd, (void *)16, 64, 0), errno);
    fflush(stdout);
}
static void blocked_sent(void) {
    sigset_t one, pending;
    sigemptyset(&one);
    sigaddset(&one, SIGBUS);
    int fd = warm(0);
    sigprocmask(SIG_BLOCK, &one, NULL);
    pread(fd, buffer, 64, 0);
    raise(SIGBUS);
    sigpending(&pending);
    printf("pending %d, reads %ld\n", sigismember(&pending, SIGBUS), (long)pread(fd, buffer, 64, 0));
    siginfo_t info;
    printf("waited %d\n", sigwaitinfo(&one, &info));
    fflush(stdout);
}
static void by_reset(void) {
    struct sigaction action = {.sa_handler = on_plain, .sa_flags = SA_RESETHAND};
    sigaction(SIGBUS, &action, NULL);
    raise(SIGBUS);
    printf("once %d\n", seen);
    show_action(SIGBUS);
    fflush(stdout);
    raise(SIGBUS);
}

static void *reader(void *mask) {
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    printf("thread: %d %d\n", sigismember(&now, SIGBUS), sigismember((sigset_t *)mask, SIGBUS));
    int fd = warm(0);
    printf("wild in a thread: %ld %d\n", (long)pread(fd, (void *)16, 64, 0), errno);
    close(fd);
    return NULL;
}

static void signals(void) {
    int fd = warm(0);
    show_action(SIGSEGV);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaddset(&action.sa_mask, SIGUSR1);
    struct sigaction old;
    SHOW("sigaction", sigaction(SIGSEGV, &action, &old));
    printf("old %d\n", old.sa_handler == SIG_DFL);
    show_action(SIGSEGV);
    poke((char *)8);
    SHOW("still reads", pread(fd, buffer, 64, 0));
    SHOW("wild", pread(fd, (void *)16, 64, 0));
    action.sa_flags |= SA_NODEFER | SA_ONSTACK;
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
    sigaction(SIGBUS, &action, NULL);
    show_action(SIGBUS);
    int tmp = memfd_create("gone", 0);
    ftruncate(tmp, 4096);
    char *gone = mmap(NULL, 4096, PROT_READ, MAP_SHARED, tmp, 0);
    ftruncate(tmp, 0);
    poke(gone);
    poke((char *)8);
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGBUS), sigaddset(&set, SIGUSR1);
    SHOW("block", sigprocmask(SIG_BLOCK, &set, NULL));
    SHOW("wild", pread(fd, (void *)16, 64, 0));
    sigprocmask(SIG_BLOCK, NULL, &before);
    printf("blocked %d %d %d\n", sigismember(&before, SIGBUS), sigismember(&before, SIGSEGV), sigismember(&before, SIGUSR1));
    pthread_t thread;
    pthread_create(&thread, NULL, reader, &before);
    pthread_join(thread, NULL);
    SHOW("unblock", sigprocmask(SIG_UNBLOCK, &set, &before));
    printf("was blocked %d\n", sigismember(&before, SIGBUS));
    SHOW("how", syscall(14, 77, &set, NULL, 8));
    SHOW("bad set", syscall(14, SIG_BLOCK, (void *)16, NULL, 8));
    SHOW("bad old", syscall(14, SIG_BLOCK, NULL, (void *)16, 8));
    SHOW("size", syscall(14, SIG_BLOCK, &set, NULL, 4));
    signal(SIGSEGV, SIG_DFL), signal(SIGBUS, SIG_DFL);
    show_action(SIGSEGV);
    SHOW("null", dies(by_null));
    SHOW("raise", dies(by_raise));
    SHOW("kill", dies(by_kill));
    SHOW("ignored and sent", dies(ignored_sent));
    SHOW("ignored and a fault", dies(ignored_fault));
    SHOW("blocked and read", dies(blocked_fault));
    SHOW("blocked and sent", dies(blocked_sent));
    SHOW("once", dies(by_reset));
    close(fd);
}

static void *racer(void *at) {
    int fd = *(int *)at;
    long total = 0, got;
    static __thread char own[64];
    while ((got = read(fd, own, 7)) > 0) total += got;
    return (void *)total;
}

static void threads(void) {
    for (int round = 0; round < 20; round++) {
        int fd = round % 2 ? warm(0) : open(path, O_RDONLY);
        pthread_t all[4];
        long total = 0;
        for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, racer, &fd);
        for (int i = 0; i < 4; i++) {
            void *got;
            pthread_join(all[i], &got);
            total += (long)got;
        }
        printf("each byte once: %ld\n", total);
        close(fd);
    }
}

/* The offset changes hands while many read: short files, each mapped in the middle. */
static void handover(void) {
    long wrong = 0;
    for (int round = 0; round < 3000; round++) {
        int fd = open(path, O_RDONLY);
        lseek(fd, -4000, SEEK_END);
        pthread_t all[8];
        long total = 0;
        for (int i = 0; i < 8; i++) pthread_create(&all[i], NULL, racer, &fd);
        for (int i = 0; i < 8; i++) {
            void *got;
            pthread_join(all[i], &got);
            total += (long)got;
        }
        wrong += total != 4000;
        close(fd);
    }
    printf("rounds with bytes read twice or never: %ld\n", wrong);
}

int main(int count, char **words) {
    static const struct part parts[] = {
        {"children", children}, {"signals", signals}, {"threads", threads}, {"handover", handover}};
    if (count < 3) return 1;
    return run_part(words, parts, sizeof parts / sizeof *parts);
}
