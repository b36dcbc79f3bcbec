// A function that one program serves and another calls:
//
//     rpc serve &
//     rpc call hello        -> HELLO
//     rpc all hello         -> HELLO, by several calls at once, and one that is cancelled
//
// Both need a control plane (`heliostat start`).

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "heliostat/rpc.h"

#define NAME "example/upper"
#define BYTES 256

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, heliostat_last_message());
    return 1;
}

// Answers until the function is served no more: each answer waits for the next call as well.
static int serve(const heliostat_rpc *rpc) {
    heliostat_service *service = NULL;
    heliostat_call *call = NULL;
    heliostat_service_options options = {.request_bytes = BYTES, .reply_bytes = BYTES};
    if (heliostat_rpc_serve(rpc, NAME, &options, &service) != HELIOSTAT_OK)
        return failed("serve");
    heliostat_code code = heliostat_service_receive(service, -1, &call);
    while (code == HELIOSTAT_OK) {
        const void *asked;
        size_t bytes;
        char answer[BYTES];
        if (heliostat_call_payload(call, &asked, &bytes) != HELIOSTAT_OK)
            return failed("payload");
        for (size_t at = 0; at < bytes; at++)
            answer[at] = (char)toupper(((const unsigned char *)asked)[at]);
        code = heliostat_service_reply_and_receive(service, &call, answer, bytes, -1, NULL);
    }
    heliostat_service_end(service);
    return failed("receive");
}

static int ask(const heliostat_rpc *rpc, const char *text) {
    heliostat_function *upper = NULL;
    char reply[BYTES];
    size_t bytes = 0;
    int may_have_run = 0;
    if (heliostat_rpc_find(rpc, HELIOSTAT_RPC_OWN_USER, NAME, &upper) != HELIOSTAT_OK)
        return failed("find");
    heliostat_code code = heliostat_function_call(upper, text, strlen(text), reply, sizeof reply,
                                                  &bytes, 1000, &may_have_run);
    heliostat_function_release(upper);
    if (code != HELIOSTAT_OK)
        return failed(may_have_run ? "perhaps done" : "not done");
    printf("%.*s\n", (int)bytes, reply);
    return 0;
}

// Several calls at once; they might be of functions of several nodes (heliostat_rpc_find_on).
static int ask_all(const heliostat_rpc *rpc, const char *text) {
    enum { CALLS = 3 };
    heliostat_function *upper = NULL;
    heliostat_pending *pending = NULL;
    char room[CALLS][BYTES];
    heliostat_multicast_reply replies[CALLS];
    const heliostat_function *functions[CALLS];
    if (heliostat_rpc_find_on(rpc, 0, HELIOSTAT_RPC_OWN_USER, NAME, &upper) != HELIOSTAT_OK)
        return failed("find");
    for (int at = 0; at < CALLS; at++) {
        replies[at] = (heliostat_multicast_reply){.reply = room[at], .room = BYTES};
        functions[at] = upper;
    }
    if (heliostat_rpc_multicast(functions, replies, CALLS, text, strlen(text), 1000) != HELIOSTAT_OK)
        return failed("multicast");
    for (int at = 0; at < CALLS; at++) {
        if (replies[at].code != HELIOSTAT_OK)
            return failed(replies[at].may_have_run ? "perhaps done" : "not done");
        printf("%.*s\n", (int)replies[at].reply_bytes, room[at]);
    }
    if (heliostat_function_begin(upper, text, strlen(text), 1000, &pending) != HELIOSTAT_OK)
        return failed("begin");
    heliostat_code code = heliostat_pending_cancel(pending, room[0], BYTES, NULL, NULL);
    heliostat_function_release(upper);
    printf("%s\n", code == HELIOSTAT_OK || code == HELIOSTAT_CANCELLED ? "ended" : "failed");
    return 0;
}

int main(int count, char **words) {
    heliostat_rpc *rpc = NULL;
    if (count < 2 || (strcmp(words[1], "serve") != 0 && count < 3)) {
        fprintf(stderr, "usage: rpc serve | rpc call TEXT | rpc all TEXT\n");
        return 2;
    }
    if (heliostat_rpc_open(&rpc) != HELIOSTAT_OK)
        return failed("open");
    int status = strcmp(words[1], "serve") == 0 ? serve(rpc)
                 : strcmp(words[1], "all") == 0 ? ask_all(rpc, words[2])
                                                : ask(rpc, words[2]);
    heliostat_rpc_close(rpc);
    return status;
}
