// A function that one program serves and another calls:
//
//     rpc serve &
//     rpc call hello        -> HELLO
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

int main(int count, char **words) {
    heliostat_rpc *rpc = NULL;
    if (count < 2 || (strcmp(words[1], "serve") != 0 && count < 3)) {
        fprintf(stderr, "usage: rpc serve | rpc call TEXT\n");
        return 2;
    }
    if (heliostat_rpc_open(&rpc) != HELIOSTAT_OK)
        return failed("open");
    int status = strcmp(words[1], "serve") == 0 ? serve(rpc) : ask(rpc, words[2]);
    heliostat_rpc_close(rpc);
    return status;
}
