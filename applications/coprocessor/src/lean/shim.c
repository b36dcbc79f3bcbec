/* The lean interface's header as functions that a linker finds. Descriptions are the header's. */
#include "heliostat_lean_host.h"

static hl_lean lean;

int shim_attach(uint8_t **payload, uint64_t *bytes, uint32_t *worker, uint32_t *workers)
{
    int error = hl_host_attach(&lean);
    if (error) return error;
    *payload = hl_payload(&lean);
    *bytes = hl_payload_bytes(&lean);
    *worker = lean.worker;
    *workers = lean.workers;
    return 0;
}

int64_t shim_open(const char *name, uint32_t flags, hl_object *file)
{
    return hl_open(&lean, name, flags, 0644, file);
}
int64_t shim_close(hl_object file) { return hl_close(&lean, file); }
int64_t shim_read(hl_object file, uint64_t offset, void *into, uint64_t bytes)
{
    return hl_read(&lean, file, offset, into, bytes);
}
int64_t shim_fetch_begin(hl_fetch *each, uint32_t count) { return hl_fetch_begin(&lean, each, count); }
int64_t shim_fetch_end(const hl_fetch *one) { return hl_fetch_end(&lean, one); }
int64_t shim_write(hl_object file, uint64_t offset, const void *from, uint64_t bytes)
{
    return hl_write(&lean, file, offset, from, bytes);
}
int64_t shim_fsync(hl_object file) { return hl_fsync(&lean, file); }
int64_t shim_length(hl_object file)
{
    hl_facts facts;
    int64_t error = hl_stat(&lean, file, &facts);
    return error < 0 ? error : (int64_t)facts.size;
}
int64_t shim_unlink(const char *name) { return hl_unlink(&lean, name); }
int64_t shim_rename(const char *from, const char *to) { return hl_rename(&lean, from, to, 0); }
int64_t shim_readdir(hl_object directory, uint64_t cookie, void *into, uint64_t bytes)
{
    return hl_readdir(&lean, directory, cookie, into, bytes);
}
int shim_next_entry(const void *entries, uint64_t bytes, uint64_t *at, uint64_t *cookie, const char **name)
{
    hl_entry entry;
    if (!hl_next_entry(entries, bytes, at, &entry)) return 0;
    *cookie = entry.cookie;
    *name = entry.name;
    return (int)entry.name_bytes;
}

int64_t shim_listen(uint32_t address, uint16_t port, hl_object *listener)
{
    hl_address at = {4, 0, port, {0}, 0};
    for (int i = 0; i < 4; i++) at.ip[i] = (uint8_t)(address >> (24 - 8 * i));
    return hl_listen(&lean, &at, 128, HL_SHARED_LISTENER, listener);
}
int64_t shim_accept(hl_object listener, hl_object *socket) { return hl_accept(&lean, listener, 0, 0, socket); }
int64_t shim_send(hl_object socket, const void *from, uint64_t bytes) { return hl_send(&lean, socket, from, bytes); }
int64_t shim_receive(hl_object socket, void *into, uint64_t bytes) { return hl_receive(&lean, socket, into, bytes, 0); }
int64_t shim_poll(hl_poll_entry *entries, uint32_t count) { return hl_poll(&lean, entries, count, 0); }
int64_t shim_close_socket(hl_object socket) { return hl_close_socket(&lean, socket); }
