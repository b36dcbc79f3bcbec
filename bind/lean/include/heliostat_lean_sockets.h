/* Sockets. Part of heliostat_lean.h, which is the one to include. */
#ifndef HELIOSTAT_LEAN_SOCKETS_H
#define HELIOSTAT_LEAN_SOCKETS_H

/* ---- Sockets ---- */

/* Connects to an address: a socket, or -ECONNREFUSED and others. `timeout_us` 0 for the kernel's own. */
HL_FN int64_t hl_connect(hl_lean *lean, const hl_address *to, uint32_t timeout_us, hl_object *socket)
{
    hl_operation asked = hl_operation_of(HL_OP_CONNECT, hl_nothing());
    hl_address address = *to;
    hl_result result = {0, 0, 0};
    asked.timeout_us = timeout_us;
    return hl_opened(hl_do_small(lean, HL_SOCKETS, &asked, &address, sizeof address, &result), &result, socket);
}
/* Listens at an address, which gets the one that it has then; flags HL_SHARED_LISTENER,
 * and HL_BY_LOAD or others: by which rule connections are shared out. */
HL_FN int64_t hl_listen(hl_lean *lean, hl_address *at, uint32_t backlog, uint32_t flags, hl_object *listener)
{
    hl_operation asked = hl_operation_of(HL_OP_LISTEN, hl_nothing());
    hl_result result = {0, 0, 0};
    asked.argument = backlog | flags;
    return hl_opened(hl_do_small(lean, HL_SOCKETS, &asked, at, sizeof *at, &result), &result, listener);
}
/* Waits for the next connection of a listener, -ETIMEDOUT after `timeout_us` (0: never). */
HL_FN int64_t hl_accept(hl_lean *lean, hl_object listener, hl_address *peer, uint32_t timeout_us, hl_object *socket)
{
    hl_operation asked = hl_operation_of(HL_OP_ACCEPT, listener);
    hl_address unread = {0, 0, 0, {0}, 0};
    hl_result result = {0, 0, 0};
    asked.timeout_us = timeout_us;
    return hl_opened(hl_do_small(lean, HL_SOCKETS, &asked, peer ? peer : &unread, sizeof unread, &result), &result, socket);
}
/* Sends from the window: bytes, all of them unless the connection ended meanwhile. */
HL_FN int64_t hl_send(hl_lean *lean, hl_object socket, const void *from, uint64_t bytes)
{
    hl_operation asked = hl_transfer(lean, HL_OP_WRITE, socket, 0, from, bytes);
    return bytes ? hl_do(lean, HL_SOCKETS, &asked) : 0;
}
/* Receives what is there into the window, as soon as anything is: bytes, 0 at the peer's end. */
HL_FN int64_t hl_receive(hl_lean *lean, hl_object socket, void *into, uint64_t bytes, uint32_t timeout_us)
{
    hl_operation asked = hl_transfer(lean, HL_OP_READ, socket, 0, into, bytes);
    asked.timeout_us = timeout_us;
    return bytes ? hl_do(lean, HL_SOCKETS, &asked) : 0;
}
/* Waits until some of the sockets that entries in the window name are ready: how many are, and
 * -ETIMEDOUT after `timeout_us` (0: never). */
HL_FN int64_t hl_poll(hl_lean *lean, hl_poll_entry *entries, uint32_t count, uint32_t timeout_us)
{
    hl_operation asked = hl_transfer(lean, HL_OP_POLL, hl_nothing(), 0, entries, (uint64_t)count * sizeof *entries);
    asked.timeout_us = timeout_us;
    return hl_do(lean, HL_SOCKETS, &asked);
}
HL_FN int64_t hl_shutdown(hl_lean *lean, hl_object socket, uint32_t how)
{
    return hl_do_plain(lean, HL_SOCKETS, HL_OP_SHUTDOWN, socket, how);
}
/* The address of a socket's own end (HL_OWN), or the other one (HL_PEER). */
HL_FN int64_t hl_address_of(hl_lean *lean, hl_object socket, uint32_t end, hl_address *address)
{
    hl_operation asked = hl_operation_of(HL_OP_ADDRESS, socket);
    asked.argument = end;
    return hl_do_small(lean, HL_SOCKETS, &asked, address, sizeof *address, (hl_result *)0);
}
HL_FN int64_t hl_close_socket(hl_lean *lean, hl_object socket) { return hl_do_plain(lean, HL_SOCKETS, HL_OP_CLOSE, socket, 0); }

#endif
