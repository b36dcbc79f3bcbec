/* Programs and children: exec and its errors, what a new image keeps, threads and what they share. */
#include "../case.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

extern char **environ;
static const char *tried;

/* What the new image says of what it was given: called from main for `conformance -what ...`. */
int process_case(int count, char **words)
{
    char path[PATH_MAX], bytes[8] = "";
    if (strcmp(words[1], "-status") == 0)
        return atoi(words[2]);
    for (int at = 2; at < count; at++)
        printf("  given %d: %s\n", at, words[at]);
    for (int fd = 3; fd < 12; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            printf("  descriptor %d at %ld\n", fd, (long)lseek(fd, 0, SEEK_CUR));
    printf("  cwd %s\n", getcwd(path, sizeof path) ? strrchr(path, '/') : error_name(errno));
    printf("  umask %o\n", umask(0));
    printf("  read %ld\n", (long)read(5, bytes, 3));
    printf("  bytes %s\n", bytes);
    printf("  variable %s\n", getenv("CASE") ? getenv("CASE") : "none");
    fflush(stdout);
    return 3;
}

static void becomes(void)
{
    char *const words[] = {"name", "-status", "9", NULL};
    CALL(execve(tried, words, environ));
}

static void each(const char *path)
{
    tried = path;
    in_child(path, becomes);
}

static void text(const char *path, const char *content, mode_t mode)
{
    put(path, content);
    DO(chmod(path, mode));
}

static void images(void)
{
    char line[PATH_MAX + 16];
    text("unreadable", "#!/bin/sh\nexit 7\n", 0111);
    text("no-interpreter", "#!/missing/interpreter\n", 0755);
    text("relative", "#!./script\n", 0755);
    text("folder-interpreter", "#!/usr\n", 0755);
    text("nothing", "", 0755);
    text("garbage", "\1\2\3\4", 0755);
    text("only-head", "#!", 0755);
    text("to-itself", "#!./to-itself\n", 0755);
    snprintf(line, sizeof line, "#!%s -status\n", program);
    text("own", line, 0755);
    DO(symlink(program, "program"));
    const char *const paths[] = {
        "script", "./script", "file", "dir", "dir/", "missing", "file/x", "dangling", "loop", "", "script/",
        "no-interpreter", "relative", "folder-interpreter", "nothing", "garbage", "only-head", "to-itself", "fifo",
        "own", "program", "/bin/true", "/bin/false", "/bin/sh/", "/dev/null", "/proc/self/exe", "/usr",
    };
    for (size_t at = 0; at < sizeof paths / sizeof *paths; at++)
        each(paths[at]);
    each(program);
    each("unreadable");
}

static void by_descriptor(void)
{
    static char *const words[] = {"name", "-status", "11", NULL};
    int image = DO(open(program, O_RDONLY | O_CLOEXEC)), path = DO(open(program, O_PATH | O_CLOEXEC)), dir = DO(open(".", O_RDONLY));
    int kept = DO(open("script", O_RDONLY)), closed = DO(open("script", O_RDONLY | O_CLOEXEC));
    DO(symlink(program, "program"));
    struct { const char *what; int fd; const char *path; int flags; } const rows[] = {
        {"an image", image, "", AT_EMPTY_PATH}, {"a path", path, "", AT_EMPTY_PATH}, {"no flag", image, "", 0},
        {"a script kept", kept, "", AT_EMPTY_PATH}, {"a script closed", closed, "", AT_EMPTY_PATH},
        {"in a folder", dir, "script", 0}, {"a link", dir, "program", 0}, {"a link itself", dir, "program", AT_SYMLINK_NOFOLLOW},
        {"a folder", dir, "", AT_EMPTY_PATH}, {"no descriptor", 999, "", AT_EMPTY_PATH}, {"not there", dir, "missing", 0},
        {"a wrong flag", dir, "script", 0x4000},
    };
    for (size_t at = 0; at < sizeof rows / sizeof *rows; at++) {
        int status;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            told(rows[at].what, syscall(SYS_execveat, rows[at].fd, rows[at].path, words, environ, rows[at].flags));
            fflush(stdout);
            _exit(0);
        }
        DO(waitpid(child, &status, 0));
        SHOW(rows[at].what, "exit %d", WEXITSTATUS(status));
    }
}

static void new_image(void)
{
    char *const words[] = {program, "-show", "one", "", NULL};
    char *own[] = {"CASE=value", NULL, NULL};
    int keep = DO(open("file", O_RDONLY)), gone = DO(open("file", O_RDONLY | O_CLOEXEC));
    DO(lseek(keep, 4, SEEK_SET));
    DO(dup2(keep, 5));
    DO(gone);
    DO(chdir("dir"));
    umask(0137);
    for (char **one = environ; *one; one++)
        if (strncmp(*one, "LD_PRELOAD=", 11) == 0)
            own[1] = *one;
    CALL(execve(program, words, own));
}

static void kept(void)
{
    in_child("the new image", new_image);
}

static long copied(int to, int from)
{
    char room[65536];
    for (ssize_t got; (got = read(from, room, sizeof room)) > 0;)
        if (write(to, room, got) != got)
            return -1;
    return 0;
}

static void written_to(void)
{
    int image = DO(open(program, O_RDONLY)), copy = DO(open("copy", O_CREAT | O_RDWR, 0755));
    DO(copied(copy, image));
    each("copy");
    close(copy);
    each("copy");
    CALL(open("copy", O_WRONLY) >= 0);
}

static void *enters(void *given)
{
    (void)given;
    CALL(chdir("dir"));
    return NULL;
}

static void *enters_alone(void *given)
{
    (void)given;
    CALL(unshare(CLONE_FS));
    CALL(chdir("sub"));
    CALL(access("../inner", F_OK));
    umask(0);
    return NULL;
}

static void *opens(void *given)
{
    *(int *)given = CALL(open("inner", O_RDONLY));
    return NULL;
}

static void in_thread(void *(*body)(void *), void *given)
{
    pthread_t thread;
    DO(-pthread_create(&thread, NULL, body, given));
    pthread_join(thread, NULL);
}

static void threads(void)
{
    char byte;
    int fd = -1;
    in_thread(enters, NULL);
    CALL(access("inner", F_OK));
    in_thread(opens, &fd);
    CALL(read(fd, &byte, 1));
    in_thread(enters_alone, NULL);
    CALL(access("inner", F_OK));
    CALL(umask(022));
}

/* A thread that keeps its own table of descriptors. */
static void *closes_alone(void *given)
{
    CALL(unshare(CLONE_FILES));
    CALL(close(*(int *)given));
    CALL(open("empty", O_RDONLY));
    return NULL;
}

static void own_tables(void)
{
    char byte;
    int fd = DO(open("file", O_RDONLY));
    in_thread(closes_alone, &fd);
    CALL(read(fd, &byte, 1));
    SHOW("byte", "%c", byte);
}

static void borrowed(void)
{
    int status;
    pid_t child = vfork();
    if (child == 0) {
        char *const words[] = {"name", "-status", "13", NULL};
        execve(program, words, environ);
        _exit(99);
    }
    CALL(waitpid(child, &status, 0) == child);
    SHOW("exit", "%d", WEXITSTATUS(status));
    SHOW("system", "%d", system("exit 5"));
    FILE *out = popen("echo from a shell; pwd | sed s:.*/::", "r");
    char line[64];
    while (out && fgets(line, sizeof line, out))
        SHOW("line", "%.*s", (int)strcspn(line, "\n"), line);
    CALL(pclose(out));
}

static void dies(void)
{
    raise(SIGTERM);
}

static void aborts(void)
{
    prctl(PR_SET_DUMPABLE, 0);
    abort();
}

static void ends(void)
{
    in_child("terminated", dies);
    in_child("aborted", aborts);
    CALL(waitpid(-1, NULL, 0));
    CALL(kill(getpid(), 0));
    CALL(kill(999999999, 0));
    CALL(kill(getpid(), 999));
}

const struct part processes_parts[] = {
    {"images", images}, {"by-descriptor", by_descriptor}, {"kept", kept}, {"written-to", written_to},
    {"threads", threads}, {"own-tables", own_tables}, {"borrowed", borrowed}, {"ends", ends}, {0},
};
