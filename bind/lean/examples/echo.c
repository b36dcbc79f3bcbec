/* A lean worker: echoes what its peers send, and answers "GET PATH" lines with a file's first bytes.
 *
 *   heliostat coprocessor run --workers 4 --root /srv/data --listen 127.0.0.1:7000 -- ./echo 7000
 *
 * One thread, one connection after the other: where more are wanted, more workers share the port.
 */
#include "heliostat_lean_host.h"

#include <stdio.h>
#include <string.h>

enum { BUFFER_BYTES = 64 * 1024 };

/* Answers a request for a file: its bytes, or the errno as text. */
static int64_t answer_file(hl_lean *lean, hl_object peer, const char *name, uint8_t *buffer)
{
    hl_object file;
    int64_t bytes = hl_open(lean, name, HL_READ, 0, &file);
    if (bytes < 0)
        return hl_send(lean, peer, buffer, (uint64_t)sprintf((char *)buffer, "errno %d\n", (int)-bytes));
    bytes = hl_read(lean, file, 0, buffer, BUFFER_BYTES);
    hl_close(lean, file);
    return bytes > 0 ? hl_send(lean, peer, buffer, (uint64_t)bytes) : bytes;
}

static void serve(hl_lean *lean, hl_object peer, uint8_t *buffer)
{
    for (;;) {
        int64_t bytes = hl_receive(lean, peer, buffer, BUFFER_BYTES - 1, 0);
        if (bytes <= 0)
            break;
        buffer[bytes] = 0;
        if (bytes > 5 && memcmp(buffer, "GET ", 4) == 0) {
            char name[4096];
            buffer[strcspn((char *)buffer, "\r\n")] = 0;
            snprintf(name, sizeof name, "%s", (char *)buffer + 4);
            bytes = answer_file(lean, peer, name, buffer);
        } else {
            bytes = hl_send(lean, peer, buffer, (uint64_t)bytes);
        }
        if (bytes < 0)
            break;
    }
    hl_close_socket(lean, peer);
}

int main(int count, char **words)
{
    hl_lean lean;
    hl_object listener = {0, 0}, peer;
    hl_address at = {4, 0, (uint16_t)(count > 1 ? atoi(words[1]) : 7000), {127, 0, 0, 1}, 0};
    int64_t error = hl_host_attach(&lean);
    if (error == 0)
        error = hl_listen(&lean, &at, 128, HL_SHARED_LISTENER, &listener);
    if (error < 0) {
        fprintf(stderr, "worker: errno %d\n", (int)-error);
        return 1;
    }
    fprintf(stderr, "worker %u of %u listens at port %u\n", lean.worker, lean.workers, at.port);
    while ((error = hl_accept(&lean, listener, (hl_address *)0, 0, &peer)) == 0)
        serve(&lean, peer, (uint8_t *)hl_payload(&lean));
    fprintf(stderr, "worker %u: errno %d\n", lean.worker, (int)-error);
    return error == -HL_ESHUTDOWN ? 0 : 1;
}
