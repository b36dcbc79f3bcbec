/* A grant below /tmp, which lies within the program's own /tmp: what is beside it outside, and the name.
 *
 * SHELF is a folder outside in /tmp: `rw` in it is granted for writing and `ro` for reading, `secret` and
 * `open` (that everybody may write) to nobody.
 */
#include "attack.h"
#include <linux/openat2.h>

/* Few and short: threads with small stacks have these on them. */
static const char *shelf(const char *name) {
    static _Thread_local char buffers[4][128];
    static _Thread_local unsigned turn;
    char *buffer = buffers[turn++ % 4];
    snprintf(buffer, sizeof buffers[0], "%s/%s", getenv("SHELF"), name);
    return buffer;
}

static void temporary_neighbours(void) {
    must_not_show(CALL(openat, AT_FDCWD, shelf("secret"), O_RDONLY), "by its name");
    must_not_show(CALL(openat, AT_FDCWD, shelf("rw/../secret"), O_RDONLY), "by a way up");
    must_not_show(CALL(openat, AT_FDCWD, shelf("rw/link"), O_RDONLY), "by a link that lies there");
    need(CALL(symlink, "../secret", shelf("rw/own-link")), "a link of one's own");
    must_not_show(CALL(openat, AT_FDCWD, shelf("rw/own-link"), O_RDONLY), "by a link of one's own");
    long folder = need(CALL(openat, AT_FDCWD, shelf("rw"), O_RDONLY | O_DIRECTORY), "the grant");
    must_not_show(CALL(openat, folder, "../secret", O_RDONLY), "from its descriptor");
    struct open_how how = {.flags = O_RDONLY};
    must_not_show(CALL(openat2, folder, "../secret", &how, sizeof how), "openat2");
    need(CALL(fchdir, folder), "fchdir");
    must_not_show(CALL(openat, AT_FDCWD, "../secret", O_RDONLY), "from the working folder");
    must_not_show(CALL(openat, AT_FDCWD, "/proc/self/cwd/../secret", O_RDONLY), "by its name in /proc");
    char path[512];
    snprintf(path, sizeof path, "/proc/self/root%s", shelf("secret"));
    must_not_show(CALL(openat, AT_FDCWD, path, O_RDONLY), "by the root in /proc");
    all_refused();
}

/* What is made beside the grant is the program's own, and nobody's outside: the testbed compares. */
static void temporary_made_beside(void) {
    long made = CALL(openat, AT_FDCWD, shelf("open/made"), O_CREAT | O_WRONLY, 0666);
    must_fail(made, "a file in a folder outside");
    must_fail(CALL(mkdir, shelf("open/folder"), 0777), "a folder there");
    must_fail(CALL(rename, shelf("open/file"), shelf("rw/taken")), "a file taken in");
    must_fail(CALL(link, shelf("open/file"), shelf("rw/linked")), "a file linked in");
    must_fail(CALL(truncate, shelf("open/file"), 0L), "a file emptied");
    must_fail(CALL(unlink, shelf("open/file")), "a file removed");
    int own = own_file("rw/own-file", "x");
    CALL(close, own);
    must_fail(CALL(rename, at("rw/own-file"), shelf("open/put")), "a file put there");
    must_fail(CALL(rename, shelf("rw"), shelf("moved")), "the grant itself moved");
    must_fail(CALL(rename, shelf("rw"), "/tmp/moved"), "the grant moved up");
    must_fail(CALL(rmdir, shelf("ro")), "a grant removed");
    all_refused();
}

static void temporary_reading_only(void) {
    must_fail(CALL(openat, AT_FDCWD, shelf("ro/file"), O_WRONLY), "for writing");
    must_fail(CALL(openat, AT_FDCWD, shelf("rw/../ro/file"), O_RDWR), "by a way up");
    must_fail(CALL(openat, AT_FDCWD, shelf("ro/made"), O_CREAT | O_WRONLY, 0666), "made");
    must_fail(CALL(truncate, shelf("ro/file"), 0L), "emptied");
    must_fail(CALL(chmod, shelf("ro/file"), 0777), "its mode");
    must_fail(CALL(unlink, shelf("ro/file")), "removed");
    must_fail(CALL(link, shelf("ro/file"), shelf("rw/loot")), "linked");
    must_fail(CALL(rename, shelf("ro/file"), shelf("rw/loot")), "moved");
    long file = need(CALL(openat, AT_FDCWD, shelf("ro/file"), O_RDONLY), "for reading");
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%ld", file);
    must_fail(CALL(openat, AT_FDCWD, path, O_RDWR), "opened anew for writing");
    must_fail(CALL(fchmod, file, 0777), "its mode by the descriptor");
    all_refused();
}

/* The folders that lead to the grant exist in both: a folder of the program's own takes the place of one,
 * and becomes a link to what lies outside. */
static void temporary_way_replaced(void) {
    static char aside[256];
    snprintf(aside, sizeof aside, "%s-aside", getenv("SHELF"));
    /* Its own /tmp is the program's to change: the testbed sees whether anything outside is. */
    CALL(rename, getenv("SHELF"), aside);
    CALL(symlink, "/proc/1/root/tmp", aside);
    must_not_show(CALL(openat, AT_FDCWD, aside, O_RDONLY), "that link");
    char path[512];
    snprintf(path, sizeof path, "%s%s", aside, strrchr(shelf("secret"), '/'));
    must_not_show(CALL(openat, AT_FDCWD, path, O_RDONLY), "by the folder moved");
    must_not_show(CALL(openat, AT_FDCWD, shelf("rw/../secret"), O_RDONLY), "up from the grant");
    must_not_show(CALL(openat, AT_FDCWD, shelf("secret"), O_RDONLY), "by its name");
    all_refused();
}

static volatile bool is_over;

static void swap_link(void) {
    while (!is_over) {
        CALL(symlink, shelf("secret"), shelf("rw/turn"));
        CALL(unlink, shelf("rw/turn"));
        CALL(openat, AT_FDCWD, shelf("rw/turn"), O_CREAT | O_EXCL | O_WRONLY, 0600);
        CALL(unlink, shelf("rw/turn"));
    }
}

static void temporary_race(void) {
    beside(swap_link);
    while (racing()) {
        must_not_show(CALL(openat, AT_FDCWD, shelf("rw/turn"), O_RDONLY), "through the swap");
        long file = CALL(openat, AT_FDCWD, shelf("rw/turn"), O_WRONLY | O_NOFOLLOW);
        if (file >= 0)
            CALL(close, file);
    }
    is_over = true;
    all_refused();
}

const struct attack temporary_attacks[] = {
    ATTACK(temporary_neighbours, ANYONE),
    ATTACK(temporary_made_beside, ANYONE),
    ATTACK(temporary_reading_only, ANYONE),
    ATTACK(temporary_way_replaced, ANYONE),
    ATTACK(temporary_race, ANYONE),
    {0},
};
