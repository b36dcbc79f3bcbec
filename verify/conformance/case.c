/* Runs families of cases: conformance ROOT FAMILY...
 *
 * Each part gets a folder ROOT/FAMILY/PART with this in it, and is its process's current one:
 *
 *   file "0123456789"   empty   readonly (0444)   secret (0000)   script (0755)
 *   dir/ { inner "inner", sub/ }   hollow/   fifo
 *   link -> file   dirlink -> dir   dangling -> nowhere   loop -> loop   ping -> pong -> ping
 *   absolute -> HERE/file   through -> dirlink/inner   parent -> ..
 */
#include "case.h"

#include <stdarg.h>

#define FAMILIES(X) \
    X(open) X(transfer) X(offsets) X(names) X(renames) X(paths) X(folders) X(status) X(modes) \
    X(attributes) X(locks) X(descriptors) X(memory) X(movers) X(watch) X(faults) X(devices) \
    X(limits) X(users) X(processes) X(passing) X(old)

#define DECLARE(name) extern const struct part name##_parts[];
FAMILIES(DECLARE)
#define ROW(name) {#name, name##_parts},
static const struct { const char *name; const struct part *parts; } families[] = {FAMILIES(ROW)};

enum { FAMILY_COUNT = sizeof families / sizeof *families, SECONDS_MAX = 60 };

char program[PATH_MAX], here[PATH_MAX];
static char label[256];

const char *error_name(int error)
{
    const char *name = error ? strerrorname_np(error) : "-";
    return name ? name : "E?";
}

long told(const char *text, long result)
{
    int error = errno;
    printf("%s %s: %ld %s\n", label, text, result, error_name(result < 0 ? error : 0));
    errno = error;
    return result;
}

long told_pointer(const char *text, const void *result)
{
    return told(text, !result || result == MAP_FAILED ? -1 : 0);
}

void shown(const char *what, const char *format, ...)
{
    int error = errno;
    va_list rest;
    va_start(rest, format);
    printf("%s %s: ", label, what);
    vprintf(format, rest);
    putchar('\n');
    va_end(rest);
    errno = error;
}

long needed(const char *text, long result)
{
    if (result < 0)
        printf("%s NEEDED %s: %s\n", label, text, error_name(errno));
    return result;
}

void put(const char *path, const char *content)
{
    int fd = DO(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));
    DO(write(fd, content, strlen(content)));
    close(fd);
}

static void links(void)
{
    char target[PATH_MAX + 8];
    snprintf(target, sizeof target, "%s/file", here);
    const char *pairs[][2] = {
        {"file", "link"}, {"dir", "dirlink"}, {"nowhere", "dangling"}, {"loop", "loop"},
        {"pong", "ping"}, {"ping", "pong"}, {target, "absolute"}, {"dirlink/inner", "through"},
        {"..", "parent"},
    };
    for (size_t at = 0; at < sizeof pairs / sizeof *pairs; at++)
        DO(symlink(pairs[at][0], pairs[at][1]));
}

void fixture(void)
{
    DO(getcwd(here, sizeof here) ? 0 : -1);
    put("file", "0123456789");
    put("empty", "");
    put("readonly", "readonly");
    DO(chmod("readonly", 0444));
    put("secret", "secret");
    DO(chmod("secret", 0));
    put("script", "#!/bin/sh\nexit 7\n");
    DO(chmod("script", 0755));
    DO(mkdir("dir", 0755));
    put("dir/inner", "inner");
    DO(mkdir("dir/sub", 0755));
    DO(mkdir("hollow", 0755));
    DO(mkfifo("fifo", 0644));
    links();
}

void show_file(const char *path)
{
    char bytes[41] = "", what[300];
    snprintf(what, sizeof what, "content of %s", path);
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        shown(what, "%s", error_name(errno));
        return;
    }
    struct stat status;
    DO(fstat(fd, &status));
    ssize_t got = read(fd, bytes, 40);
    for (ssize_t at = 0; at < got; at++)
        bytes[at] = bytes[at] >= ' ' && bytes[at] <= '~' ? bytes[at] : '.';
    shown(what, "%ld \"%s\"", (long)status.st_size, bytes);
    close(fd);
}

void show_status(const char *what, const struct stat *status)
{
    long size = S_ISDIR(status->st_mode) ? 0 : status->st_size;
    shown(what, "mode %o links %ld size %ld owner %d:%d", status->st_mode, (long)status->st_nlink, size,
          status->st_uid, status->st_gid);
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

void show_names(const char *path)
{
    char *names[256], line[4096] = "";
    size_t count = 0, used = 0;
    DIR *folder = opendir(path);
    if (!folder) {
        shown("names", "%s: %s", path, error_name(errno));
        return;
    }
    for (struct dirent *entry; count < 256 && (entry = readdir(folder));) {
        char told_name[300];
        snprintf(told_name, sizeof told_name, "%s(%d)", entry->d_name, entry->d_type);
        names[count++] = strdup(told_name);
    }
    closedir(folder);
    qsort(names, count, sizeof *names, by_name);
    for (size_t at = 0; at < count && used < sizeof line - 300; free(names[at++]))
        used += snprintf(line + used, sizeof line - used, " %s", names[at]);
    shown("names", "%s:%s", path, line);
}

static void end_told(const char *what, int status)
{
    if (WIFSIGNALED(status))
        shown(what, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
    else
        shown(what, "exit %d", WEXITSTATUS(status));
}

void in_child(const char *what, void (*body)(void))
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        body();
        fflush(stdout);
        _exit(0);
    }
    DO(waitpid(child, &status, 0));
    end_told(what, status);
}

void *nowhere(void)
{
    static char *page;
    if (!page)
        page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page;
}

static void run_part(const char *root, const char *family, const struct part *part)
{
    char folder[PATH_MAX];
    int status;
    snprintf(label, sizeof label, "%s/%s", family, part->name);
    snprintf(folder, sizeof folder, "%s/%s", root, label);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_MAX);
        DO(mkdir(folder, 0755));
        DO(chdir(folder));
        fixture();
        part->run();
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (status != 0)
        end_told("THE PART", status);
}

static int run_family(const char *root, const char *name)
{
    char folder[PATH_MAX];
    for (int at = 0; at < FAMILY_COUNT; at++) {
        if (strcmp(families[at].name, name) != 0)
            continue;
        snprintf(folder, sizeof folder, "%s/%s", root, name);
        DO(mkdir(folder, 0755));
        for (const struct part *part = families[at].parts; part->name; part++)
            run_part(root, name, part);
        return 0;
    }
    fprintf(stderr, "no family %s\n", name);
    return 2;
}

int process_case(int count, char **words);

int main(int count, char **words)
{
    if (count > 1 && words[1][0] == '-')
        return process_case(count, words);
    if (count < 3) {
        for (int at = 0; at < FAMILY_COUNT; at++)
            puts(families[at].name);
        return 0;
    }
    umask(022);
    /* By lines, so that a part that is killed shows how far it came. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    DO(realpath(words[0], program) ? 0 : -1);
    for (int at = 2; at < count; at++)
        if (run_family(words[1], words[at]) != 0)
            return 2;
    return 0;
}
