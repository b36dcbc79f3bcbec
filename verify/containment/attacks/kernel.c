/* Calls that reach far into the kernel: rings, programs in it, keys, the machine itself.
 *
 * io_uring makes calls that no filter sees (it left Docker's default profile in 2023 for that);
 * userfaultfd stops the kernel in the middle of a copy, which most exploits of races want.
 * Arguments are such that nothing happens even where the call is allowed.
 */
#include "attack.h"
#include <linux/io_uring.h>
#include <sys/time.h>
#include <sys/timex.h>

static void rings(void) {
    struct io_uring_params parameters = {0};
    long ring = CALL(io_uring_setup, 8L, &parameters);
    must_fail(ring, "io_uring_setup");
    parameters = (struct io_uring_params){.flags = 2 /* SQPOLL */};
    must_fail(CALL(io_uring_setup, 8L, &parameters), "with a thread of the kernel");
    for (long number = 0; number < 64; number++) {
        must_fail(CALL(io_uring_enter, number, 1L, 0L, 0L, 0L, 0L), "io_uring_enter on what lay about");
        must_fail(CALL(io_uring_register, number, 0L, 0L, 0L), "io_uring_register on what lay about");
    }
    must_be_denied(CALL(io_uring_register, -1L, 0L, 0L, 0L), "io_uring_register");
    unsigned long context = 0;
    must_fail(CALL(io_setup, 8L, &context), "io_setup, the older rings");
    all_refused();
}

static void faults_by_hand(void) {
    must_fail(CALL(userfaultfd, O_CLOEXEC), "userfaultfd");
    must_fail(CALL(userfaultfd, O_CLOEXEC | 1L /* USER_MODE_ONLY */), "for its own faults only");
    must_fail(CALL(memfd_secret, 0L), "memory that its supervisor cannot read");
    all_refused();
}

static void programs_in_the_kernel(void) {
    uint32_t map[18] = {1 /* HASH */, 4, 4, 1};
    must_fail(CALL(bpf, 0L /* MAP_CREATE */, map, sizeof map), "a map");
    uint64_t program[2] = {0xb7, 0x95};
    struct { uint32_t type, count; uint64_t code, license; uint32_t rest[24]; } load = {1, 2, (uint64_t)program, (uint64_t)"GPL", {0}};
    must_fail(CALL(bpf, 5L /* PROG_LOAD */, &load, sizeof load), "a program");
    uint32_t id[18] = {0};
    must_be_denied(CALL(bpf, 12L /* PROG_GET_NEXT_ID */, id, sizeof id), "a list of programs");
    all_refused();
}

static void keys(void) {
    must_fail(CALL(add_key, "user", "heliostat-attack", "x", 1L, -3L /* session */), "add_key");
    must_fail(CALL(keyctl, 0L, -3L, 1L, 0L, 0L), "keyctl: the session's keyring");
    must_fail(CALL(keyctl, 0L, -4L, 1L, 0L, 0L), "keyctl: the user's keyring");
    must_fail(CALL(keyctl, 1L, "heliostat", 0L, 0L, 0L), "keyctl: another session");
    must_be_denied(CALL(request_key, "user", "heliostat-none", 0L, 0L), "request_key");
    all_refused();
}

static void the_machine(void) {
    struct timex clock = {0};
    must_be_denied(CALL(reboot, 1L, 2L, 0L, 0L), "reboot");
    must_be_denied(CALL(swapon, at("rw/own"), 0L), "swapon");
    must_be_denied(CALL(swapoff, at("rw/own")), "swapoff");
    must_be_denied(CALL(acct, at("rw/none")), "acct");
    must_be_denied(CALL(settimeofday, 0L, 0L), "settimeofday");
    must_be_denied(CALL(clock_settime, 1000L, 0L), "clock_settime");
    must_be_denied(CALL(sethostname, at("rw") + 1, 10L), "sethostname");
    must_be_denied(CALL(setdomainname, "attacked", 8L), "setdomainname");
    must_be_denied(CALL(iopl, 3L), "iopl");
    must_be_denied(CALL(ioperm, 0x80L, 1L, 1L), "ioperm");
    must_be_denied(CALL(quotactl, 0x80000300L, "/dev/none", 0L, 0L), "quotactl");
    must_be_denied(CALL(syslog, 3L, 0L, 0L), "syslog");
    clock.modes = 0x8000;
    must_be_denied(CALL(adjtimex, &clock), "adjtimex");
    all_refused();
}

/* Not built into every kernel; where they are, they must not be reached. */
static void modules(void) {
    must_be_denied(CALL(init_module, 0L, 0L, ""), "init_module");
    must_be_denied(CALL(finit_module, -1L, "", 0L), "finit_module");
    must_be_denied(CALL(delete_module, "none", O_NONBLOCK), "delete_module");
    must_be_denied(CALL(kexec_load, 0L, 1L, 0L, 0L), "kexec_load");
    must_be_denied(CALL(kexec_file_load, -1L, -1L, 0L, 0L, 0L), "kexec_file_load");
    must_be_denied(CALL(uselib, at("outside/tool")), "uselib");
    must_be_denied(CALL(nfsservctl, 0L, 0L, 0L), "nfsservctl");
    all_refused();
}

static void watchers(void) {
    long watch = CALL(inotify_init1, 0L);
    if (watch >= 0) {
        must_fail(CALL(inotify_add_watch, watch, at("outside"), 0xfffL), "inotify of a folder outside");
        must_fail(CALL(inotify_add_watch, watch, at("outside/secret"), 0xfffL), "inotify of the secret");
        must_fail(CALL(inotify_add_watch, watch, at("rw/planted"), 0xfffL), "inotify by way of a link");
    }
    long group = CALL(fanotify_init, 0x200L /* REPORT_FID */, O_RDONLY);
    must_fail(group, "fanotify_init");
    must_fail(CALL(fanotify_mark, group, 1L, 0x20L, AT_FDCWD, at("outside")), "fanotify_mark");
    must_fail(CALL(fanotify_init, 0x4L /* CLASS_CONTENT: it may veto others */, O_RDONLY), "fanotify_init with a veto");
    all_refused();
}

/* Numbers that no list names: the newest calls, and what is not one at all. */
static void unknown_numbers(void) {
    static const long numbers[] = {387, 400, 422, 480, 511, 512, 547, 548, 1000, 0x7fffffff, -1, 0x100000000L + SYS_open};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        long result = raw(numbers[i], (const long[6]){(long)at("outside/secret"), O_RDONLY});
        must_not_show(result, "an unknown number opened it");
    }
    char bytes[256] = "";
    const char *secret = at("outside/secret");
    must_fail(raw(464, (const long[6]){AT_FDCWD, (long)secret, 0, (long)"user.word", (long)bytes, 16}), "getxattrat");
    must_fail(raw(465, (const long[6]){AT_FDCWD, (long)secret, 0, (long)bytes, 200}), "listxattrat");
    must_fail(raw(468, (const long[6]){AT_FDCWD, (long)secret, (long)bytes, 24, 0}), "file_getattr");
    must_fail(raw(467, (const long[6]){AT_FDCWD, (long)secret, 0, 0, 0}), "open_tree_attr");
    must_be_denied(raw(443, (const long[6]){0, 0x80000300L, 0, 0}), "quotactl_fd");
    must_not_show(CALL(openat, AT_FDCWD, secret, O_RDONLY), "after that");
    all_refused();
}

const struct attack kernel_attacks[] = {
    ATTACK(rings, ANYONE),
    ATTACK(faults_by_hand, ROOT),
    ATTACK(programs_in_the_kernel, ROOT),
    ATTACK(keys, ANYONE),
    ATTACK(the_machine, ROOT),
    ATTACK(modules, NEVER),
    ATTACK(watchers, ANYONE),
    ATTACK(unknown_numbers, ANYONE),
    {0},
};
