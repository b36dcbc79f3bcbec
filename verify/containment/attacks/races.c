/* Components exchanged while a path is resolved: one thread swaps, the other tries.
 *
 * Sources: CVE-2018-15664 (docker cp), CVE-2021-30465 (runc), the renames that once led out of
 * bind mounts by ".." (Linux 4.3), and every open-then-check since access(2).
 */
#include "attack.h"

enum { EXCHANGE = 2 };

static void swap(const char *one, const char *other) {
    CALL(renameat2, AT_FDCWD, one, AT_FDCWD, other, EXCHANGE);
}

static void swap_folder(void) {
    for (;;)
        swap(at("rw/shifty"), at("rw/spare"));
}

/* `shifty` is by turns a folder of one's own and a link to the folder outside. */
static void folder_and_link(void) {
    need(CALL(mkdir, at("rw/shifty"), 0700), "mkdir");
    own_file("rw/shifty/secret", "harmless\n");
    own_file("rw/shifty/loose", "harmless\n");
    need(CALL(symlink, at("outside"), at("rw/spare")), "symlink");
}

static void race_folder_against_link(void) {
    folder_and_link();
    beside(swap_folder);
    while (racing())
        must_not_show(CALL(openat, AT_FDCWD, at("rw/shifty/secret"), O_RDONLY), "the link won");
    all_refused();
}

static void race_writes_against_link(void) {
    folder_and_link();
    beside(swap_folder);
    for (long turn = 0; racing(); turn++) {
        long file = CALL(openat, AT_FDCWD, at("rw/shifty/made"), O_CREAT | O_WRONLY, 0600);
        CALL(close, file);
        CALL(chmod, at("rw/shifty/loose"), 0777);
        CALL(truncate, at("rw/shifty/loose"), 0L);
        CALL(unlink, at("rw/shifty/loose"));
        CALL(rename, at("rw/shifty/secret"), at("rw/fetched"));
        must_not_show(CALL(openat, AT_FDCWD, at("rw/fetched"), O_RDONLY), "fetched by rename");
        CALL(rename, at("rw/fetched"), at("rw/shifty/secret"));
        CALL(link, at("rw/shifty/secret"), at("rw/linked"));
        must_not_show(CALL(openat, AT_FDCWD, at("rw/linked"), O_RDONLY), "fetched by link");
        CALL(unlink, at("rw/linked"));
    }
    long made = CALL(openat, AT_FDCWD, at("outside/made"), O_RDONLY);
    must_fail(made, "created through the link");
    all_refused();
}

static void swap_file(void) {
    for (;;)
        swap(at("rw/turncoat"), at("rw/coat"));
}

static void race_file_against_link(void) {
    own_file("rw/turncoat", "harmless\n");
    need(CALL(symlink, at("outside/secret"), at("rw/coat")), "symlink");
    beside(swap_file);
    while (racing()) {
        must_not_show(CALL(openat, AT_FDCWD, at("rw/turncoat"), O_RDONLY), "the link won");
        must_not_show(CALL(openat, AT_FDCWD, at("rw/turncoat"), O_RDONLY | O_NOFOLLOW), "the link won, not followed");
        must_not_show(CALL(openat, AT_FDCWD, at("rw/turncoat"), O_RDWR), "the link won for writing");
    }
    all_refused();
}

static void swap_to_readonly(void) {
    for (;;)
        swap(at("rw/target"), at("rw/other-target"));
}

/* A link into a read-only grant against a file of one's own: the rights must belong to the
 * file that is opened, not to the one that was looked at. */
static void race_into_readonly(void) {
    own_file("rw/target", "mine\n");
    need(CALL(symlink, at("ro/public"), at("rw/other-target")), "symlink");
    beside(swap_to_readonly);
    while (racing()) {
        char bytes[16] = "";
        long file = CALL(openat, AT_FDCWD, at("rw/target"), O_RDWR);
        if (file >= 0 && CALL(pread64, file, bytes, sizeof bytes, 0L) > 0 && !memcmp(bytes, "public", 6))
            escaped("a read-only file is open for writing");
        CALL(close, file);
    }
    all_refused();
}

static void swap_into_narrower(void) {
    for (;;)
        swap(at("data/shifty"), at("data/spare"));
}

/* Around a narrower grant names decide, as long as no link is followed: `shifty` is by turns a
 * folder of one's own and a link to what is granted for reading only. */
static void race_into_narrower_grant(void) {
    need(CALL(mkdir, at("data/shifty"), 0700), "mkdir");
    own_file("data/shifty/key", "mine\n");
    need(CALL(symlink, "sub/keys", at("data/spare")), "symlink");
    long folder = need(CALL(openat, AT_FDCWD, at("data"), O_RDONLY | O_DIRECTORY), "opening the grant");
    beside(swap_into_narrower);
    while (racing()) {
        CALL(close, CALL(openat, AT_FDCWD, at("data/shifty/made"), O_CREAT | O_WRONLY, 0600));
        CALL(close, CALL(openat, folder, "shifty/key", O_WRONLY | O_TRUNC));
        CALL(unlinkat, folder, "shifty/made", 0);
        CALL(mkdirat, folder, "shifty/folder", 0700);
        CALL(rename, at("data/shifty/key"), at("data/fetched"));
        char bytes[8] = "";
        long file = CALL(openat, folder, "fetched", O_RDONLY);
        if (file >= 0 && CALL(pread64, file, bytes, sizeof bytes, 0L) > 0 && !memcmp(bytes, "key", 3))
            escaped("a key was moved out of the narrower grant");
        CALL(close, file);
        CALL(rename, at("data/fetched"), at("data/shifty/key"));
    }
    must_fail(CALL(openat, AT_FDCWD, at("data/sub/keys/made"), O_RDONLY), "created through the link");
    must_fail(CALL(openat, AT_FDCWD, at("data/sub/keys/folder"), O_RDONLY), "a folder through the link");
    all_refused();
}

/* The folder in which ".." is looked up is moved to another depth meanwhile. */
static void move_up_and_down(void) {
    for (;;) {
        CALL(rename, at("rw/a/b/deep"), at("rw/deep"));
        CALL(rename, at("rw/deep"), at("rw/a/b/deep"));
    }
}

static void race_dotdot_against_rename(void) {
    need(CALL(mkdir, at("rw/a"), 0700), "mkdir");
    need(CALL(mkdir, at("rw/a/b"), 0700), "mkdir");
    need(CALL(mkdir, at("rw/a/b/deep"), 0700), "mkdir");
    long folder = need(CALL(openat, AT_FDCWD, at("rw/a/b/deep"), O_RDONLY | O_DIRECTORY), "opening it");
    beside(move_up_and_down);
    while (racing()) {
        must_not_show(CALL(openat, folder, "../../../outside/secret", O_RDONLY), "three up");
        must_not_show(CALL(openat, folder, "../../outside/secret", O_RDONLY), "two up");
        must_not_show(CALL(openat, AT_FDCWD, at("rw/a/b/deep/../../../../outside/secret"), O_RDONLY), "by path");
    }
    all_refused();
}

/* One number, two folders by turns: the right looked up for one must not serve the other. */
static long number, writable, readonly;

static void swap_descriptor(void) {
    for (;;) {
        CALL(dup2, writable, number);
        CALL(dup2, readonly, number);
    }
}

static void open_both_folders(void) {
    own_file("rw/public", "mine\n");
    writable = need(CALL(openat, AT_FDCWD, at("rw"), O_RDONLY | O_DIRECTORY), "opening the grant");
    readonly = need(CALL(openat, AT_FDCWD, at("ro"), O_RDONLY | O_DIRECTORY), "opening the read-only grant");
    number = need(CALL(dup, writable), "dup");
}

static void judge_opened(long file) {
    char bytes[16] = "";
    if (file >= 0 && CALL(pread64, file, bytes, sizeof bytes, 0L) > 0 && !memcmp(bytes, "public", 6))
        escaped("a read-only file is open for writing");
    CALL(close, file);
}

static void race_folder_descriptor(void) {
    open_both_folders();
    beside(swap_descriptor);
    for (long turn = 0; racing(); turn++) {
        judge_opened(CALL(openat, number, "public", O_RDWR));
        if (CALL(unlinkat, number, "sub/../note", 0) == 0 || CALL(unlinkat, number, "note", 0) == 0)
            escaped("a read-only file was unlinked");
    }
    all_refused();
}

static void swap_working_folder(void) {
    for (;;) {
        CALL(fchdir, writable);
        CALL(fchdir, readonly);
    }
}

static void race_working_folder(void) {
    open_both_folders();
    beside(swap_working_folder);
    while (racing()) {
        judge_opened(CALL(openat, AT_FDCWD, "public", O_RDWR));
        if (CALL(truncate, "note", 0L) == 0 || CALL(chmod, "note", 0777) == 0)
            escaped("a read-only file was changed");
    }
    all_refused();
}

const struct attack race_attacks[] = {
    ATTACK(race_folder_against_link, ANYONE),
    ATTACK(race_writes_against_link, ANYONE),
    ATTACK(race_file_against_link, ANYONE),
    ATTACK(race_into_readonly, ANYONE),
    ATTACK(race_into_narrower_grant, ANYONE),
    ATTACK(race_dotdot_against_rename, ANYONE),
    ATTACK(race_folder_descriptor, ANYONE),
    ATTACK(race_working_folder, ANYONE),
    {0},
};
