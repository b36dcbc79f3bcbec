/* A library whose calls on a socket are instructions of its own, and not libc's. */
#include <stddef.h>

/* Libraries of another form are other libraries: nobody has seen them before. */
#ifdef FORM
const int own_form = FORM;
#endif

static long call(long number, long a, long b, long c, long d) {
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = 0;
    register long sixth __asm__("r9") = 0;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
}

long own_send(int fd, const void *bytes, size_t length) {
    return call(44, fd, (long)bytes, (long)length, 0);
}

long own_recv(int fd, void *room, size_t length) {
    return call(45, fd, (long)room, (long)length, 0);
}

/* The number is not known where the call is made. */
long own_call(long number, int fd, void *room, size_t length) {
    return call(number, fd, (long)room, (long)length, 0);
}

#ifdef UNPROVABLE
/* A call in the middle of bytes that no unwind table describes, with no room for a jump. */
__asm__(".text\n.globl own_close\n.type own_close,@function\n"
        "own_close:\n mov $3, %al\n jmp 1f\n1: syscall\n jmp 2f\n2: ret\n.size own_close,.-own_close\n");
#endif
