/* What may only be looked at (:stat): nothing of its content, its attributes' values or its folder's list. */
#include "attack.h"
#include <linux/openat2.h>
#include <sys/inotify.h>

/* One alone, and one within a grant for writing. */
static const char *const hidden[] = {"shown/secret", "data/looked/secret"};
static const char *const folders[] = {"shown", "data/looked"};

static void looked_read_by_name(void) {
    for (int i = 0; i < 2; i++) {
        must_not_show(CALL(openat, AT_FDCWD, at(hidden[i]), O_RDONLY), "opened");
        must_not_show(CALL(openat, AT_FDCWD, at(hidden[i]), O_RDONLY | O_CREAT, 0600), "opened as if to make it");
        must_fail(CALL(openat, AT_FDCWD, at(hidden[i]), O_RDWR), "opened for both");
        must_fail(CALL(openat, AT_FDCWD, at(hidden[i]), O_WRONLY | O_TRUNC), "emptied");
        must_fail(CALL(openat, AT_FDCWD, at(folders[i]), O_RDONLY | O_DIRECTORY), "its folder listed");
        need(CALL(symlink, at(hidden[i]), at(i ? "rw/to-two" : "rw/to-one")), "symlink");
        must_not_show(CALL(openat, AT_FDCWD, at(i ? "rw/to-two" : "rw/to-one"), O_RDONLY), "opened by a link");
        need(CALL(symlink, at(folders[i]), at(i ? "rw/in-two" : "rw/in-one")), "symlink");
        must_not_show(CALL(openat, AT_FDCWD, at(i ? "rw/in-two/secret" : "rw/in-one/secret"), O_RDONLY), "by its folder's link");
        need(CALL(chdir, at(folders[i])), "chdir");
        must_not_show(CALL(openat, AT_FDCWD, "secret", O_RDONLY), "opened in the working folder");
        must_fail(CALL(openat, AT_FDCWD, ".", O_RDONLY), "the working folder listed");
    }
    need(CALL(chdir, at("data")), "chdir");
    must_not_show(CALL(openat, AT_FDCWD, "looked/secret", O_RDONLY), "from the wider grant");
    must_not_show(CALL(openat, AT_FDCWD, "sub/../looked/secret", O_RDONLY), "by a way up");
    all_refused();
}

static void looked_read_by_descriptor(void) {
    char path[64];
    for (int i = 0; i < 2; i++) {
        long file = CALL(openat, AT_FDCWD, at(hidden[i]), O_PATH);
        long folder = CALL(openat, AT_FDCWD, at(folders[i]), O_PATH | O_DIRECTORY);
        need(file, "a descriptor by path only");
        need(folder, "a folder by path only");
        snprintf(path, sizeof path, "/proc/self/fd/%ld", file);
        must_not_show(CALL(openat, AT_FDCWD, path, O_RDONLY), "opened anew");
        must_not_show(CALL(openat, folder, "secret", O_RDONLY), "opened in its folder");
        must_fail(CALL(openat, folder, ".", O_RDONLY), "the folder opened anew");
        must_fail(CALL(linkat, file, "", AT_FDCWD, at("rw/loot"), AT_EMPTY_PATH), "linked by its descriptor");
        must_fail(CALL(linkat, AT_FDCWD, path, AT_FDCWD, at("rw/loot"), AT_SYMLINK_FOLLOW), "linked by its name in /proc");
        struct open_how how = {.flags = O_RDONLY, .resolve = RESOLVE_BENEATH};
        must_not_show(CALL(openat2, folder, "secret", &how, sizeof how), "openat2 in its folder");
        char value[128];
        must_fail(CALL(getxattr, path, "user.word", value, sizeof value), "an attribute by its name in /proc");
    }
    long data = CALL(openat, AT_FDCWD, at("data"), O_RDONLY | O_DIRECTORY);
    struct open_how how = {.flags = O_RDONLY, .resolve = RESOLVE_BENEATH};
    must_not_show(CALL(openat2, data, "looked/secret", &how, sizeof how), "openat2 in the wider grant");
    must_not_show(CALL(openat, data, "looked/secret", O_RDONLY), "in the wider grant");
    all_refused();
}

static void looked_moved_and_described(void) {
    char value[128];
    for (int i = 0; i < 2; i++) {
        must_fail(CALL(getxattr, at(hidden[i]), "user.word", value, sizeof value), "an attribute's value");
        must_fail(CALL(link, at(hidden[i]), at("rw/loot")), "linked");
        must_fail(CALL(rename, at(hidden[i]), at("rw/loot")), "moved");
        must_fail(CALL(rename, at(folders[i]), at("rw/folder")), "its folder moved");
        must_fail(CALL(chmod, at(hidden[i]), 0777), "given a mode");
        must_fail(CALL(truncate, at(hidden[i]), 0L), "emptied");
        must_fail(CALL(unlink, at(hidden[i])), "removed");
        long watch = CALL(inotify_init1, 0);
        must_fail(CALL(inotify_add_watch, watch, at(folders[i]), IN_ALL_EVENTS), "watched");
    }
    all_refused();
}

const struct attack look_attacks[] = {
    ATTACK(looked_read_by_name, ANYONE),
    ATTACK(looked_read_by_descriptor, ANYONE),
    ATTACK(looked_moved_and_described, ANYONE),
    {0},
};
