/* Changing what was granted for reading: by descriptor, by mapping, by attribute, by lock.
 *
 * A descriptor that is open for reading is no fence by itself: fchmod(2), futimens(2),
 * fsetxattr(2) and several ioctls ask only who owns the file. A read-only mount refuses them.
 */
#include "attack.h"
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>

static long granted(void) { return need(CALL(openat, AT_FDCWD, at("ro/public"), O_RDONLY), "opening a granted file"); }

static void readonly_by_name(void) {
    struct timespec times[2] = {{0, 0}, {0, 0}};
    must_fail(CALL(openat, AT_FDCWD, at("ro/public"), O_WRONLY), "opened for writing");
    must_fail(CALL(openat, AT_FDCWD, at("ro/public"), O_RDONLY | O_TRUNC), "truncated while opened for reading");
    must_fail(CALL(openat, AT_FDCWD, at("ro/public"), O_ACCMODE), "opened with both access bits");
    must_fail(CALL(openat, AT_FDCWD, at("ro/made"), O_RDONLY | O_CREAT, 0600), "created while opened for reading");
    must_fail(CALL(openat, AT_FDCWD, at("ro"), O_TMPFILE | O_RDWR, 0600), "a nameless file");
    must_fail(CALL(truncate, at("ro/public"), 0L), "truncate");
    must_fail(CALL(chmod, at("ro/public"), 0777), "chmod");
    must_fail(CALL(lchown, at("ro/public"), getuid(), getgid()), "lchown");
    must_fail(CALL(utimensat, AT_FDCWD, at("ro/public"), times, 0), "utimensat");
    must_fail(CALL(setxattr, at("ro/public"), "user.mark", "x", 1L, 0), "setxattr");
    must_fail(CALL(unlink, at("ro/note")), "unlink");
    must_fail(CALL(link, at("ro/public"), at("ro/again")), "link");
    all_refused();
}

static void readonly_by_descriptor(void) {
    long file = granted();
    struct timespec times[2] = {{0, 0}, {0, 0}};
    must_fail(CALL(fchmod, file, 0777), "fchmod");
    must_fail(CALL(fchown, file, getuid(), getgid()), "fchown");
    must_fail(CALL(utimensat, file, 0L, times, 0), "futimens");
    must_fail(CALL(utimensat, file, "", times, AT_EMPTY_PATH), "utimensat of the descriptor");
    must_fail(CALL(fchownat, file, "", getuid(), getgid(), AT_EMPTY_PATH), "fchownat of the descriptor");
    must_fail(raw(452, (const long[6]){file, (long)"", 0777, AT_EMPTY_PATH}), "fchmodat2 of the descriptor");
    must_fail(CALL(fsetxattr, file, "user.mark", "x", 1L, 0), "fsetxattr");
    must_fail(CALL(fremovexattr, file, "user.word"), "fremovexattr");
    must_fail(CALL(ftruncate, file, 0L), "ftruncate");
    must_fail(CALL(fallocate, file, 0, 0L, 4096L), "fallocate");
    must_fail(CALL(write, file, "x", 1L), "write");
    long folder = need(CALL(openat, AT_FDCWD, at("ro"), O_RDONLY | O_DIRECTORY), "opening the grant");
    must_fail(CALL(fchmod, folder, 0777), "fchmod of the folder");
    must_fail(CALL(utimensat, folder, 0L, times, 0), "futimens of the folder");
    all_refused();
}

static void readonly_by_ioctl(void) {
    long file = granted(), mine = own_file("rw/clone", "mine\n");
    long flags = FS_NODUMP_FL;
    struct fsxattr attributes = {.fsx_xflags = FS_XFLAG_NODUMP};
    struct file_clone_range range = {.src_fd = mine};
    must_fail(CALL(ioctl, file, FS_IOC_SETFLAGS, &flags), "FS_IOC_SETFLAGS");
    must_fail(CALL(ioctl, file, FS_IOC_FSSETXATTR, &attributes), "FS_IOC_FSSETXATTR");
    must_fail(CALL(ioctl, file, 0x40086602L | (0x7fL << 32), &flags), "FS_IOC_SETFLAGS with high bits");
    must_fail(CALL(ioctl, file, FICLONE, mine), "FICLONE");
    must_fail(CALL(ioctl, file, FICLONERANGE, &range), "FICLONERANGE");
    must_fail(raw(469, (const long[6]){file, (long)"", (long)&attributes, sizeof attributes, AT_EMPTY_PATH}), "file_setattr");
    long version = 7;
    must_fail(CALL(ioctl, file, 0x40087602L /* FS_IOC_SETVERSION */, &version), "FS_IOC_SETVERSION");
    must_fail(CALL(copy_file_range, mine, 0L, file, 0L, 4L, 0), "copy_file_range");
    must_fail(CALL(sendfile, file, mine, 0L, 4L), "sendfile");
    all_refused();
}

static void readonly_by_mapping(void) {
    long file = granted();
    long shared = CALL(mmap, 0L, 4096L, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0L);
    must_fail(shared >= 0 || shared < -4095 ? 0 : shared, "mapped shared and writable");
    char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, (int)file, 0);
    need(page == MAP_FAILED ? -errno : 0, "mapping a granted file");
    must_fail(CALL(mprotect, page, 4096L, PROT_READ | PROT_WRITE), "mprotect");
    must_fail(CALL(madvise, page, 4096L, MADV_REMOVE), "MADV_REMOVE");
    long memory = CALL(openat, AT_FDCWD, "/proc/self/mem", O_RDWR);
    if (memory >= 0)
        must_fail(CALL(pwrite64, memory, "x", 1L, page), "written by /proc/self/mem");
    all_refused();
}

/* The name of an open descriptor in /proc opens the file anew, with other rights. */
static void descriptor_reopened(void) {
    static const char *const forms[] = {"/proc/self/fd/%ld", "/proc/thread-self/fd/%ld", "/dev/fd/%ld"};
    char path[64];
    for (int way = 0; way < 2; way++)
        for (int form = 0; form < 3; form++) {
            long file = way ? open_path(at("ro/public")) : granted();
            snprintf(path, sizeof path, forms[form], file);
            must_fail(CALL(openat, AT_FDCWD, path, O_WRONLY), "reopened for writing");
            must_fail(CALL(openat, AT_FDCWD, path, O_RDONLY | O_TRUNC), "truncated by reopening");
            must_fail(CALL(truncate, path, 0L), "truncated by its name in /proc");
            must_fail(CALL(chmod, path, 0777), "mode changed by its name in /proc");
            must_fail(CALL(setxattr, path, "user.mark", "x", 1L, 0), "attribute set by its name in /proc");
            must_fail(CALL(linkat, AT_FDCWD, path, AT_FDCWD, at("rw/linked"), AT_SYMLINK_FOLLOW), "linked by its name in /proc");
            must_fail(CALL(openat, file, "", O_WRONLY | AT_EMPTY_PATH), "reopened by the empty path");
        }
    all_refused();
}

/* A second name of a read-only file where names may be written would make it writable. */
static void readonly_linked_into_writable(void) {
    long file = granted();
    must_fail(CALL(link, at("ro/public"), at("rw/linked")), "linked");
    must_fail(CALL(linkat, file, "", AT_FDCWD, at("rw/linked2"), AT_EMPTY_PATH), "linked by its descriptor");
    must_fail(CALL(rename, at("ro/public"), at("rw/renamed")), "renamed");
    must_fail(CALL(rename, at("rw/own"), at("ro/public")), "covered");
    must_fail(CALL(renameat2, AT_FDCWD, at("rw/own"), AT_FDCWD, at("ro/public"), 2), "exchanged");
    must_fail(CALL(link, at("rw/own"), at("ro/added")), "linked into the read-only grant");
    all_refused();
}

/* A lock or a lease on a file that one may only read makes those wait who may write it. */
static void outsiders_kept_waiting(void) {
    long file = granted();
    struct flock range = {.l_type = F_WRLCK};
    must_fail(CALL(flock, file, LOCK_EX | LOCK_NB), "flock for oneself alone");
    must_fail(CALL(fcntl, file, F_SETLK, &range), "a write lock");
    must_fail(CALL(fcntl, file, F_OFD_SETLK, &range), "a write lock of the description");
    must_fail(CALL(fcntl, file, F_SETLEASE, F_RDLCK), "a lease");
    must_fail(CALL(fcntl, file, F_SETLEASE, F_WRLCK), "a lease for writing");
    all_refused();
}

/* A folder's descriptor that was opened for reading makes nothing in it. */
static void readonly_folder_descriptor(void) {
    long folder = open_path(at("ro"));
    must_fail(CALL(openat, folder, "made", O_CREAT | O_WRONLY, 0600), "created");
    must_fail(CALL(openat, folder, "public", O_WRONLY), "opened for writing");
    must_fail(CALL(mkdirat, folder, "made", 0700), "mkdirat");
    must_fail(CALL(unlinkat, folder, "note", 0), "unlinkat");
    must_fail(CALL(symlinkat, "/", folder, "made"), "symlinkat");
    must_fail(CALL(mknodat, folder, "made", S_IFIFO | 0600, 0), "mknodat");
    must_fail(CALL(renameat, folder, "public", folder, "private"), "renameat");
    must_fail(CALL(fchmodat, folder, "public", 0777), "fchmodat");
    need(CALL(chdir, at("ro")), "chdir");
    must_fail(CALL(creat, "made", 0600), "created in the working folder");
    must_fail(CALL(rename, "public", "private"), "renamed in the working folder");
    all_refused();
}

const struct attack readonly_attacks[] = {
    ATTACK(readonly_by_name, ANYONE),
    ATTACK(readonly_by_descriptor, ANYONE),
    ATTACK(readonly_by_ioctl, ANYONE),
    ATTACK(readonly_by_mapping, NEVER), /* the kernel's own rule: nothing to prove without a fence */
    ATTACK(descriptor_reopened, ANYONE),
    ATTACK(readonly_linked_into_writable, ANYONE),
    ATTACK(outsiders_kept_waiting, ANYONE),
    ATTACK(readonly_folder_descriptor, ANYONE),
    {0},
};
