/* Every operation on every kind of path: the rules of pathname resolution, as two tables.
 *
 * What may change the tree gets a fresh one after each success, left for the runner to compare.
 */
#include "../case.h"

#include <sys/inotify.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

static const char *const paths[] = {
    "", ".", "..", "/", "//", "///", "./", "../", "./.", "file", "./file", ".//file", "file/", "file//",
    "file/.", "file/..", "file/x", "empty", "dir", "dir/", "dir//", "dir/.", "dir/..", "dir/../file",
    "dir/sub/../../file", "dir/inner", "dir/inner/", "dir/missing", "dir/missing/", "dir/missing/x",
    "hollow", "hollow/", "missing", "missing/", "missing/..", "missing/x", "link", "link/", "link/x",
    "dirlink", "dirlink/", "dirlink/inner", "dirlink/..", "dirlink/../file", "dirlink/missing",
    "dangling", "dangling/", "dangling/x", "loop", "loop/", "loop/x", "ping", "absolute", "through",
    "parent", "parent/", "fifo", "fifo/", "script", "secret", "readonly",
    "../../../../../../../../../../../../../../../..", "../../../../../../../../../../../../../dev/null",
    "/dev/null", "/dev/null/", "/dev/null/x", "/dev/../dev/null", "/proc/self", "/proc/self/",
    "/proc/self/exe", "/proc/self/cwd/file", "/proc/self/root/dev/null", "/missing-at-the-root",
};

struct operation {
    const char *name;
    int changes, inside_only;
    long (*run)(int dir, const char *path);
};

static char bytes[PATH_MAX];

static long opens(int dir, const char *path, int flags)
{
    int fd = openat(dir, path, flags | O_NONBLOCK, 0644);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -1 : 0;
}

static long stats(int dir, const char *path, int flags)
{
    struct stat status;
    return fstatat(dir, path, &status, flags) ? -1 : (long)status.st_mode;
}

#define OPERATION(name, ...) \
    static long name(int dir, const char *path) { return __VA_ARGS__; }

static const struct timespec moment[2] = {{1000, 0}, {2000, 0}};

OPERATION(reads, opens(dir, path, O_RDONLY))
OPERATION(reads_folder, opens(dir, path, O_RDONLY | O_DIRECTORY))
OPERATION(reads_no_link, opens(dir, path, O_RDONLY | O_NOFOLLOW))
OPERATION(names_it, opens(dir, path, O_PATH))
OPERATION(names_no_link, opens(dir, path, O_PATH | O_NOFOLLOW))
OPERATION(stat_it, stats(dir, path, 0))
OPERATION(stat_link, stats(dir, path, AT_SYMLINK_NOFOLLOW))
OPERATION(stat_here, stats(dir, path, AT_EMPTY_PATH))
OPERATION(may_read, faccessat(dir, path, R_OK, 0))
OPERATION(may_write, faccessat(dir, path, W_OK, 0))
OPERATION(may_execute, faccessat(dir, path, X_OK, AT_EACCESS))
OPERATION(exists, faccessat(dir, path, F_OK, AT_SYMLINK_NOFOLLOW))
OPERATION(target, readlinkat(dir, path, bytes, sizeof bytes) < 0 ? -1 : 0)
OPERATION(writes, opens(dir, path, O_WRONLY))
OPERATION(empties, opens(dir, path, O_RDWR | O_TRUNC))
OPERATION(creates, opens(dir, path, O_RDWR | O_CREAT))
OPERATION(creates_new, opens(dir, path, O_RDWR | O_CREAT | O_EXCL))
OPERATION(creates_unnamed, opens(dir, path, O_RDWR | O_TMPFILE))
OPERATION(makes_folder, mkdirat(dir, path, 0755))
OPERATION(makes_fifo, mkfifoat(dir, path, 0644))
OPERATION(makes_link, symlinkat("file", dir, path))
OPERATION(unlinks, unlinkat(dir, path, 0))
OPERATION(removes, unlinkat(dir, path, AT_REMOVEDIR))
OPERATION(links_from, linkat(dir, path, dir, "new", 0))
OPERATION(links_followed, linkat(dir, path, dir, "new", AT_SYMLINK_FOLLOW))
OPERATION(links_to, linkat(dir, "file", dir, path, 0))
OPERATION(renames_from, renameat(dir, path, dir, "new"))
OPERATION(renames_to, renameat(dir, "file", dir, path))
OPERATION(renames_over, renameat(dir, "dir", dir, path))
OPERATION(exchanges, renameat2(dir, "hollow", dir, path, RENAME_EXCHANGE))
OPERATION(stamps, utimensat(dir, path, moment, 0))
OPERATION(stamps_link, utimensat(dir, path, moment, AT_SYMLINK_NOFOLLOW))
OPERATION(sets_mode, fchmodat(dir, path, 0750, 0))
OPERATION(sets_owner, fchownat(dir, path, -1, -1, AT_SYMLINK_NOFOLLOW))

/* The calls below take no descriptor of a folder, so they run from the current one. */
static long watches(int dir, const char *path)
{
    (void)dir;
    int queue = inotify_init(), watch = inotify_add_watch(queue, path, IN_MODIFY), error = errno;
    close(queue);
    errno = error;
    return watch < 0 ? -1 : 0;
}

static long enters(int dir, const char *path)
{
    int before = open(".", O_PATH), result = chdir(path), error = errno;
    (void)dir;
    /* Where /proc/self leads is another name in each run. */
    if (result == 0 && getcwd(bytes, sizeof bytes))
        shown("inside", "%s", strncmp(bytes, "/proc/", 6) == 0 ? "/proc" : bytes);
    if (fchdir(before) != 0)
        abort();
    close(before);
    errno = error;
    return result;
}

static long of_system(int dir, const char *path)
{
    struct statfs status;
    (void)dir;
    return statfs(path, &status) ? -1 : (long)status.f_type;
}

OPERATION(truncates, ((void)dir, truncate(path, 3)))
OPERATION(attribute, ((void)dir, getxattr(path, "user.none", bytes, 10)))
OPERATION(attribute_of_link, ((void)dir, lgetxattr(path, "user.none", bytes, 10)))
OPERATION(sets_attribute, ((void)dir, setxattr(path, "user.some", "value", 5, 0)))
OPERATION(executes, ((void)dir, access(path, X_OK) ? -1 : 0))

#define STILL(name) {#name, 0, 0, name}
#define INSIDE(name) {#name, 0, 1, name}
#define CHANGE(name) {#name, 1, 1, name}

static const struct operation anywhere[] = {
    STILL(reads), STILL(reads_folder), STILL(reads_no_link), STILL(names_it), STILL(names_no_link),
    STILL(stat_it), STILL(stat_link), STILL(stat_here), STILL(may_read), INSIDE(may_write),
    STILL(may_execute), STILL(exists), STILL(target), INSIDE(writes), CHANGE(empties), CHANGE(creates),
    CHANGE(creates_new), CHANGE(creates_unnamed), CHANGE(makes_folder), CHANGE(makes_fifo),
    CHANGE(makes_link), CHANGE(unlinks), CHANGE(removes), CHANGE(links_from), CHANGE(links_followed),
    CHANGE(links_to), CHANGE(renames_from), CHANGE(renames_to), CHANGE(renames_over), CHANGE(exchanges),
    INSIDE(stamps), INSIDE(stamps_link), INSIDE(sets_mode), INSIDE(sets_owner), {0},
};
static const struct operation from_here[] = {
    STILL(watches), STILL(enters), INSIDE(of_system), STILL(attribute), STILL(attribute_of_link),
    STILL(executes), CHANGE(truncates), CHANGE(sets_attribute), {0},
};

/* What lies outside the tree is everybody's: nothing that changes something is tried on it. In a
 * sealed run it is read-only, and the root is one that leads only to what was granted. */
static int is_outside(const char *path)
{
    return path[0] == '/' || strstr(path, "..") || strncmp(path, "parent", 6) == 0;
}

/* A folder of this cell's own, entered. */
static void fresh(const char *operation, int number)
{
    char folder[NAME_MAX];
    snprintf(folder, sizeof folder, "%s-%d", operation, number);
    DO(chdir(here));
    DO(mkdir(folder, 0755));
    DO(chdir(folder));
    fixture();
}

static long cell(const struct operation *one, int dir, const char *path, const char *from)
{
    char text[PATH_MAX];
    snprintf(text, sizeof text, "%s \"%s\"%s", one->name, path, from);
    errno = 0;
    return told(text, one->run(dir, path));
}

static void still(const struct operation *operations, int dir, const char *from)
{
    for (const struct operation *one = operations; one->name; one++)
        for (size_t at = 0; !one->changes && at < sizeof paths / sizeof *paths; at++)
            if (!one->inside_only || !is_outside(paths[at]))
                cell(one, dir, paths[at], from);
}

static void changing(const struct operation *operations)
{
    char top[PATH_MAX];
    int used = 1;
    strcpy(top, here);
    for (const struct operation *one = operations; one->name; one++)
        for (size_t at = 0; one->changes && at < sizeof paths / sizeof *paths; at++) {
            if (is_outside(paths[at]))
                continue;
            if (used)
                fresh(one->name, (int)at);
            used = cell(one, AT_FDCWD, paths[at], "") >= 0;
            strcpy(here, top);
        }
}

static void from_the_current(void)
{
    still(anywhere, AT_FDCWD, "");
    still(from_here, AT_FDCWD, "");
}

static void from_a_folder(void)
{
    int dir = DO(open(".", O_RDONLY | O_DIRECTORY));
    DO(chdir("/"));
    still(anywhere, dir, " from a folder");
}

static void from_a_path(void)
{
    int dir = DO(open(".", O_PATH));
    DO(chdir("hollow"));
    still(anywhere, dir, " from a path");
}

static void from_a_file(void)
{
    int file = DO(open("file", O_RDONLY));
    still(anywhere, file, " from a file");
}

static void absolute(void)
{
    char path[2 * PATH_MAX];
    DO(chdir("/"));
    for (const struct operation *one = anywhere; one->name; one++)
        for (size_t at = 0; !one->changes && at < sizeof paths / sizeof *paths; at++) {
            if (one->inside_only && is_outside(paths[at]))
                continue;
            snprintf(path, sizeof path, "%s/%s", here, paths[at]);
            cell(one, -1, path, "");
        }
}

static void all_changing(void)
{
    changing(anywhere);
    changing(from_here);
}

const struct part paths_parts[] = {
    {"from-the-current", from_the_current}, {"from-a-folder", from_a_folder},
    {"from-a-path", from_a_path}, {"from-a-file", from_a_file}, {"absolute", absolute},
    {"changing", all_changing}, {0},
};
