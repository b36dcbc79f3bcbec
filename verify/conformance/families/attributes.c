/* Extended attributes: set, get, list, remove, by name, by link and by descriptor. */
#include "../case.h"

#include <sys/xattr.h>

static char bytes[70000];

static void by_name(void)
{
    CALL(setxattr("file", "user.a", "value", 5, 0));
    CALL(getxattr("file", "user.a", bytes, 100));
    SHOW("value", "%.5s", bytes);
    CALL(getxattr("file", "user.a", NULL, 0));
    CALL(getxattr("file", "user.a", bytes, 2));
    CALL(getxattr("link", "user.a", bytes, 100));
    CALL(lgetxattr("link", "user.a", bytes, 100));
    CALL(getxattr("file", "user.none", bytes, 100));
    CALL(getxattr("missing", "user.a", bytes, 100));
    CALL(getxattr("dangling", "user.a", bytes, 100));
    CALL(getxattr("file/", "user.a", bytes, 100));
    CALL(getxattr("file", "", bytes, 100));
    CALL(getxattr("file", "noprefix", bytes, 100));
    CALL(getxattr("file", "odd.prefix", bytes, 100));
    CALL(setxattr("file", "user.a", "new", 3, XATTR_CREATE));
    CALL(setxattr("file", "user.a", "new", 3, XATTR_REPLACE));
    CALL(setxattr("file", "user.b", "new", 3, XATTR_REPLACE));
    CALL(setxattr("file", "user.b", "new", 3, XATTR_CREATE));
    CALL(setxattr("file", "user.c", "", 0, 0));
    CALL(setxattr("file", "user.d", "x", 1, 99));
    CALL(setxattr("file", "user.", "x", 1, 0));
    CALL(setxattr("file", "user.big", bytes, 65537, 0));
    CALL(setxattr("link", "user.by-link", "x", 1, 0));
    CALL(lsetxattr("link", "user.of-link", "x", 1, 0));
    CALL(setxattr("fifo", "user.x", "x", 1, 0));
    CALL(setxattr("dir", "user.x", "x", 1, 0));
    CALL(setxattr("missing", "user.x", "x", 1, 0));
    CALL(setxattr("file", "odd.x", "x", 1, 0));
    CALL(setxattr("file", nowhere(), "x", 1, 0));
    CALL(setxattr("file", "user.x", nowhere(), 1, 0));
    CALL(setxattr(nowhere(), "user.x", "x", 1, 0));
    CALL(getxattr("file", "user.a", nowhere(), 100));
    memset(bytes, 'n', 300);
    memcpy(bytes, "user.", 5);
    bytes[255] = 0;
    CALL(setxattr("file", bytes, "x", 1, 0));
    bytes[255] = 'n';
    bytes[256] = 0;
    CALL(setxattr("file", bytes, "x", 1, 0));
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void show_list(long length)
{
    char *names[32];
    int count = 0;
    for (char *name = bytes; name < bytes + length && count < 32; name += strlen(name) + 1)
        names[count++] = name;
    qsort(names, count, sizeof *names, by_text);
    for (int at = 0; at < count; at++)
        SHOW("listed", "%s", names[at]);
}

static void lists(void)
{
    CALL(listxattr("file", bytes, sizeof bytes));
    DO(setxattr("file", "user.one", "1", 1, 0));
    DO(setxattr("file", "user.two", "2", 1, 0));
    show_list(CALL(listxattr("file", bytes, sizeof bytes)));
    show_list(CALL(listxattr("link", bytes, sizeof bytes)));
    CALL(llistxattr("link", bytes, sizeof bytes));
    CALL(listxattr("file", NULL, 0));
    CALL(listxattr("file", bytes, 3));
    CALL(listxattr("missing", bytes, 100));
    CALL(listxattr("file", nowhere(), 100));
    CALL(removexattr("file", "user.one"));
    CALL(removexattr("file", "user.one"));
    CALL(lremovexattr("link", "user.one"));
    CALL(removexattr("link", "user.two"));
    CALL(removexattr("missing", "user.two"));
    CALL(removexattr("file", ""));
    CALL(removexattr("file", nowhere()));
    CALL(listxattr("file", bytes, sizeof bytes));
}

static void by_descriptor(void)
{
    int fd = DO(open("file", O_RDONLY)), path = DO(open("file", O_PATH)), dir = DO(open("dir", O_RDONLY));
    CALL(fsetxattr(fd, "user.a", "value", 5, 0));
    CALL(fgetxattr(fd, "user.a", bytes, 100));
    CALL(flistxattr(fd, bytes, 100));
    CALL(fremovexattr(fd, "user.a"));
    CALL(fgetxattr(fd, "user.a", bytes, 100));
    CALL(fsetxattr(path, "user.a", "value", 5, 0));
    CALL(fgetxattr(path, "user.a", bytes, 100));
    CALL(fsetxattr(dir, "user.a", "value", 5, 0));
    CALL(fgetxattr(-1, "user.a", bytes, 100));
    CALL(fsetxattr(999, "user.a", bytes, 1, 0));
    CALL(flistxattr(999, bytes, 100));
    CALL(fremovexattr(999, "user.a"));
}

static void other_kinds(void)
{
    static const char *const names[] = {"trusted.x", "security.x", "system.posix_acl_access", "system.x"};
    for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
        told(names[at], setxattr("file", names[at], "x", 1, 0));
        told(names[at], getxattr("file", names[at], bytes, 100));
        told(names[at], removexattr("file", names[at]));
    }
    CALL(getxattr("/dev/null", "user.x", bytes, 100));
    CALL(setxattr("/dev/null", "user.x", "x", 1, 0));
    CALL(getxattr("/proc/self/status", "user.x", bytes, 100));
}

const struct part attributes_parts[] = {
    {"by-name", by_name}, {"lists", lists}, {"by-descriptor", by_descriptor},
    {"other-kinds", other_kinds}, {0},
};
