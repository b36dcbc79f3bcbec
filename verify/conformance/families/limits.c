/* Limits: NAME_MAX, PATH_MAX, links in a row, file sizes. */
#include "../case.h"

#include <sys/resource.h>

/* A name of so many letters. */
static const char *letters(int count)
{
    static char name[2 * PATH_MAX];
    memset(name, 'n', count);
    name[count] = 0;
    return name;
}

/* A path of exactly so many bytes to "file". */
static const char *long_way(int count)
{
    static char path[2 * PATH_MAX];
    int filler = count - 4, at = 0;
    for (; at + 2 <= filler; at += 2)
        memcpy(path + at, "./", 2);
    if (at < filler)
        path[at++] = '/';
    strcpy(path + at, "file");
    return path;
}

static void names(void)
{
    static const int counts[] = {NAME_MAX - 1, NAME_MAX, NAME_MAX + 1, PATH_MAX - 1, PATH_MAX, PATH_MAX + 1};
    struct stat status;
    for (size_t at = 0; at < sizeof counts / sizeof *counts; at++) {
        const char *name = letters(counts[at]);
        SHOW("letters", "%d", counts[at]);
        CALL(open(name, O_CREAT | O_RDWR, 0600) >= 0 ? 0 : -1);
        CALL(stat(name, &status));
        CALL(access(name, F_OK));
        CALL(rename(name, "renamed"));
        CALL(rename("renamed", name));
        CALL(unlink(name));
        CALL(mkdir(name, 0700));
        CALL(rmdir(name));
        CALL(symlink("x", name));
        CALL(link("file", name));
        CALL(mkfifo(name, 0600));
        CALL(chdir(name));
    }
}

static void ways(void)
{
    static const int counts[] = {PATH_MAX - 2, PATH_MAX - 1, PATH_MAX, PATH_MAX + 1};
    struct stat status;
    char bytes[16];
    int dir = DO(open(".", O_RDONLY));
    for (size_t at = 0; at < sizeof counts / sizeof *counts; at++) {
        const char *path = long_way(counts[at]);
        SHOW("bytes", "%d %zu", counts[at], strlen(path));
        CALL(open(path, O_RDONLY) >= 0 ? 0 : -1);
        CALL(openat(dir, path, O_RDONLY) >= 0 ? 0 : -1);
        CALL(stat(path, &status));
        CALL(access(path, R_OK));
        CALL(readlink(path, bytes, sizeof bytes));
        CALL(truncate(path, 10));
        CALL(chmod(path, 0644));
        CALL(rename(path, path));
        CALL(link(path, "file"));
    }
}

/* A folder deeper than PATH_MAX can name. */
static void depth(void)
{
    char path[2 * PATH_MAX];
    int made = 0;
    for (; made < 30; made++)
        if (mkdir(letters(200), 0755) != 0 || chdir(letters(200)) != 0)
            break;
    SHOW("deep", "%d", made);
    put("bottom", "bottom");
    CALL(access("bottom", R_OK));
    show_file("bottom");
    CALL_P(getcwd(path, sizeof path));
    CALL_P(getcwd(path, PATH_MAX));
    SHOW("length", "%d", strlen(path) > PATH_MAX);
    CALL(rename("bottom", "../moved"));
    CALL(access("../moved", R_OK));
    CALL(mkdir("more", 0755));
    CALL(chdir("more"));
    CALL(chdir("../.."));
    CALL(access("moved", R_OK));
    CALL(open("moved", O_RDONLY) >= 0);
    int dir = DO(open(".", O_RDONLY));
    DO(chdir(here));
    CALL(openat(dir, "moved", O_RDONLY) >= 0);
    CALL(fstatat(dir, "..", &(struct stat){0}, 0));
}

static void chains(void)
{
    char from[32], to[32];
    struct stat status;
    DO(symlink("file", "c0"));
    for (int at = 1; at < 50; at++) {
        snprintf(from, sizeof from, "c%d", at);
        snprintf(to, sizeof to, "c%d", at - 1);
        DO(symlink(to, from));
    }
    for (int at = 37; at < 43; at++) {
        snprintf(from, sizeof from, "c%d", at);
        told(from, access(from, R_OK));
        told(from, open(from, O_RDONLY) >= 0 ? 0 : -1);
        told(from, stat(from, &status));
        told(from, lstat(from, &status));
        told(from, open(from, O_RDONLY | O_NOFOLLOW));
        told(from, truncate(from, 10));
    }
    /* Links to folders in the middle count too. */
    DO(symlink(".", "here"));
    for (int count = 38; count < 43; count++) {
        char path[PATH_MAX] = "";
        for (int at = 0; at < count; at++)
            strcat(path, "here/");
        strcat(path, "file");
        SHOW("links", "%d", count);
        CALL(access(path, R_OK));
        CALL(open(path, O_RDONLY) >= 0 ? 0 : -1);
        CALL(rename(path, path));
    }
}

static void ignore(int number)
{
    (void)number;
}

static void too_large(void)
{
    struct rlimit limit = {100, 100};
    int fd = DO(open("file", O_RDWR));
    DO(setrlimit(RLIMIT_FSIZE, &limit));
    CALL(pwrite(fd, "x", 1, 100));
}

static void sizes(void)
{
    struct rlimit limit = {100, RLIM_INFINITY};
    char bytes[300] = "";
    int fd = DO(open("file", O_RDWR));
    in_child("larger than allowed", too_large);
    struct sigaction action = {.sa_handler = ignore};
    sigaction(SIGXFSZ, &action, NULL);
    DO(setrlimit(RLIMIT_FSIZE, &limit));
    CALL(pwrite(fd, bytes, 300, 0));
    CALL(pwrite(fd, bytes, 10, 95));
    CALL(pwrite(fd, bytes, 10, 100));
    CALL(ftruncate(fd, 100));
    CALL(ftruncate(fd, 101));
    CALL(truncate("file", 101));
    CALL(truncate("file", 99));
    CALL(fallocate(fd, 0, 0, 200));
    CALL(lseek(fd, 0, SEEK_END));
}

const struct part limits_parts[] = {
    {"names", names}, {"ways", ways}, {"depth", depth}, {"chains", chains}, {"sizes", sizes}, {0},
};
