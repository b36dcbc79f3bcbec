/* What every attack uses: where the testbed is, raw calls, verdicts, races.
 *
 * An attack is a function that tries its best and ends with a verdict, one line on standard
 * output: `NAME: refused (how)`, `NAME: ESCAPED (what)`, or `NAME: UNTRIED (why)` when its own
 * preparations failed, which proves nothing and counts as a failure. Calls are made by the
 * instruction itself: nothing that lives in the attacker's address space has a say in them.
 */
#ifndef ATTACK_H
#define ATTACK_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* For whom the attack does what it is for when nothing fences it. NEVER needs a reason in a
 * comment: the kernel itself refuses, and the attack is here because a supervisor that acts on
 * the target's behalf might not. */
enum plain { ANYONE, ROOT, ORDINARY, NEVER };

struct attack {
    const char *name;
    void (*run)(void);
    enum plain plain;
};

/* The tables, one for each family; each ends with an empty entry. */
#define ATTACK(name, plain) {#name, name, plain}
extern const struct attack path_attacks[], grant_attacks[], race_attacks[], rewrite_attacks[];
extern const struct attack readonly_attacks[], descriptor_attacks[], proc_attacks[], signal_attacks[];
extern const struct attack tracing_attacks[], namespace_attacks[], kernel_attacks[], seccomp_attacks[];
extern const struct attack exec_attacks[], network_attacks[], network_rewrite_attacks[], unix_attacks[], ipc_attacks[];
extern const struct attack terminal_attacks[], abi_attacks[], flood_attacks[], control_attacks[], shared_attacks[];
extern const struct attack device_attacks[], look_attacks[], identity_attacks[], temporary_attacks[], delegated_attacks[];

/* One system call with up to six arguments; the result is the kernel's, -errno on failure. */
long raw(long number, const long arguments[6]);
#define CALL(name, ...) raw(SYS_##name, (const long[6]){__VA_OPT__(LONGS(__VA_ARGS__))})
/* Each argument as the register's type, whatever it is. */
#define LONGS(...) LONGS_OF(__VA_ARGS__, L6, L5, L4, L3, L2, L1)(__VA_ARGS__)
#define LONGS_OF(_1, _2, _3, _4, _5, _6, name, ...) name
#define L1(a) (long)(a)
#define L2(a, ...) (long)(a), L1(__VA_ARGS__)
#define L3(a, ...) (long)(a), L2(__VA_ARGS__)
#define L4(a, ...) (long)(a), L3(__VA_ARGS__)
#define L5(a, ...) (long)(a), L4(__VA_ARGS__)
#define L6(a, ...) (long)(a), L5(__VA_ARGS__)

/* A path of the testbed, in one of the thread's few static buffers that are used in turn. */
const char *at(const char *relative);
/* A number that the runner left in the environment: a process, a port, an address. */
long given(const char *variable);
/* A few bytes that the runner left in the environment in hexadecimal; their count. */
size_t given_bytes(const char *variable, void *into, size_t size);

void escaped(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void untried(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* The end of an attack whose every try was refused: says by which errors. */
void all_refused(void) __attribute__((noreturn));

/* A try whose success is an escape; a failure is remembered for `all_refused`. */
void must_fail(long result, const char *what);
/* A try that must be refused for want of a right: other errors mean that the kernel got to the
 * work itself, and only these harmless arguments kept it from being done. */
void must_be_denied(long result, const char *what);
/* A descriptor, or an error, through which the secret must not be seen. Closes it. */
void must_not_show(long descriptor, const char *what);
/* Bytes that must not hold the secret. */
void must_not_hold(const char *bytes, size_t length, const char *what);
/* Opens what is granted by path only, or, where nobody is given that, for reading. */
long open_path(const char *path);
/* A preparation without which the attack proves nothing. */
long need(long result, const char *what);

/* Between two stores to memory that others read: without it the compiler leaves the first out. */
#define BARRIER() __asm__ volatile("" ::: "memory")
/* Runs `work` in a thread until the program ends. */
void beside(void (*work)(void));
/* True until a race has lasted long enough; the length is the runner's to choose. */
bool racing(void);
/* Runs `work` in a child; its exit status, or 128 and more when a signal ended it. */
int in_child(void (*work)(void));
/* A fresh file of one's own with some bytes in it, open for reading and writing. */
int own_file(const char *relative, const char *content);

#endif
