/* Files. Part of heliostat_lean.h, which is the one to include. */
#ifndef HELIOSTAT_LEAN_FILES_H
#define HELIOSTAT_LEAN_FILES_H

/* ---- Files ---- */

/* Copies a name into scratch memory as a piece; one that is too long has no bytes, and is refused. */
HL_FN hl_piece hl_name(const hl_lean *lean, uint8_t *scratch, const char *name, uint32_t most)
{
    uint32_t bytes = 0;
    while (bytes < most && name[bytes]) {
        scratch[bytes] = (uint8_t)name[bytes];
        bytes++;
    }
    return hl_piece_at(lean, scratch, name[bytes] ? 0 : bytes);
}

/* Asks what is about one name, or two; the result of Open has a generation. */
HL_FN int64_t hl_do_name(hl_lean *lean, uint32_t kind, const char *name, const char *other, uint64_t argument, hl_result *result)
{
    hl_operation asked = hl_operation_of(kind, hl_nothing());
    hl_ticket ticket;
    uint32_t most = other ? HL_SCRATCH_BYTES / 2 : HL_SCRATCH_BYTES, i;
    int error = hl_take_slot(lean, HL_FILES, 0, &ticket);
    if (error) return error;
    asked.argument = argument;
    asked.pieces = other ? 2 : 1;
    asked.piece[0] = hl_name(lean, hl_scratch(lean, ticket), name, most);
    if (other) asked.piece[1] = hl_name(lean, hl_scratch(lean, ticket) + most, other, most);
    for (i = 0; i < asked.pieces; i++) {
        if (asked.piece[i].bytes) continue;
        hl_free_slot(lean, ticket);
        return (i ? other : name)[0] ? -HL_ENAMETOOLONG : -HL_ENOENT;
    }
    error = hl_submit(lean, &asked, &ticket, 1);
    return error ? error : hl_finish(lean, ticket, result);
}

/* An index and its generation become an object, which is none after an error: 0, or the errno. */
HL_FN int64_t hl_opened(int64_t value, const hl_result *result, hl_object *object)
{
    object->index = value < 0 ? 0xffffffffu : (uint32_t)value;
    object->generation = value < 0 ? 0 : result->generation;
    return value < 0 ? value : 0;
}

/* Opens a file by its absolute name: flags HL_READ, HL_WRITE and others; permissions with HL_CREATE. */
HL_FN int64_t hl_open(hl_lean *lean, const char *name, uint32_t flags, uint32_t permissions, hl_object *file)
{
    uint64_t argument = flags | (flags & HL_CREATE ? (uint64_t)(permissions & 07777) << HL_MODE_SHIFT : 0);
    hl_result result = {0, 0, 0};
    int64_t value = hl_do_name(lean, HL_OP_OPEN, name, (const char *)0, argument, &result);
    return hl_opened(value, &result, file);
}
/* Makes a file, or empties the one that is there, for reading and writing. */
HL_FN int64_t hl_create(hl_lean *lean, const char *name, uint32_t permissions, hl_object *file)
{
    return hl_open(lean, name, HL_READ | HL_WRITE | HL_CREATE | HL_TRUNCATE, permissions, file);
}
HL_FN int64_t hl_mkdir(hl_lean *lean, const char *name, uint32_t permissions)
{
    return hl_do_name(lean, HL_OP_MKDIR, name, (const char *)0, permissions & 07777, (hl_result *)0);
}
HL_FN int64_t hl_rmdir(hl_lean *lean, const char *name)
{
    return hl_do_name(lean, HL_OP_RMDIR, name, (const char *)0, 0, (hl_result *)0);
}
HL_FN int64_t hl_unlink(hl_lean *lean, const char *name)
{
    return hl_do_name(lean, HL_OP_UNLINK, name, (const char *)0, 0, (hl_result *)0);
}
/* Gives a file another name, and replaces what has it in one step, or nothing with HL_NOREPLACE. Each
 * name has 2,048 bytes at most. */
HL_FN int64_t hl_rename(hl_lean *lean, const char *from, const char *to, uint32_t flags)
{
    return hl_do_name(lean, HL_OP_RENAME, from, to, flags, (hl_result *)0);
}
/* Reads at an offset into the window: bytes, fewer than asked at the file's end only. */
HL_FN int64_t hl_read(hl_lean *lean, hl_object file, uint64_t offset, void *into, uint64_t bytes)
{
    hl_operation asked = hl_transfer(lean, HL_OP_READ, file, offset, into, bytes);
    return bytes ? hl_do(lean, HL_FILES, &asked) : 0;
}
/* Writes from the window at an offset. */
HL_FN int64_t hl_write(hl_lean *lean, hl_object file, uint64_t offset, const void *from, uint64_t bytes)
{
    hl_operation asked = hl_transfer(lean, HL_OP_WRITE, file, offset, from, bytes);
    return bytes ? hl_do(lean, HL_FILES, &asked) : 0;
}
/* Writes at the file's end, wherever that is then. */
HL_FN int64_t hl_append(hl_lean *lean, hl_object file, const void *from, uint64_t bytes)
{
    hl_operation asked = hl_transfer(lean, HL_OP_APPEND, file, 0, from, bytes);
    return bytes ? hl_do(lean, HL_FILES, &asked) : 0;
}
/* ---- Whole small files: open, read and close in one operation ---- */

typedef struct hl_fetch {
    const char *name;
    uint64_t offset;
    void *into; /* in the window */
    uint64_t bytes;
    hl_ticket ticket;
    int64_t value; /* an error before it was asked, or 0 */
} hl_fetch;

/* A slot for each file, or for none of them: threads that keep some while they wait for others would
 * wait for each other. Who got too few stays away for longer each time, up to a bound. 0, or minus an
 * errno. */
HL_FN int hl_fetch_slots(hl_lean *lean, hl_fetch *each, uint32_t count)
{
    uint32_t has, pause, pauses = 1;
    if (!lean->rings[HL_FILES]) return -HL_ENOTSUP;
    for (;;) {
        for (has = 0; has < count && hl_try_slot(lean, HL_FILES, 0, &each[has].ticket);) has++;
        if (has == count) return 0;
        while (has > 0) hl_free_slot(lean, each[--has].ticket);
        if (hl_is_over(lean, lean->queue[HL_FILES])) return -HL_ESHUTDOWN;
        hl_collect(lean, HL_FILES);
        for (pause = 0; pause < pauses; pause++) HL_PAUSE();
        if (pauses < HL_PAUSES_MAX) pauses *= 2;
    }
}

/* Asks that files be read, HL_FETCHES at most, with one bell: 0, -EINVAL for more, -ENOTSUP for a worker
 * without files, or -ESHUTDOWN. Unless it fails, each has to be ended, with hl_fetch_end. Any number of
 * threads may do so at once. One that asks for more before it has ended these waits while it keeps slots:
 * then all threads together have fewer than HL_SLOTS under way, or they might wait for each other. */
HL_FN int hl_fetch_begin(hl_lean *lean, hl_fetch *each, uint32_t count)
{
    hl_operation asked[8];
    hl_ticket tickets[8];
    uint32_t at, filled = 0;
    int error = count > HL_FETCHES ? -HL_EINVAL : hl_fetch_slots(lean, each, count);
    for (at = 0; at < count && !error; at++) {
        hl_fetch *one = &each[at];
        hl_operation *own = &asked[filled];
        one->value = 0;
        *own = hl_transfer(lean, HL_OP_FETCH, hl_nothing(), one->offset, one->into, one->bytes);
        own->piece[1] = own->piece[0];
        own->piece[0] = hl_name(lean, hl_scratch(lean, one->ticket), one->name, HL_SCRATCH_BYTES);
        own->pieces = 2;
        if (!own->piece[0].bytes) {
            one->value = one->name[0] ? -HL_ENAMETOOLONG : -HL_ENOENT;
            hl_free_slot(lean, one->ticket);
        } else {
            tickets[filled++] = one->ticket;
        }
        if (filled == 8 || (filled && at + 1 == count)) {
            error = hl_submit(lean, asked, tickets, filled);
            filled = 0;
        }
    }
    return error;
}
/* Waits until a file was read: bytes, fewer than asked at its end only and HL_FETCH_BYTES_MAX at most.
 * -EOPNOTSUPP where a file has to be opened to be read: names have a rate, say. */
HL_FN int64_t hl_fetch_end(hl_lean *lean, const hl_fetch *one)
{
    return one->value ? one->value : hl_finish(lean, one->ticket, (hl_result *)0);
}
HL_FN int64_t hl_fetch_file(hl_lean *lean, const char *name, uint64_t offset, void *into, uint64_t bytes)
{
    hl_fetch one = {name, offset, into, bytes, {0, 0}, 0};
    int error = hl_fetch_begin(lean, &one, 1);
    return error ? error : hl_fetch_end(lean, &one);
}

/* An operation on an object without a place in the window. */
HL_FN int64_t hl_do_plain(hl_lean *lean, uint32_t which, uint32_t kind, hl_object object, uint64_t argument)
{
    hl_operation asked = hl_operation_of(kind, object);
    asked.argument = argument;
    return hl_do(lean, which, &asked);
}
/* What was written before is on the disk when it returns. */
HL_FN int64_t hl_fsync(hl_lean *lean, hl_object file) { return hl_do_plain(lean, HL_FILES, HL_OP_FSYNC, file, 0); }
HL_FN int64_t hl_truncate(hl_lean *lean, hl_object file, uint64_t length)
{
    return hl_do_plain(lean, HL_FILES, HL_OP_TRUNCATE, file, length);
}
/* HL_SHARED, HL_ALONE or HL_UNLOCK, with HL_NOW without a wait. */
HL_FN int64_t hl_lock(hl_lean *lean, hl_object file, uint32_t how) { return hl_do_plain(lean, HL_FILES, HL_OP_LOCK, file, how); }
HL_FN int64_t hl_close(hl_lean *lean, hl_object file) { return hl_do_plain(lean, HL_FILES, HL_OP_CLOSE, file, 0); }

/* Asks with a small structure of words in scratch memory, which goes there and comes back. */
HL_FN int64_t hl_do_small(hl_lean *lean, uint32_t which, hl_operation *asked, void *small, uint32_t bytes, hl_result *result)
{
    hl_ticket ticket;
    uint8_t *scratch, *own = (uint8_t *)small;
    int64_t value;
    uint32_t i;
    int error = hl_take_slot(lean, which, 0, &ticket);
    if (error) return error;
    scratch = hl_scratch(lean, ticket);
    for (i = 0; i < bytes; i++) scratch[i] = own[i];
    asked->pieces = 1;
    asked->piece[0] = hl_piece_at(lean, scratch, bytes);
    error = hl_submit(lean, asked, &ticket, 1);
    if (!error) error = hl_await(lean, ticket);
    if (error) return error;
    for (i = 0; i < bytes; i++) own[i] = *(volatile uint8_t *)(scratch + i);
    value = hl_finish(lean, ticket, result);
    return value;
}
HL_FN int64_t hl_stat(hl_lean *lean, hl_object file, hl_facts *facts)
{
    hl_operation asked = hl_operation_of(HL_OP_STAT, file);
    return hl_do_small(lean, HL_FILES, &asked, facts, sizeof *facts, (hl_result *)0);
}
/* Reads entries of a directory from a cookie on (first 0) into the window: bytes, 0 at its end. */
HL_FN int64_t hl_readdir(hl_lean *lean, hl_object directory, uint64_t cookie, void *into, uint64_t bytes)
{
    hl_operation asked = hl_transfer(lean, HL_OP_READDIR, directory, cookie, into, bytes);
    return hl_do(lean, HL_FILES, &asked);
}
/* The entry at `*at` of so many bytes that hl_readdir gave; 0 behind the last. Moves `*at` on. */
HL_FN int hl_next_entry(const void *entries, uint64_t bytes, uint64_t *at, hl_entry *entry)
{
    const uint8_t *here = (const uint8_t *)entries + *at;
    if (*at + 24 > bytes) return 0;
    entry->inode = hl_take64(here);
    entry->cookie = hl_take64(here + 8);
    entry->name_bytes = here[16] | (uint32_t)here[17] << 8;
    entry->type = here[18];
    entry->name = (const char *)here + 24;
    if (*at + 24 + entry->name_bytes > bytes) return 0;
    *at += 24 + ((entry->name_bytes + 7ull) & ~7ull);
    return 1;
}

#endif
