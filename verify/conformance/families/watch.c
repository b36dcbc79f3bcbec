/* What tells of changes and what makes them last: inotify, fsync, fdatasync, sync_file_range. */
#include "../case.h"

#include <sys/inotify.h>

static int queue;

/* The events that have come, watches and cookies by order of their appearance. */
static void show_events(const char *what)
{
    static uint32_t cookies[64];
    static int cookie_count;
    char room[4096] __attribute__((aligned(8)));
    ssize_t length = read(queue, room, sizeof room);
    SHOW(what, "%s", length < 0 ? error_name(errno) : "read");
    for (ssize_t at = 0; at < length;) {
        struct inotify_event *event = (void *)(room + at);
        int cookie = 0;
        while (event->cookie && cookie < cookie_count && cookies[cookie] != event->cookie)
            cookie++;
        if (event->cookie && cookie == cookie_count && cookie < 64)
            cookies[cookie_count++] = event->cookie;
        SHOW("event", "watch %d mask %x cookie %d name %s", event->wd, event->mask, event->cookie ? cookie + 1 : 0,
             event->len ? event->name : "-");
        at += sizeof *event + event->len;
    }
}

static void watches(void)
{
    CALL(queue = inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    CALL(inotify_add_watch(queue, "file", IN_MODIFY));
    CALL(inotify_add_watch(queue, "link", IN_MODIFY));
    CALL(inotify_add_watch(queue, "link", IN_MODIFY | IN_DONT_FOLLOW));
    CALL(inotify_add_watch(queue, "dir", IN_ALL_EVENTS));
    CALL(inotify_add_watch(queue, "file", IN_ALL_EVENTS | IN_ONLYDIR));
    CALL(inotify_add_watch(queue, "file", IN_CREATE | IN_MASK_CREATE));
    CALL(inotify_add_watch(queue, "file", IN_OPEN | IN_MASK_ADD));
    CALL(inotify_add_watch(queue, "file", 0));
    CALL(inotify_add_watch(queue, "missing", IN_MODIFY));
    CALL(inotify_add_watch(queue, "dangling", IN_MODIFY));
    CALL(inotify_add_watch(queue, "", IN_MODIFY));
    CALL(inotify_add_watch(queue, nowhere(), IN_MODIFY));
    CALL(inotify_add_watch(0, "file", IN_MODIFY));
    CALL(inotify_add_watch(-1, "file", IN_MODIFY));
    CALL(inotify_rm_watch(queue, 77));
    CALL(inotify_rm_watch(-1, 1));
    CALL(inotify_init1(0x20));
    show_events("nothing yet");
    CALL(inotify_rm_watch(queue, 1));
    show_events("removed");
}

static void events_of_a_folder(void)
{
    queue = DO(inotify_init1(IN_NONBLOCK));
    DO(inotify_add_watch(queue, "dir", IN_ALL_EVENTS));
    put("dir/new", "content");
    show_events("created");
    close(DO(open("dir/new", O_RDONLY)));
    show_events("opened");
    DO(chmod("dir/new", 0600));
    show_events("mode");
    DO(truncate("dir/new", 1));
    show_events("shortened");
    DO(rename("dir/new", "dir/renamed"));
    show_events("renamed");
    DO(rename("dir/renamed", "away"));
    show_events("away");
    DO(rename("away", "dir/back"));
    show_events("back");
    DO(link("dir/back", "dir/linked"));
    show_events("linked");
    DO(symlink("x", "dir/symbolic"));
    DO(mkdir("dir/folder", 0755));
    DO(mkfifo("dir/fifo", 0600));
    show_events("made");
    DO(rmdir("dir/folder"));
    DO(unlink("dir/fifo"));
    show_events("removed");
    close(DO(open("dir", O_RDONLY)));
    show_events("itself opened");
    DO(rename("dir", "hollow/dir"));
    show_events("itself moved");
}

static void events_of_a_file(void)
{
    char byte;
    queue = DO(inotify_init1(IN_NONBLOCK));
    DO(inotify_add_watch(queue, "file", IN_ALL_EVENTS));
    int fd = DO(open("file", O_RDWR));
    DO(write(fd, "x", 1));
    DO(read(fd, &byte, 1));
    close(fd);
    show_events("written");
    struct timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
    DO(utimensat(AT_FDCWD, "file", now, 0));
    show_events("touched");
    DO(link("file", "hard"));
    DO(unlink("file"));
    show_events("unlinked");
    DO(unlink("hard"));
    show_events("gone");
    DO(inotify_add_watch(queue, "empty", IN_MODIFY | IN_ONESHOT));
    put("empty", "1");
    put("empty", "2");
    show_events("once");
}

static void lasting(void)
{
    int fd = DO(open("file", O_RDWR)), reader = DO(open("file", O_RDONLY)), dir = DO(open("dir", O_RDONLY)), path = DO(open("file", O_PATH));
    int ends[2];
    DO(pipe(ends));
    DO(write(fd, "x", 1));
    int fds[] = {fd, reader, dir, path, ends[1], 0, -1, 999};
    for (size_t at = 0; at < sizeof fds / sizeof *fds; at++) {
        int one = fds[at];
        CALL(fsync(one));
        CALL(fdatasync(one));
        CALL(sync_file_range(one, 0, 1, SYNC_FILE_RANGE_WRITE));
    }
    CALL(sync_file_range(fd, 0, 1, 0x100));
    CALL(sync_file_range(fd, -1, 1, SYNC_FILE_RANGE_WRITE));
    CALL(sync_file_range(fd, 0, -1, SYNC_FILE_RANGE_WRITE));
}

const struct part watch_parts[] = {
    {"watches", watches}, {"events-of-a-folder", events_of_a_folder},
    {"events-of-a-file", events_of_a_file}, {"lasting", lasting}, {0},
};
