/* rename(2), renameat(2), renameat2(2): what may replace what, and what is left. */
#include "../case.h"

static void files(void)
{
    CALL(rename("file", "moved"));
    CALL(rename("file", "moved"));
    CALL(rename("moved", "moved"));
    CALL(rename("moved", "empty"));
    show_file("empty");
    CALL(rename("empty", "dir/empty"));
    CALL(rename("dir/empty", "missing/empty"));
    CALL(rename("dir/empty", "readonly/empty"));
    CALL(rename("dir/empty", "dir"));
    CALL(rename("dir/empty", "hollow"));
    CALL(rename("dir/empty", "trailing/"));
    CALL(rename("dir/empty/", "trailing"));
    CALL(rename("dir/empty", ""));
    CALL(rename("", "x"));
    CALL(rename("dir/empty", "fifo"));
    CALL(rename("fifo", "link"));
    CALL(rename("link", "dangling"));
    show_names(".");
}

static void hard_linked(void)
{
    DO(link("file", "same"));
    CALL(rename("file", "same"));
    CALL(access("file", F_OK));
    CALL(access("same", F_OK));
    CALL(renameat2(AT_FDCWD, "file", AT_FDCWD, "same", RENAME_NOREPLACE));
    CALL(renameat2(AT_FDCWD, "file", AT_FDCWD, "same", RENAME_EXCHANGE));
    CALL(rename("link", "file"));
    CALL(access("same", F_OK));
    show_names(".");
}

static void folders(void)
{
    CALL(rename("hollow", "moved"));
    CALL(rename("moved", "dir"));
    CALL(rename("dir", "moved"));
    show_names("moved");
    CALL(rename("moved", "moved/sub/deeper"));
    CALL(rename("moved", "moved/sub"));
    CALL(rename("moved/sub", "moved"));
    CALL(rename("moved", "file"));
    CALL(rename("moved", "link"));
    CALL(rename("moved", "."));
    CALL(rename("moved", ".."));
    CALL(rename(".", "x"));
    CALL(rename("..", "x"));
    CALL(rename("moved/.", "x"));
    CALL(rename("moved/..", "x"));
    CALL(rename("/", "x"));
    CALL(rename("moved", "/"));
    CALL(rename("moved/", "slash/"));
    CALL(rename("slash", "dirlink"));
    CALL(rename("slash", "dirlink/"));
    CALL(rename("dirlink", "elsewhere"));
    CALL(rename("elsewhere/", "x"));
    CALL(rename("/proc/self", "x"));
    CALL(rename("file", "/dev/null/x"));
    show_names(".");
}

static void current(void)
{
    char path[PATH_MAX];
    DO(chdir("dir"));
    CALL(rename("../dir", "../moved"));
    CALL_P(getcwd(path, sizeof path));
    SHOW("where", "%s", strrchr(path, '/'));
    CALL(access("inner", F_OK));
    CALL(rename("../moved", "../hollow"));
    CALL_P(getcwd(path, sizeof path));
    SHOW("where", "%s", strrchr(path, '/'));
    CALL(rename("inner", "../inner"));
    show_names(".");
}

static void flags(void)
{
    int now = AT_FDCWD;
    CALL(renameat2(now, "file", now, "empty", RENAME_NOREPLACE));
    CALL(renameat2(now, "file", now, "moved", RENAME_NOREPLACE));
    CALL(renameat2(now, "moved", now, "dangling", RENAME_NOREPLACE));
    CALL(renameat2(now, "moved", now, "empty", RENAME_EXCHANGE));
    show_file("moved");
    show_file("empty");
    CALL(renameat2(now, "moved", now, "dir", RENAME_EXCHANGE));
    CALL(renameat2(now, "moved", now, "hollow", RENAME_EXCHANGE));
    CALL(renameat2(now, "moved", now, "missing", RENAME_EXCHANGE));
    CALL(renameat2(now, "missing", now, "moved", RENAME_EXCHANGE));
    CALL(renameat2(now, "hollow", now, "hollow/sub", RENAME_EXCHANGE));
    CALL(renameat2(now, "link", now, "dirlink", RENAME_EXCHANGE));
    CALL(renameat2(now, "empty", now, "x", RENAME_NOREPLACE | RENAME_EXCHANGE));
    CALL(renameat2(now, "empty", now, "white", RENAME_WHITEOUT | RENAME_EXCHANGE));
    CALL(renameat2(now, "empty", now, "x", 0x80));
    show_names(".");
}

static void by_descriptor(void)
{
    int dir = DO(open("dir", O_RDONLY)), hollow = DO(open("hollow", O_PATH)), file = DO(open("file", O_RDONLY));
    CALL(renameat(dir, "inner", hollow, "inner"));
    CALL(renameat(dir, "inner", hollow, "inner"));
    CALL(renameat(AT_FDCWD, "file", dir, "file"));
    CALL(renameat(dir, "file", AT_FDCWD, "file"));
    CALL(renameat(dir, "../file", hollow, "../moved"));
    CALL(renameat(dir, "x", file, "x"));
    CALL(renameat(file, "x", dir, "x"));
    CALL(renameat(999, "x", dir, "x"));
    CALL(renameat(dir, "sub", 999, "x"));
    CALL(renameat(dir, "", hollow, "x"));
    CALL(renameat(dir, "sub", hollow, ""));
    CALL(renameat(dir, ".", hollow, "x"));
    CALL(rename(nowhere(), "x"));
    CALL(rename("moved", nowhere()));
    show_names("hollow");
    show_names("dir");
}

static void open_files(void)
{
    char bytes[16] = "";
    struct stat status;
    int old = DO(open("file", O_RDONLY)), replaced = DO(open("empty", O_RDONLY));
    DO(rename("file", "empty"));
    CALL(read(old, bytes, 4));
    CALL(read(replaced, bytes, 4));
    CALL(fstat(old, &status));
    show_status("old", &status);
    CALL(fstat(replaced, &status));
    show_status("replaced", &status);
}

const struct part renames_parts[] = {
    {"files", files}, {"hard-linked", hard_linked}, {"folders", folders}, {"current", current},
    {"flags", flags}, {"by-descriptor", by_descriptor}, {"open-files", open_files}, {0},
};
