/* Fills every register, makes a system call through libc's getppid(), and looks what is left.
 *
 * Prints the names of the registers that changed. The kernel keeps all but rax, rcx and r11, and
 * getppid() is nothing but the call, so a plain run changes none of the others. The red zone is
 * looked at too: 128 bytes below the stack as the function was entered with. With an argument the
 * call is not libc's but the program's own instruction. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct image {
    uint64_t general[12];        /* rbx rbp rdi rsi rdx r8 r9 r10 r12 r13 r14 r15 */
    uint8_t vector[16][16];
} __attribute__((aligned(16)));

static const char *const names[12] = { "rbx", "rbp", "rdi", "rsi", "rdx", "r8",
                                       "r9", "r10", "r12", "r13", "r14", "r15" };

long call_with(struct image *image, long (*function)(void), uint64_t *stack_drift);

/* rsp is kept in memory of its own (a slot below), since every register is in use. */
__asm__(
    ".text\n.globl call_with\ncall_with:\n"
    "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
    "push %rdx\n push %rdi\n push %rsi\n"
    "mov %rsp, saved_stack(%rip)\n"
    "mov %rdi, %rax\n mov %rsi, %r11\n"
    "movaps 96(%rax), %xmm0\n movaps 112(%rax), %xmm1\n movaps 128(%rax), %xmm2\n"
    "movaps 144(%rax), %xmm3\n movaps 160(%rax), %xmm4\n movaps 176(%rax), %xmm5\n"
    "movaps 192(%rax), %xmm6\n movaps 208(%rax), %xmm7\n movaps 224(%rax), %xmm8\n"
    "movaps 240(%rax), %xmm9\n movaps 256(%rax), %xmm10\n movaps 272(%rax), %xmm11\n"
    "movaps 288(%rax), %xmm12\n movaps 304(%rax), %xmm13\n movaps 320(%rax), %xmm14\n"
    "movaps 336(%rax), %xmm15\n"
    "mov 0(%rax), %rbx\n mov 8(%rax), %rbp\n mov 16(%rax), %rdi\n mov 24(%rax), %rsi\n"
    "mov 32(%rax), %rdx\n mov 40(%rax), %r8\n mov 48(%rax), %r9\n mov 56(%rax), %r10\n"
    "mov 64(%rax), %r12\n mov 72(%rax), %r13\n mov 80(%rax), %r14\n mov 88(%rax), %r15\n"
    "call *%r11\n"
    "mov %rax, result(%rip)\n"
    "mov 8(%rsp), %rax\n"
    "mov %rbx, 0(%rax)\n mov %rbp, 8(%rax)\n mov %rdi, 16(%rax)\n mov %rsi, 24(%rax)\n"
    "mov %rdx, 32(%rax)\n mov %r8, 40(%rax)\n mov %r9, 48(%rax)\n mov %r10, 56(%rax)\n"
    "mov %r12, 64(%rax)\n mov %r13, 72(%rax)\n mov %r14, 80(%rax)\n mov %r15, 88(%rax)\n"
    "movaps %xmm0, 96(%rax)\n movaps %xmm1, 112(%rax)\n movaps %xmm2, 128(%rax)\n"
    "movaps %xmm3, 144(%rax)\n movaps %xmm4, 160(%rax)\n movaps %xmm5, 176(%rax)\n"
    "movaps %xmm6, 192(%rax)\n movaps %xmm7, 208(%rax)\n movaps %xmm8, 224(%rax)\n"
    "movaps %xmm9, 240(%rax)\n movaps %xmm10, 256(%rax)\n movaps %xmm11, 272(%rax)\n"
    "movaps %xmm12, 288(%rax)\n movaps %xmm13, 304(%rax)\n movaps %xmm14, 320(%rax)\n"
    "movaps %xmm15, 336(%rax)\n"
    "mov %rsp, %rcx\n sub saved_stack(%rip), %rcx\n"
    "mov 16(%rsp), %rax\n mov %rcx, (%rax)\n"
    "add $24, %rsp\n"
    "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
    "mov result(%rip), %rax\n ret\n"
    ".local saved_stack\n.comm saved_stack,8,8\n.local result\n.comm result,8,8\n");

/* Plants words under the stack pointer, calls with that stack, and counts those that changed.
 * Entering getppid takes the topmost of them for the return address. */
int red_zone_changes(long (*function)(void));
__asm__(
    ".globl red_zone_changes\nred_zone_changes:\n"
    "mov $15, %ecx\n mov $0x5a5a1234, %eax\n"
    "1: mov %rcx, %rdx\n neg %rdx\n mov %rax, -16(%rsp,%rdx,8)\n dec %ecx\n jns 1b\n"
    "call *%rdi\n"
    "xor %eax, %eax\n mov $15, %ecx\n"
    "2: mov %rcx, %rdx\n neg %rdx\n cmpq $0x5a5a1234, -16(%rsp,%rdx,8)\n je 3f\n inc %eax\n"
    "3: dec %ecx\n jns 2b\n ret\n");


/* getppid by an instruction of its own. */
long own_call(void);
__asm__(
    ".globl own_call\n.type own_call,@function\nown_call:\n.cfi_startproc\n"
    "mov $110, %eax\n syscall\n ret\n.cfi_endproc\n.size own_call,.-own_call\n");

int main(int count, char **words) {
    (void)words;
    struct image before, after;
    uint64_t drift = 1;
    memset(&before, 0, sizeof before);
    for (unsigned i = 0; i < sizeof before; i++) ((uint8_t *)&before)[i] = (uint8_t)(i * 7 + 13);
    after = before;
    /* The address in libc itself: no PLT code may touch a register in between. */
    long (*direct)(void) = count > 1 ? own_call : (long (*)(void))(void *)getppid;
    long result = call_with(&after, direct, &drift);
    printf("result %s, stack %s\n", result == getppid() ? "right" : "wrong",
           drift == 0 ? "level" : "moved");
    printf("red zone: %d changed\n", red_zone_changes(direct));
    printf("changed:");
    for (int i = 0; i < 12; i++)
        if (before.general[i] != after.general[i]) printf(" %s", names[i]);
    for (int i = 0; i < 16; i++)
        if (memcmp(before.vector[i], after.vector[i], 16)) printf(" xmm%d", i);
    printf("\n");
    return 0;
}
