/* Names come and go: link, symlink, readlink, unlink, mkdir, rmdir, mknod. */
#include "../case.h"

#include <sys/sysmacros.h>

static void show_links(const char *path)
{
    struct stat status;
    if (CALL(lstat(path, &status)) == 0)
        show_status(path, &status);
}

static void hard_links(void)
{
    int dir = DO(open("dir", O_RDONLY)), file = DO(open("file", O_RDONLY)), path = DO(open("file", O_PATH));
    CALL(link("file", "hard"));
    show_links("hard");
    CALL(link("file", "hard"));
    CALL(link("file", "dir/hard"));
    CALL(link("file", "missing/hard"));
    CALL(link("missing", "hard2"));
    CALL(link("dir", "hard2"));
    CALL(link("link", "hardlink"));
    show_links("hardlink");
    CALL(link("dangling", "harddangling"));
    CALL(link("fifo", "hardfifo"));
    CALL(link("file", "dir"));
    CALL(link("file", "dangling"));
    CALL(link("file", "hard3/"));
    CALL(link("file/", "hard3"));
    CALL(link("", "hard3"));
    CALL(link("file", ""));
    CALL(link("file", "/proc/hard"));
    CALL(link("/proc/self/status", "hard3"));
    CALL(linkat(dir, "inner", AT_FDCWD, "hard4", 0));
    CALL(linkat(AT_FDCWD, "link", dir, "followed", AT_SYMLINK_FOLLOW));
    show_links("dir/followed");
    CALL(linkat(AT_FDCWD, "dangling", dir, "followed2", AT_SYMLINK_FOLLOW));
    CALL(linkat(file, "", AT_FDCWD, "hard5", 0));
    CALL(linkat(file, "", AT_FDCWD, "hard5", AT_EMPTY_PATH));
    CALL(linkat(path, "", AT_FDCWD, "hard6", AT_EMPTY_PATH));
    CALL(linkat(AT_FDCWD, "file", AT_FDCWD, "hard7", 0x8000));
    CALL(linkat(file, "x", AT_FDCWD, "hard7", 0));
    CALL(linkat(999, "x", AT_FDCWD, "hard7", 0));
    CALL(linkat(AT_FDCWD, "file", 999, "hard7", 0));
    show_links("file");
}

static void symbolic_links(void)
{
    char target[64];
    int dir = DO(open("dir", O_RDONLY));
    CALL(symlink("anything at all", "sym"));
    CALL(readlink("sym", target, sizeof target));
    CALL(symlink("", "sym2"));
    CALL(symlink("file", "file"));
    CALL(symlink("file", "link"));
    CALL(symlink("file", "dangling"));
    CALL(symlink("file", "missing/sym"));
    CALL(symlink("file", "file/sym"));
    CALL(symlink("file", "sym3/"));
    CALL(symlink("file", ""));
    CALL(symlinkat("../file", dir, "sym"));
    CALL(access("dir/sym", R_OK));
    CALL(symlinkat("x", 999, "sym"));
    CALL(symlinkat("x", -1, "sym"));
    show_links("sym");
    show_names("dir");
}

static void reading_links(void)
{
    char target[64] = "", long_target[PATH_MAX + 8];
    int dir = DO(open(".", O_RDONLY)), path = DO(open("link", O_PATH | O_NOFOLLOW)), file = DO(open("file", O_PATH));
    CALL(readlink("link", target, sizeof target));
    SHOW("target", "%s", target);
    memset(target, 0, sizeof target);
    CALL(readlink("link", target, 2));
    SHOW("target", "%s", target);
    CALL(readlink("link", target, 0));
    CALL(readlink("link", target, -1));
    CALL(readlink("file", target, sizeof target));
    CALL(readlink("dir", target, sizeof target));
    CALL(readlink("missing", target, sizeof target));
    CALL(readlink("dangling", target, sizeof target));
    CALL(readlink("loop", target, sizeof target));
    CALL(readlink("loop/x", target, sizeof target));
    CALL(readlink("link/", target, sizeof target));
    CALL(readlink("dirlink/", target, sizeof target));
    CALL(readlink("", target, sizeof target));
    CALL(readlink("link", nowhere(), 10));
    CALL(readlinkat(dir, "dirlink", target, sizeof target));
    CALL(readlinkat(path, "", target, sizeof target));
    CALL(readlinkat(file, "", target, sizeof target));
    CALL(readlinkat(999, "", target, sizeof target));
    memset(long_target, 'a', PATH_MAX);
    long_target[PATH_MAX - 1] = 0;
    CALL(symlink(long_target, "longest"));
    CALL(readlink("longest", long_target, sizeof long_target));
    CALL(access("longest", F_OK));
    memset(long_target, 'a', PATH_MAX + 1);
    long_target[PATH_MAX] = 0;
    CALL(symlink(long_target, "longer"));
}

static void removal(void)
{
    struct stat status;
    char byte;
    int dir = DO(open("dir", O_RDONLY)), file = DO(open("file", O_RDONLY));
    CALL(unlink("file"));
    CALL(read(file, &byte, 1));
    CALL(fstat(file, &status));
    show_status("unlinked", &status);
    CALL(unlink("file"));
    CALL(unlink("link"));
    CALL(unlink("loop"));
    CALL(unlink("dangling"));
    CALL(unlink("fifo"));
    CALL(unlink("readonly"));
    CALL(unlink("dir"));
    CALL(unlink("hollow"));
    CALL(unlink("empty/"));
    CALL(unlink("dirlink/"));
    CALL(unlink("dirlink/inner/x"));
    CALL(unlink("."));
    CALL(unlink(".."));
    CALL(unlink("/"));
    CALL(unlink(""));
    CALL(unlinkat(dir, "inner", 0));
    CALL(unlinkat(dir, "sub", 0));
    CALL(unlinkat(dir, "sub", AT_REMOVEDIR));
    CALL(unlinkat(dir, "sub", 0x1000));
    CALL(unlinkat(dir, "", 0));
    CALL(unlinkat(dir, "", AT_REMOVEDIR));
    CALL(unlinkat(file, "x", 0));
    CALL(unlinkat(999, "x", 0));
    CALL(unlinkat(999, here, AT_REMOVEDIR));
    show_names(".");
}

static void making_folders(void)
{
    struct stat status;
    int dir = DO(open("dir", O_RDONLY));
    CALL(mkdir("new", 0700));
    CALL(mkdir("new", 0700));
    CALL(mkdir("new/", 0700));
    CALL(mkdir("slash/", 0700));
    CALL(mkdir("slashes///", 0700));
    CALL(mkdir("file", 0700));
    CALL(mkdir("link", 0700));
    CALL(mkdir("dangling", 0700));
    CALL(mkdir("dangling/", 0700));
    CALL(mkdir("dirlink", 0700));
    CALL(mkdir("dirlink/deep", 0700));
    CALL(mkdir("missing/new", 0700));
    CALL(mkdir("file/new", 0700));
    CALL(mkdir("loop/new", 0700));
    CALL(mkdir("", 0700));
    CALL(mkdir(".", 0700));
    CALL(mkdir("..", 0700));
    CALL(mkdir("/", 0700));
    CALL(mkdir("new2/.", 0700));
    CALL(mkdir("new/..", 0700));
    CALL(mkdir("sticky", 07777));
    DO(stat("sticky", &status));
    show_status("sticky", &status);
    CALL(mkdirat(dir, "at", 0755));
    CALL(mkdirat(999, "at", 0755));
    CALL(mkdirat(-1, "at", 0755));
    DO(stat("dir", &status));
    show_status("dir", &status);
}

static void removing_folders(void)
{
    CALL(rmdir("hollow"));
    CALL(rmdir("hollow"));
    CALL(rmdir("dir"));
    CALL(rmdir("dir/sub/"));
    CALL(rmdir("file"));
    CALL(rmdir("fifo"));
    CALL(rmdir("dirlink"));
    CALL(rmdir("dirlink/"));
    CALL(rmdir("link"));
    CALL(rmdir("dangling"));
    CALL(rmdir("loop"));
    CALL(rmdir(""));
    CALL(rmdir("."));
    CALL(rmdir(".."));
    CALL(rmdir("dir/."));
    CALL(rmdir("dir/.."));
    CALL(rmdir("/"));
    CALL(rmdir("file/x"));
    CALL(rmdir("missing/x"));
    show_names(".");
}

static void nodes(void)
{
    struct stat status;
    int dir = DO(open("dir", O_RDONLY));
    CALL(mkfifo("fifo2", 0666));
    CALL(mkfifo("fifo", 0666));
    CALL(mkfifo("fifo3/", 0666));
    CALL(mkfifo("missing/fifo", 0666));
    CALL(mkfifoat(dir, "fifo", 0600));
    CALL(mkfifoat(999, "fifo", 0600));
    CALL(mknod("plain", S_IFREG | 0640, 0));
    CALL(mknod("plain2", 0640, 0));
    CALL(mknod("plain", S_IFREG | 0640, 0));
    CALL(mknod("socket", S_IFSOCK | 0640, 0));
    CALL(mknod("folder", S_IFDIR | 0755, 0));
    CALL(mknod("odd", S_IFLNK | 0755, 0));
    CALL(mknod("odd", 0030000 | 0755, 0));
    CALL(mknodat(dir, "plain", S_IFREG | 0600, 0));
    /* What is wrong with the name comes before the right to make a device. */
    char name[300] = {0};
    memset(name, 'n', sizeof name - 1);
    CALL(mknod(name, S_IFCHR | 0600, 0x103));
    CALL(mknod("file/device", S_IFCHR | 0600, 0x103));
    CALL(mknod("file", S_IFBLK | 0600, 0x103));
    CALL(mknod("file/", S_IFCHR | 0600, 0x103));
    CALL(mknod("dangling", S_IFCHR | 0600, 0x103));
    CALL(mknod("missing/device", S_IFBLK | 0600, 0x103));
    CALL(mknod("device/", S_IFCHR | 0600, 0x103));
    CALL(mknod("loop/device", S_IFCHR | 0600, 0x103));
    CALL(mknod(".", S_IFCHR | 0600, 0x103));
    CALL(mknod("/", S_IFCHR | 0600, 0x103));
    CALL(mknod("", S_IFCHR | 0600, 0x103));
    CALL(mknod(nowhere(), S_IFCHR | 0600, 0x103));
    CALL(mknodat(dir, "sub", S_IFCHR | 0600, 0x103));
    CALL(mknodat(999, "device", S_IFCHR | 0600, 0x103));
    CALL(open("socket", O_RDONLY));
    DO(stat("plain", &status));
    show_status("plain", &status);
    show_names(".");
}

const struct part names_parts[] = {
    {"hard-links", hard_links}, {"symbolic-links", symbolic_links}, {"reading-links", reading_links},
    {"removal", removal}, {"making-folders", making_folders}, {"removing-folders", removing_folders},
    {"nodes", nodes}, {0},
};
