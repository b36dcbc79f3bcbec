/* Folders: reading them, being in them, and being in one that is gone. */
#include "../case.h"

static int count_of(DIR *folder)
{
    int count = 0;
    while (readdir(folder))
        count++;
    return count;
}

static void reading(void)
{
    DIR *folder;
    CALL_P(opendir("file"));
    CALL_P(opendir("missing"));
    CALL_P(opendir("link"));
    CALL_P(opendir("dangling"));
    CALL_P(opendir("loop"));
    CALL_P(opendir(""));
    CALL_P(folder = opendir("dirlink"));
    CALL(dirfd(folder) >= 0);
    CALL(count_of(folder));
    CALL_P(readdir(folder));
    rewinddir(folder);
    CALL(count_of(folder));
    DO(mkdir("dir/more", 0755));
    put("dir/evenmore", "");
    rewinddir(folder);
    CALL(count_of(folder));
    DO(unlink("dir/evenmore"));
    rewinddir(folder);
    CALL(count_of(folder));
    CALL(fcntl(dirfd(folder), F_GETFD));
    CALL(closedir(folder));
    CALL_P(fdopendir(-1));
    CALL_P(fdopendir(DO(open("file", O_RDONLY))));
    CALL_P(fdopendir(DO(open("dir", O_PATH))));
    show_names(".");
    show_names("dir");
    show_names("hollow");
}

/* Seeking to each place in turn gives the same name as before. */
static void seeking(void)
{
    char names[300][16], name[32];
    long places[300];
    int count = 0, equal = 0;
    for (int at = 0; at < 200; at++) {
        snprintf(name, sizeof name, "hollow/n%03d", at);
        put(name, "");
    }
    DIR *folder = opendir("hollow");
    for (;; count++) {
        places[count] = telldir(folder);
        struct dirent *entry = readdir(folder);
        if (!entry)
            break;
        snprintf(names[count], 16, "%.15s", entry->d_name);
    }
    for (int at = count - 1; at >= 0; at--) {
        seekdir(folder, places[at]);
        struct dirent *entry = readdir(folder);
        equal += entry && strncmp(entry->d_name, names[at], 15) == 0;
    }
    SHOW("seekdir", "%d entries, %d found again", count, equal);
    closedir(folder);
}

static void raw(void)
{
    char room[4096];
    int dir = DO(open("dir", O_RDONLY)), file = DO(open("file", O_RDONLY)), path = DO(open("dir", O_PATH));
    CALL(syscall(SYS_getdents64, dir, room, sizeof room));
    CALL(syscall(SYS_getdents64, dir, room, sizeof room));
    CALL(lseek(dir, 0, SEEK_SET));
    CALL(syscall(SYS_getdents64, dir, room, 10));
    CALL(syscall(SYS_getdents64, dir, room, 24));
    CALL(syscall(SYS_getdents64, dir, nowhere(), 4096));
    CALL(syscall(SYS_getdents64, file, room, sizeof room));
    CALL(syscall(SYS_getdents64, path, room, sizeof room));
    CALL(syscall(SYS_getdents64, 999, room, sizeof room));
    CALL(syscall(SYS_getdents, dir, room, sizeof room) >= 0);
    DO(rmdir("hollow/../dir/sub"));
    int gone = DO(open("hollow", O_RDONLY));
    DO(rmdir("hollow"));
    CALL(syscall(SYS_getdents64, gone, room, sizeof room));
}

static const char *where(void)
{
    static char path[PATH_MAX];
    if (!getcwd(path, sizeof path))
        return error_name(errno);
    return strncmp(path, here, strlen(here)) == 0 ? path + strlen(here) : path;
}

static void changing(void)
{
    int dir = DO(open("dir", O_RDONLY)), file = DO(open("file", O_RDONLY)), path = DO(open("hollow", O_PATH));
    char small[4];
    CALL(chdir("dir"));
    SHOW("where", "%s", where());
    CALL(chdir("sub/"));
    SHOW("where", "%s", where());
    CALL(chdir("../.."));
    SHOW("where", "%s", where());
    CALL(chdir("dirlink"));
    SHOW("where", "%s", where());
    CALL(chdir(".."));
    CALL(chdir("file"));
    CALL(chdir("missing"));
    CALL(chdir("dangling"));
    CALL(chdir("loop"));
    CALL(chdir(""));
    CALL(chdir(nowhere()));
    CALL(fchdir(dir));
    SHOW("where", "%s", where());
    CALL(fchdir(path));
    SHOW("where", "%s", where());
    CALL(fchdir(file));
    CALL(fchdir(-1));
    CALL(fchdir(999));
    CALL_P(getcwd(small, sizeof small));
    CALL_P(getcwd(small, 0));
    CALL(syscall(SYS_getcwd, nowhere(), 4096));
    CALL(chdir("/"));
    SHOW("where", "%s", where());
    CALL(chdir(".."));
    SHOW("where", "%s", where());
    CALL(chdir("//"));
    SHOW("where", "%s", where());
    CALL(chdir(here));
    CALL(access("file", F_OK));
}

/* Into folders that lead to others, by descriptors. */
static void entered(void)
{
    char room[PATH_MAX];
    int top = DO(open("/", O_RDONLY)), above = DO(open("/usr/..", O_PATH));
    CALL(fchdir(top));
    CALL(syscall(SYS_getcwd, room, sizeof room));
    SHOW("where", "%s", where());
    CALL(syscall(SYS_getcwd, room, 2));
    CALL(syscall(SYS_getcwd, room, 1));
    CALL(syscall(SYS_getcwd, room, 0));
    CALL(syscall(SYS_getcwd, nowhere(), 1));
    CALL(syscall(SYS_getcwd, nowhere(), 100));
    CALL(access("usr", F_OK));
    CALL(fchdir(above));
    SHOW("where", "%s", where());
    CALL(chdir("usr"));
    SHOW("where", "%s", where());
    CALL(chdir(here));
    CALL(chdir(".."));
    int holds_it = DO(open(".", O_RDONLY));
    CALL(chdir("/"));
    CALL(fchdir(holds_it));
    SHOW("is it there", "%d", !strncmp(here, getcwd(room, sizeof room), strlen(room)));
    CALL(fchdir(top));
    CALL(chdir(here));
}

static void gone(void)
{
    struct stat status;
    DO(chdir("hollow"));
    CALL(rmdir("../hollow"));
    SHOW("where", "%s", where());
    CALL(open("new", O_CREAT | O_RDWR, 0600));
    CALL(mkdir("new", 0700));
    CALL(symlink("x", "new"));
    CALL(link("../file", "new"));
    CALL(rename("../file", "new"));
    CALL(stat(".", &status));
    show_status(".", &status);
    CALL(stat("..", &status));
    CALL(access("../file", F_OK));
    CALL(open(".", O_RDONLY) >= 0);
    CALL(open("..", O_RDONLY) >= 0);
    show_names(".");
    CALL(chdir("."));
    CALL(chdir(".."));
    SHOW("where", "%s", where());
}

static void gone_by_descriptor(void)
{
    struct stat status;
    int dir = DO(open("hollow", O_RDONLY));
    DO(rmdir("hollow"));
    CALL(openat(dir, "new", O_CREAT | O_RDWR, 0600));
    CALL(openat(dir, ".", O_RDONLY) >= 0);
    CALL(openat(dir, "..", O_RDONLY) >= 0);
    CALL(mkdirat(dir, "new", 0700));
    CALL(fstat(dir, &status));
    show_status("gone", &status);
    CALL(fstatat(dir, "", &status, AT_EMPTY_PATH));
    CALL(fchdir(dir));
    SHOW("where", "%s", where());
    DO(mkdir(here, 0755) + 2);
    CALL(mkdir("../hollow", 0755));
    SHOW("where", "%s", where());
    CALL(openat(dir, "new", O_CREAT | O_RDWR, 0600));
}

static void child_moves(void)
{
    CALL(chdir("dir"));
    SHOW("child", "%s", where());
}

static void inherited(void)
{
    in_child("child", child_moves);
    SHOW("parent", "%s", where());
    DO(chdir("hollow"));
    in_child("child", child_moves);
    DO(chdir("../dir"));
    DO(mkdir("dir", 0755));
    in_child("child", child_moves);
    SHOW("parent", "%s", where());
}

const struct part folders_parts[] = {
    {"reading", reading}, {"seeking", seeking}, {"raw", raw}, {"changing", changing}, {"entered", entered}, {"gone", gone},
    {"gone-by-descriptor", gone_by_descriptor}, {"inherited", inherited}, {0},
};
