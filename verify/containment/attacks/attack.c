/* Verdicts, the testbed, races, and the choice of the attack by name. */
#include "attack.h"
#include <stdarg.h>
#include <time.h>

enum { KINDS_MAX = 8, WORD_MAX = 4096 };

static const struct attack *const families[] = {
    path_attacks,     grant_attacks,     race_attacks,   rewrite_attacks, readonly_attacks, look_attacks,
    descriptor_attacks, proc_attacks,    signal_attacks, tracing_attacks, namespace_attacks,
    kernel_attacks,   seccomp_attacks,   exec_attacks,   network_attacks, network_rewrite_attacks, unix_attacks,
    ipc_attacks,      terminal_attacks,  abi_attacks,    flood_attacks,   control_attacks,
    shared_attacks,   device_attacks,    identity_attacks, temporary_attacks, delegated_attacks,
};

static const char *name = "attack";
static const char *testbed = "";
/* The file that holds the secret begins with this, and nothing else does. */
static const char secret_mark[] = "secret of the testbed:";
static long kinds[KINDS_MAX];
static int counts[KINDS_MAX];

long raw(long number, const long a[6]) {
    long result;
    register long r10 __asm__("r10") = a[3];
    register long r8 __asm__("r8") = a[4];
    register long r9 __asm__("r9") = a[5];
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

const char *at(const char *relative) {
    static _Thread_local char buffers[16][512];
    static _Thread_local unsigned turn;
    char *buffer = buffers[turn++ % 16];
    snprintf(buffer, sizeof buffers[0], "%s/%s", testbed, relative);
    return buffer;
}

long given(const char *variable) {
    const char *text = getenv(variable);
    if (!text)
        untried("%s is not set", variable);
    return strtol(text, NULL, 0);
}

size_t given_bytes(const char *variable, void *into, size_t size) {
    const char *text = getenv(variable);
    size_t count = 0;
    for (; text && text[0] && text[1] && count < size; text += 2) {
        char pair[3] = {text[0], text[1], 0};
        ((unsigned char *)into)[count++] = (unsigned char)strtoul(pair, NULL, 16);
    }
    return count;
}

static void verdict(const char *word, const char *text) {
    char line[WORD_MAX + 64];
    int length = snprintf(line, sizeof line, "%s: %s (%s)\n", name, word, text);
    CALL(write, 1, line, length);
    CALL(exit_group, word[0] == 'r' ? 0 : 1);
    __builtin_unreachable();
}

#define SAY(word)                                                                                 \
    char text[WORD_MAX];                                                                          \
    va_list list;                                                                                 \
    va_start(list, format);                                                                       \
    vsnprintf(text, sizeof text, format, list);                                                   \
    va_end(list);                                                                                 \
    verdict(word, text);                                                                          \
    __builtin_unreachable()

void escaped(const char *format, ...) { SAY("ESCAPED"); }
void untried(const char *format, ...) { SAY("UNTRIED"); }

/* Unsealed, to prove that an attack works at all, every try is made and those that succeed are
 * listed; sealed, the first success is the end. */
static char successes[WORD_MAX];
static int succeeded;

static void success(const char *what) {
    if (!getenv("PROVE"))
        escaped("%s", what);
    size_t length = strlen(successes);
    if (succeeded++ == 0 || !strstr(successes, what))
        snprintf(successes + length, sizeof successes - length, "%s%s", length ? "; " : "", what);
}

static void remember(long result) {
    for (int i = 0; i < KINDS_MAX; i++) {
        if (counts[i] && kinds[i] != result)
            continue;
        kinds[i] = result;
        counts[i]++;
        return;
    }
}

void all_refused(void) {
    if (succeeded)
        escaped("%s", successes);
    char text[WORD_MAX] = "nothing was of use";
    size_t length = 0;
    for (int i = 0; i < KINDS_MAX && counts[i]; i++) {
        const char *label = strerrorname_np((int)-kinds[i]);
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s x%d", i ? ", " : "",
                                   label ? label : "harmless", counts[i]);
    }
    verdict("refused", text);
    __builtin_unreachable();
}

void must_fail(long result, const char *what) {
    if (result >= 0)
        success(what);
    else
        remember(result);
}

void must_be_denied(long result, const char *what) {
    if (result != -EPERM && result != -EACCES && result != -ENOSYS && result != -ENOTTY)
        success(what);
    else
        remember(result);
}

void must_not_hold(const char *bytes, size_t length, const char *what) {
    if (memmem(bytes, length, secret_mark, sizeof secret_mark - 1))
        success(what);
    else
        remember(0);
}

void must_not_show(long descriptor, const char *what) {
    char bytes[4096];
    long length = descriptor < 0 ? descriptor : CALL(pread64, descriptor, bytes, sizeof bytes, 0L);
    if (descriptor >= 0)
        CALL(close, descriptor);
    if (length < 0)
        remember(length);
    else
        must_not_hold(bytes, (size_t)length, what);
}

long need(long result, const char *what) {
    if (result < 0)
        untried("%s: %s", what, strerrorname_np((int)-result));
    return result;
}

long open_path(const char *path) {
    long file = CALL(openat, AT_FDCWD, path, O_PATH);
    return need(file >= 0 ? file : CALL(openat, AT_FDCWD, path, O_RDONLY), path);
}

static void *thread_of(void *work) {
    (*(void (**)(void))work)();
    return NULL;
}

void beside(void (*work)(void)) {
    static void (*works[64])(void);
    static int used;
    pthread_t thread;
    works[used] = work;
    int error = pthread_create(&thread, NULL, thread_of, &works[used++]);
    need(-error, "a thread beside");
}

bool racing(void) {
    static int64_t end_ms;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    if (!end_ms)
        end_ms = now_ms + given("RACE_MS");
    return now_ms < end_ms;
}

int in_child(void (*work)(void)) {
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        work();
        _exit(0);
    }
    need(child < 0 ? -errno : 0, "fork");
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int own_file(const char *relative, const char *content) {
    long file = need(CALL(openat, AT_FDCWD, (long)at(relative), O_RDWR | O_CREAT | O_TRUNC, 0600), relative);
    need(CALL(write, file, (long)content, (long)strlen(content)), "writing a file of one's own");
    CALL(lseek, file, 0, SEEK_SET);
    return (int)file;
}

int main(int count, char **words) {
    testbed = getenv("TESTBED") ? getenv("TESTBED") : "";
    name = count > 1 ? words[1] : "";
    signal(SIGHUP, SIG_IGN); /* the victim's end must not keep an attack from its verdict */
    for (size_t family = 0; family < sizeof families / sizeof *families; family++)
        for (const struct attack *one = families[family]; one->name; one++)
            if (!strcmp(one->name, name)) {
                one->run();
                untried("ended without a verdict");
            }
    untried("no such attack");
}
