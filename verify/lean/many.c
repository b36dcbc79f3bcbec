/* A worker with thousands of connections at once: one thread, which keeps a receive for 128 of them. */
#include "heliostat_lean_host.h"

#include <stdio.h>
#include <string.h>

enum { PEERS_MAX = 4096 /* as many sockets as a session may have, the listener among them */, ASKED_MAX = 1000, WORD = 16 };

static hl_object peer[PEERS_MAX];
static int peers;

int main(int count, char **words)
{
    hl_lean lean;
    hl_object listener = {0, 0};
    hl_address at = {4, 0, (uint16_t)atoi(words[count - 1]), {127, 0, 0, 1}, 0};
    if (hl_host_attach(&lean) || hl_listen(&lean, &at, 4096, HL_SHARED_LISTENER, &listener))
        return 1;
    fprintf(stderr, "listens\n");
    hl_poll_entry *asked = (hl_poll_entry *)hl_payload(&lean);
    char *bytes = (char *)hl_payload(&lean) + HL_POLLED_MAX * sizeof *asked;
    for (int turn = 0;; turn++) {
        /* Whoever comes is taken until nobody has come for a while; then peers are asked in turns. */
        hl_object next;
        int64_t error = hl_accept(&lean, listener, (hl_address *)0, peers ? 2000 : 1000000, &next);
        if (error == 0 && peers < PEERS_MAX) {
            peer[peers++] = next;
            continue;
        }
        if (error == -HL_ESHUTDOWN)
            return 0;
        for (int from = 0; from < peers; from += ASKED_MAX) {
            int many = peers - from < ASKED_MAX ? peers - from : ASKED_MAX;
            for (int number = 0; number < many; number++)
                asked[number] = (hl_poll_entry){peer[from + number], HL_POLL_IN, 0, 0};
            if (hl_poll(&lean, asked, (uint32_t)many, 1000) <= 0)
                continue;
            for (int number = 0; number < many; number++) {
                if (!asked[number].found)
                    continue;
                int64_t got = hl_receive(&lean, peer[from + number], bytes, WORD, 1000000);
                if (got > 0)
                    hl_send(&lean, peer[from + number], bytes, (uint64_t)got);
            }
        }
    }
}
