/* What programs ask of a file system when they do not read or write: each kind alone, and a mix.
 *
 * calls FOLDER SECONDS             SECONDS for each part; FOLDER is made, filled and removed
 * Prints {"stat": N, "open": N, "small": N, "readdir": N, "change": N, "exec": N, "mix": N},
 * nanoseconds for one of:
 *   stat      stat of a file
 *   open      open and close of a file
 *   small     open, fstat, read of 1000 bytes, a second read (the end), close
 *   readdir   open a directory of 100 files, read all names, close
 *   change    create a file, write 100 bytes, close, rename, unlink
 *   exec      fork, exec of /bin/true, wait
 *   mix       40 stats, 20 small reads, 1 readdir, 4 changes, 1 exec
 * Parts that remove files end after a few hundred: ext4 passes over each inode that was freed in the
 * last minutes, one by one, so that whoever removes many makes the next ones slow, and its own.
 * Every answer is checked; the first wrong one ends the program with 1.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 100, BYTES = 1000 };

static const char *folder;
static char names[FILES][4096];
static unsigned turn;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void fail(const char *what)
{
    fprintf(stderr, "calls: %s: %s\n", what, strerror(errno));
    exit(1);
}

static const char *next(void)
{
    return names[turn++ * 7 % FILES];
}

static void one_stat(void)
{
    struct stat status;
    if (stat(next(), &status) != 0 || status.st_size != BYTES)
        fail("stat");
}

static void one_open(void)
{
    int fd = open(next(), O_RDONLY);
    if (fd < 0 || close(fd) != 0)
        fail("open");
}

static void one_small(void)
{
    struct stat status;
    char buffer[BYTES + 1];
    int fd = open(next(), O_RDONLY);
    if (fd < 0 || fstat(fd, &status) != 0 || read(fd, buffer, sizeof buffer) != BYTES || buffer[0] != 'x'
        || read(fd, buffer, sizeof buffer) != 0 || close(fd) != 0)
        fail("small");
}

static void one_readdir(void)
{
    int found = 0;
    DIR *open = opendir(folder);
    if (!open)
        fail("opendir");
    while (readdir(open))
        found++;
    closedir(open);
    if (found != FILES + 2)
        fail("readdir");
}

static void one_change(void)
{
    char from[4200], to[4200], bytes[100] = {0};
    snprintf(from, sizeof from, "%s/new", folder);
    snprintf(to, sizeof to, "%s/old", folder);
    int fd = open(from, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (fd < 0 || write(fd, bytes, sizeof bytes) != sizeof bytes || close(fd) != 0 || rename(from, to) != 0
        || unlink(to) != 0)
        fail("change");
}

static void one_exec(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fail("exec");
}

static void one_mix(void)
{
    for (int round = 0; round < 20; round++) {
        one_stat();
        one_small();
        one_stat();
        if (round % 5 == 0)
            one_change();
    }
    one_readdir();
    one_exec();
}

/* Nanoseconds of one `part`, `most` times at most, after a tenth of the time as warm-up. */
static double timed(void (*part)(void), double seconds, unsigned long most)
{
    unsigned long calls = 0;
    double warm = now() + seconds / 10, began;
    do
        part(), calls++;
    while (now() < warm && calls < most / 10);
    began = now();
    calls = 0;
    do
        part(), calls++;
    while (now() < began + seconds && calls < most);
    return (now() - began) * 1e9 / calls;
}

static void fill(void)
{
    char bytes[BYTES];
    memset(bytes, 'x', sizeof bytes);
    if (mkdir(folder, 0755) != 0)
        fail(folder);
    for (int file = 0; file < FILES; file++) {
        snprintf(names[file], sizeof names[file], "%s/file-%03d", folder, file);
        int fd = open(names[file], O_WRONLY | O_CREAT | O_EXCL, 0644);
        if (fd < 0 || write(fd, bytes, BYTES) != BYTES || close(fd) != 0)
            fail(names[file]);
    }
}

static void empty(void)
{
    for (int file = 0; file < FILES; file++)
        unlink(names[file]);
    rmdir(folder);
}

int main(int count, char **words)
{
    static const struct { const char *name; void (*part)(void); unsigned long most; } parts[] = {
        {"stat", one_stat, ULONG_MAX}, {"open", one_open, ULONG_MAX}, {"small", one_small, ULONG_MAX},
        {"readdir", one_readdir, ULONG_MAX}, {"change", one_change, 200}, {"exec", one_exec, ULONG_MAX},
        {"mix", one_mix, 50},
    };
    if (count != 3 || strlen(words[1]) > 4000)
        return 2;
    folder = words[1];
    fill();
    for (unsigned at = 0; at < sizeof parts / sizeof *parts; at++)
        printf("%s\"%s\": %.0f", at ? ", " : "{", parts[at].name,
               timed(parts[at].part, atof(words[2]), parts[at].most));
    printf("}\n");
    empty();
    return 0;
}
