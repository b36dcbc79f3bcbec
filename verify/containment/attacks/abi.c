/* Other doors into the same kernel: 32-bit calls, x32 numbers, the vsyscall page. */
#include "attack.h"
#include <sys/uio.h>

/* The path must lie below 4 GiB for a 32-bit call. */
static char *low_path(const char *relative) {
    char *low = mmap((void *)0x20000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    need(low == MAP_FAILED ? -errno : 0, "memory below 4 GiB");
    return strcpy(low, at(relative));
}

static long int80(long number, long one, long two, long three) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(one), "c"(two), "d"(three) : "memory", "r8", "r9", "r10", "r11");
    return (int)result;
}

enum { OPEN_32 = 5, MKDIR_32 = 39, SOCKETCALL_32 = 102, KILL_32 = 37, PTRACE_32 = 26, CHMOD_32 = 15, UNLINK_32 = 10 };

static void calls_of_32_bits(void) {
    char *path = low_path("outside/secret");
    must_not_show(int80(OPEN_32, (long)path, O_RDONLY, 0), "open by int 0x80");
    strcpy(path, at("outside/made"));
    must_fail(int80(MKDIR_32, (long)path, 0700, 0), "mkdir by int 0x80");
    must_fail(int80(KILL_32, given("VICTIM"), SIGUSR1, 0), "kill by int 0x80");
    must_fail(int80(PTRACE_32, 16, given("VICTIM"), 0), "ptrace by int 0x80");
    strcpy(path, at("outside/loose"));
    must_fail(int80(CHMOD_32, (long)path, 0777, 0), "chmod by int 0x80");
    must_fail(int80(UNLINK_32, (long)path, 0, 0), "unlink by int 0x80");
    all_refused();
}

/* A far return puts the processor itself into 32-bit mode; sysenter and int 0x80 come from there. */
static void calls_from_32_bit_code(void) {
    static const unsigned char code[] = {0xcd, 0x80 /* int 0x80 */, 0xcb /* far return */};
    char *path = low_path("outside/secret");
    char *low = mmap((void *)0x20010000, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    need(low == MAP_FAILED ? -errno : 0, "code below 4 GiB");
    memcpy(low, code, sizeof code);
    memcpy(low + 16, "\x41\xff\xe5" /* jmp *%r13, in 64-bit mode again */, 3);
    long result = OPEN_32;
    __asm__ volatile("mov %%rsp, %%r12\n\tmov %[stack], %%rsp\n\t"
                     "subq $16, %%rsp\n\tmovl %[code], (%%rsp)\n\tmovl $0x23, 4(%%rsp)\n\t"
                     /* what the second far return pops, now in 32-bit mode */
                     "movl $0x20010010, 8(%%rsp)\n\tmovl $0x33, 12(%%rsp)\n\t"
                     "leaq 1f(%%rip), %%r13\n\tlretl\n1:\n\tmov %%r12, %%rsp"
                     : "+a"(result)
                     : [stack] "r"((long)low + 8000), [code] "r"((int)(long)low), "b"((long)path), "c"(0L), "d"(0L)
                     : "memory", "r12", "r13", "r8", "r9", "r10", "r11");
    must_not_show((int)result, "open from 32-bit code");
    all_refused();
}

static void x32_numbers(void) {
    enum { X32 = 0x40000000 };
    const char *secret = at("outside/secret");
    char bytes[64];
    struct iovec mine = {bytes, 64}, theirs = {(void *)given("VICTIM_WORD"), 64};
    must_not_show(raw(X32 | SYS_open, (const long[6]){(long)secret, O_RDONLY}), "open with the x32 bit");
    must_not_show(raw(X32 | SYS_openat, (const long[6]){AT_FDCWD, (long)secret, O_RDONLY}), "openat with the x32 bit");
    must_fail(raw(X32 | 539, (const long[6]){given("VICTIM"), (long)&mine, 1, (long)&theirs, 1, 0}), "process_vm_readv with the x32 bit");
    must_fail(raw(X32 | 521, (const long[6]){16, given("VICTIM"), 0, 0}), "ptrace with the x32 bit");
    must_fail(raw(X32 | SYS_kill, (const long[6]){given("VICTIM"), SIGUSR1}), "kill with the x32 bit");
    must_fail(raw(X32 | 520, (const long[6]){(long)secret, 0, 0}), "execve with the x32 bit");
    all_refused();
}

/* The page at the old fixed address gives the time and nothing else. */
static void vsyscall_page(void) {
    long (*time_of)(long *) = (long (*)(long *))0xffffffffff600400;
    long ended = in_child((void (*)(void))time_of);
    must_fail(ended == 1 ? 0 : -ENOSYS, "the vsyscall page");
    must_not_show(CALL(openat, AT_FDCWD, at("outside/secret"), O_RDONLY), "after that");
    all_refused();
}

const struct attack abi_attacks[] = {
    ATTACK(calls_of_32_bits, ANYONE),
    ATTACK(calls_from_32_bit_code, ANYONE),
    ATTACK(x32_numbers, NEVER), /* a kernel without the x32 ABI: the numbers are no calls */
    ATTACK(vsyscall_page, ANYONE),
    {0},
};
