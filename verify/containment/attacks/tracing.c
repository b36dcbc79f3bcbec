/* Memory and descriptors of others: ptrace, process_vm, pidfd_getfd, and what traces stealthily. */
#include "attack.h"
#include <sys/ptrace.h>
#include <sys/uio.h>

static void trace(long process) {
    must_fail(CALL(ptrace, PTRACE_SEIZE, process, 0L, 0L), "PTRACE_SEIZE");
    must_fail(CALL(ptrace, PTRACE_ATTACH, process, 0L, 0L), "PTRACE_ATTACH");
    must_fail(CALL(ptrace, PTRACE_PEEKDATA, process, given("VICTIM_WORD"), 0L), "PTRACE_PEEKDATA");
    must_fail(CALL(ptrace, PTRACE_POKEDATA, process, given("VICTIM_WORD"), 0L), "PTRACE_POKEDATA");
    must_fail(CALL(ptrace, PTRACE_KILL, process, 0L, 0L), "PTRACE_KILL");
}

static void trace_victim(void) {
    trace(given("VICTIM"));
    all_refused();
}

static void trace_parent(void) {
    trace(CALL(getppid));
    must_fail(CALL(ptrace, PTRACE_TRACEME, 0L, 0L, 0L), "PTRACE_TRACEME, which makes the parent a tracer");
    all_refused();
}

/* A tracer can rewrite a call after the filter has seen it: before Linux 4.8 the tracer was
 * asked first and the filter was not asked again. One may not even trace one's own child. */
static void wait_to_be_traced(void) {
    for (int i = 0; i < 60000; i++)
        usleep(1000);
}

static void trace_own_child(void) {
    pid_t child = fork();
    if (child == 0) {
        wait_to_be_traced();
        _exit(0);
    }
    long seized = CALL(ptrace, PTRACE_SEIZE, child, 0L, PTRACE_O_EXITKILL);
    CALL(kill, child, SIGKILL);
    waitpid(child, NULL, 0);
    must_fail(seized, "a tracer of its own child");
    all_refused();
}

static void memory_of(long process) {
    char bytes[128] = "";
    struct iovec mine = {bytes, 64}, theirs = {(void *)given("VICTIM_WORD"), 64};
    long count = CALL(process_vm_readv, process, &mine, 1L, &theirs, 1L, 0L);
    if (count > 0)
        must_not_hold(bytes, (size_t)count, "its memory was read");
    must_fail(count, "process_vm_readv");
    memset(bytes, 'x', sizeof bytes);
    must_fail(CALL(process_vm_writev, process, &mine, 1L, &theirs, 1L, 0L), "process_vm_writev");
}

static void memory_of_victim(void) {
    memory_of(given("VICTIM"));
    all_refused();
}

static void memory_of_parent(void) {
    memory_of(CALL(getppid));
    all_refused();
}

/* The supervisor's listener, the victim's secret file: any descriptor of anybody. */
static void descriptors_by_pidfd(void) {
    long others[] = {given("VICTIM"), CALL(getppid), 1};
    for (int i = 0; i < 3; i++) {
        long process = CALL(pidfd_open, others[i], 0);
        must_fail(process, "pidfd_open of an outsider");
        for (long number = 0; number < 64; number++)
            must_not_show(CALL(pidfd_getfd, process, number, 0), "a descriptor of an outsider");
    }
    all_refused();
}

static void performance_events(void) {
    struct { uint32_t type, size; uint64_t config; char rest[112]; } event = {1, 128, 0, {0}};
    must_fail(CALL(perf_event_open, &event, given("VICTIM"), -1L, -1L, 0L), "perf_event_open of the victim");
    must_fail(CALL(perf_event_open, &event, 0L, -1L, -1L, 0L), "perf_event_open of itself");
    all_refused();
}

const struct attack tracing_attacks[] = {
    ATTACK(trace_victim, ANYONE),
    ATTACK(trace_parent, ANYONE),
    ATTACK(trace_own_child, ANYONE),
    ATTACK(memory_of_victim, ANYONE),
    ATTACK(memory_of_parent, ANYONE),
    ATTACK(descriptors_by_pidfd, ANYONE),
    ATTACK(performance_events, ROOT),
    {0},
};
