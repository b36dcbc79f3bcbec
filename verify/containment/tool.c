/* A program that only tells that it ran: by its exit status, STATUS.
 *
 * It stands alone, so that it runs whichever way the kernel or a loader comes to it.
 */
#include <sys/syscall.h>

void _start(void) {
    __asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(STATUS));
    __builtin_unreachable();
}
