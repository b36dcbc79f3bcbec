/* The fence itself: more filters, a listener of one's own, the supervisor's listener.
 *
 * Filters stack and the strictest answer wins, with one exception that matters: of two filters
 * that both say "ask the listener", the newer one's listener is asked. A program with its own
 * listener could let its own calls continue. The kernel forbids a second listener; this is
 * where it would show that it does not.
 */
#include "attack.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>

static long filter_all(unsigned action, unsigned flags) {
    struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, action)};
    struct sock_fprog program = {1, code};
    CALL(prctl, 38L /* PR_SET_NO_NEW_PRIVS */, 1L, 0L, 0L, 0L);
    return CALL(seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* Only openat(2) of the child goes to the new filter; the parent must still speak. */
static long filter_openat(unsigned action, unsigned flags) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, code};
    CALL(prctl, 38L, 1L, 0L, 0L, 0L);
    return CALL(seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static void filter_that_allows(void) {
    filter_all(SECCOMP_RET_ALLOW, 0);
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "a filter that allows");
    filter_all(SECCOMP_RET_ALLOW, SECCOMP_FILTER_FLAG_TSYNC);
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "in all threads");
    filter_all(SECCOMP_RET_LOG, 0);
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "a filter that logs");
    all_refused();
}

static void continue_everything(long listener) {
    struct seccomp_notif one;
    for (;;) {
        memset(&one, 0, sizeof one);
        if (CALL(ioctl, listener, SECCOMP_IOCTL_NOTIF_RECV, &one) < 0)
            continue;
        struct seccomp_notif_resp go = {.id = one.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        CALL(ioctl, listener, SECCOMP_IOCTL_NOTIF_SEND, &go);
    }
}

static long own_listener;

static void answer_oneself(void) { continue_everything(own_listener); }

static void second_listener(void) {
    own_listener = filter_openat(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    must_fail(own_listener, "a listener of its own");
    if (own_listener >= 0)
        beside(answer_oneself);
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "continued by its own listener");
    all_refused();
}

static void open_the_secret(void) {
    char bytes[4] = "";
    long ways[] = {CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), CALL(open, at("outside/secret"), O_RDONLY)};
    for (int i = 0; i < 2; i++)
        if (ways[i] >= 0 && CALL(read, ways[i], bytes, 4L) == 4 && !memcmp(bytes, "secr", 4))
            CALL(exit_group, 1);
}

/* Actions that want a tracer or a listener that is not there must not fall through to the call.
 * Whoever asks for them loses the call: the other, older ways of opening are tried beside it. */
static void ask_a_tracer(void) {
    filter_openat(SECCOMP_RET_TRACE, 0);
    open_the_secret();
}

static void ask_nobody(void) {
    filter_openat(SECCOMP_RET_USER_NOTIF, 0);
    open_the_secret();
}

static void filters_that_ask(void) {
    must_fail(in_child(ask_a_tracer) == 1 ? 0 : -EACCES, "a filter that asks a tracer");
    must_fail(in_child(ask_nobody) == 1 ? 0 : -EACCES, "a filter that asks no listener");
    all_refused();
}

/* A listener is an open file like others: perhaps it was left open across exec. */
static void listener_left_open(void) {
    struct seccomp_notif_sizes sizes;
    struct seccomp_notif_addfd add = {.srcfd = 0};
    struct seccomp_notif_resp go = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    if (getenv("PROVE"))
        need(filter_openat(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER), "a listener");
    for (long number = 0; number < 1024; number++) {
        uint64_t id = 1;
        long valid = CALL(ioctl, number, SECCOMP_IOCTL_NOTIF_ID_VALID, &id);
        must_fail(valid == -ENOENT ? 0 : valid < 0 ? valid : 0, "a listener lies open");
        must_fail(CALL(ioctl, number, SECCOMP_IOCTL_NOTIF_SEND, &go), "an answer was sent");
        must_fail(CALL(ioctl, number, SECCOMP_IOCTL_NOTIF_ADDFD, &add), "a descriptor was added");
    }
    CALL(seccomp, SECCOMP_GET_NOTIF_SIZES, 0L, &sizes);
    all_refused();
}

/* The old mode one: a process that is put there could do less, never more. */
static void strict_mode(void) {
    must_fail(in_child(open_the_secret) == 1 ? 0 : -EACCES, "a child opened it");
    must_fail(CALL(prctl, 22L /* PR_SET_SECCOMP */, 0L, 0L, 0L, 0L), "seccomp switched off");
    CALL(prctl, 59L /* SYSCALL_USER_DISPATCH, from nowhere to everywhere */, 1L, 0L, -1L, 0L);
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "after that");
    all_refused();
}

/* Its filter is the supervisor's secret too: a tracer may read it out. */
static void filter_read_out(void) {
    struct sock_filter code[4096];
    must_fail(CALL(ptrace, 0x420cL /* PTRACE_SECCOMP_GET_FILTER */, CALL(getppid), 0L, code), "the parent's filter");
    must_fail(CALL(ptrace, 0x420cL, CALL(getpid), 0L, code), "its own filter");
    all_refused();
}

const struct attack seccomp_attacks[] = {
    ATTACK(filter_that_allows, ANYONE),
    ATTACK(second_listener, ANYONE),
    ATTACK(filters_that_ask, ANYONE),
    ATTACK(listener_left_open, ANYONE),
    ATTACK(strict_mode, ANYONE),
    ATTACK(filter_read_out, NEVER), /* wants a stopped tracee first, which trace_* shows to be refused */
    {0},
};
