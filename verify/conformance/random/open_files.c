/* Operations on open files: the model holds each file's bytes, so every read is compared whole. */
#include "open_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint8_t bytes[BYTES_MAX];

static void closes(struct process *process, int at)
{
    struct slot *slot = &process->shared->slots[process->number][at];
    if (slot->node == NONE)
        return;
    close(process->fds[at]);
    process->shared->model.nodes[slot->node].opens--;
    model_release(&process->shared->model, slot->node);
    slot->node = NONE;
}

/* What open(2) answers for an existing node. */
static int existing(const struct model *model, int node, int flags)
{
    int writes = (flags & O_ACCMODE) != O_RDONLY;
    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        return EEXIST;
    if (model->nodes[node].kind == LINK)
        return flags & O_DIRECTORY ? ENOTDIR : ELOOP;
    if (model->nodes[node].kind == FOLDER)
        return flags & O_CREAT || writes || flags & O_TRUNC ? EISDIR : 0;
    return flags & O_DIRECTORY ? ENOTDIR : 0;
}

/* What open(2) answers, and the node, which it may have made. */
static int expected_open(struct model *model, const struct path *path, int flags, int *node)
{
    int follow = !(flags & O_NOFOLLOW) && (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL);
    struct place place = model_find(model, path, follow);
    *node = place.node;
    if (place.error)
        return place.error;
    if (place.node != NONE)
        return existing(model, place.node, flags);
    if (!(flags & O_CREAT))
        return ENOENT;
    *node = model_make(model, &place, FILE_, 0640);
    return *node == NONE ? ENFILE : 0;
}

int open_one(struct process *process, const struct path *path, int dir, const char *text)
{
    static const int modes[] = {O_RDONLY, O_RDONLY, O_RDWR, O_WRONLY};
    static const int more[] = {0, 0, O_CREAT, O_CREAT, O_CREAT | O_EXCL, O_TRUNC, O_CREAT | O_TRUNC, O_NOFOLLOW,
                               O_CREAT | O_NOFOLLOW, O_DIRECTORY, O_APPEND, O_CREAT | O_APPEND};
    struct shared *shared = process->shared;
    struct model *model = &shared->model;
    int at = drawn(shared, SLOTS), node, fd;
    int flags = modes[drawn(shared, 4)];
    flags |= more[drawn(shared, sizeof more / sizeof *more)];
    closes(process, at);
    int expected = expected_open(model, path, flags, &node);
    if (expected == ENFILE)
        return 1;
    fd = openat(dir, text, flags | O_CLOEXEC, 0640);
    if (!agrees(process, "open", text, expected, fd < 0 ? errno : 0) || fd < 0)
        return fd < 0 && expected;
    if (model->nodes[node].kind != FILE_)
        return close(fd) == 0;
    if (flags & O_TRUNC)
        model_resize(&model->nodes[node], 0);
    model->nodes[node].opens++;
    int mode = flags & O_ACCMODE;
    shared->slots[process->number][at] = (struct slot){node, mode != O_WRONLY, mode != O_RDONLY, !!(flags & O_APPEND), 0};
    process->fds[at] = fd;
    return 1;
}

/* Compares what a read brought with the file's bytes. */
static int content_agrees(struct process *process, const char *what, const struct node *file, uint32_t offset, uint32_t asked, ssize_t got)
{
    uint32_t left = offset < file->size ? file->size - offset : 0, expected = asked < left ? asked : left;
    if (got == (ssize_t)expected && (!got || memcmp(bytes, file->bytes + offset, got) == 0))
        return 1;
    printf("operation %lu, process %d, %s at %u of %u: %zd bytes, expected %u of a file of %u%s\n", (unsigned long)process->shared->done,
           process->number, what, offset, asked, got, expected, file->size, got == (ssize_t)expected ? ", other bytes" : "");
    return 0;
}

static int reads(struct process *process, struct slot *slot, int fd, int positioned)
{
    struct node *file = &process->shared->model.nodes[slot->node];
    uint32_t offset = positioned ? drawn(process->shared, BYTES_MAX) : slot->offset;
    uint32_t asked = drawn(process->shared, 8) ? drawn(process->shared, 300) : drawn(process->shared, BYTES_MAX);
    ssize_t got = positioned ? pread(fd, bytes, asked, offset) : read(fd, bytes, asked);
    if (!slot->reads)
        return agrees(process, "read", "", EBADF, got < 0 ? errno : 0);
    if (!positioned && got > 0)
        slot->offset += got;
    return content_agrees(process, positioned ? "pread" : "read", file, offset, asked, got);
}

static int writes(struct process *process, struct slot *slot, int fd, int positioned)
{
    struct shared *shared = process->shared;
    struct node *file = &shared->model.nodes[slot->node];
    uint32_t offset = positioned ? drawn(shared, BYTES_MAX) : slot->offset, count = drawn(shared, 8) ? drawn(shared, 300) : drawn(shared, 5000);
    if (slot->appends)
        offset = file->size;
    if (offset + count > BYTES_MAX)
        count = offset > BYTES_MAX ? 0 : BYTES_MAX - offset;
    memset(bytes, 1 + (int)drawn(shared, 255), count);
    ssize_t put = positioned ? pwrite(fd, bytes, count, offset) : write(fd, bytes, count);
    if (!agrees(process, "write", "", slot->writes ? 0 : EBADF, put < 0 ? errno : 0) || put < 0)
        return put < 0 && !slot->writes;
    memcpy(file->bytes + offset, bytes, count);
    if (count && offset + count > file->size)
        file->size = offset + count;
    /* An append moves the offset of write(2) to the end, and pwrite(2) moves nothing. */
    if (!positioned)
        slot->offset = count || !slot->appends ? offset + count : slot->offset;
    return put == (ssize_t)count;
}

static int maps(struct process *process, struct slot *slot, int fd)
{
    struct shared *shared = process->shared;
    struct node *file = &shared->model.nodes[slot->node];
    int writes_too = drawn(shared, 2) && slot->writes;
    if (!file->size)
        return 1;
    uint32_t at = drawn(shared, file->size), count = drawn(shared, file->size - at + 1);
    uint8_t *memory = mmap(NULL, file->size, writes_too ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    int error = memory == MAP_FAILED ? errno : 0;
    if (!agrees(process, "mmap", "", slot->reads ? 0 : EACCES, error) || error)
        return error && !slot->reads;
    memcpy(bytes, memory + at, count);
    int same = content_agrees(process, "mapping", file, at, count, count);
    if (writes_too) {
        memset(memory + at, 7, count);
        memset(file->bytes + at, 7, count);
    }
    munmap(memory, file->size);
    return same;
}

static int seeks(struct process *process, struct slot *slot, int fd)
{
    struct node *file = &process->shared->model.nodes[slot->node];
    int whence = drawn(process->shared, 3);
    long by = (long)drawn(process->shared, 2000) - 1000, from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? slot->offset : file->size;
    long to = from + by;
    off_t got = lseek(fd, by, whence);
    if (!agrees(process, "lseek", "", to < 0 ? EINVAL : 0, got < 0 ? errno : 0))
        return 0;
    if (to >= 0)
        slot->offset = to;
    return got < 0 || got == to;
}

static int changes(struct process *process, struct slot *slot, int fd, int which)
{
    struct node *file = &process->shared->model.nodes[slot->node];
    struct stat status;
    uint32_t size;
    switch (which) {
    case 0:
        size = drawn(process->shared, BYTES_MAX);
        if (slot->writes)
            model_resize(file, size);
        return agrees(process, "ftruncate", "", slot->writes ? 0 : EINVAL, ftruncate(fd, size) ? errno : 0);
    case 1:
        file->mode = 0600 | drawn(process->shared, 0100);
        return agrees(process, "fchmod", "", 0, fchmod(fd, file->mode) ? errno : 0);
    default:
        return fstat(fd, &status) == 0 && status_agrees(process, "fstat", slot->node, &status);
    }
}

int use_one(struct process *process)
{
    int at = drawn(process->shared, SLOTS), which = drawn(process->shared, 100), fd = process->fds[at];
    struct slot *slot = &process->shared->slots[process->number][at];
    if (slot->node == NONE)
        return 1;
    if (which < 45)
        return reads(process, slot, fd, which < 30);
    if (which < 65)
        return writes(process, slot, fd, which < 55);
    if (which < 72)
        return maps(process, slot, fd);
    if (which < 82)
        return seeks(process, slot, fd);
    if (which < 98)
        return changes(process, slot, fd, which % 3);
    closes(process, at);
    return 1;
}
