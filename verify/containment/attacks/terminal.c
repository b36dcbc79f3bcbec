/* The terminal that the program shares with whoever started it.
 *
 * Sources: CVE-2017-5226 (bubblewrap, TIOCSTI), CVE-2019-10063 (flatpak: the command's high bits
 * were not masked), CVE-2023-1523 and CVE-2023-28100 (snapd, flatpak: TIOCLINUX).
 */
#include "attack.h"
#include <asm/termbits.h>
#include <sys/ioctl.h>

static void type_into(long terminal, long command, const char *what) {
    for (const char *letter = "id\n"; *letter; letter++)
        must_fail(CALL(ioctl, terminal, command, letter), what);
}

static void terminal_input(void) {
    type_into(0, TIOCSTI, "TIOCSTI");
    type_into(CALL(openat, AT_FDCWD, "/dev/tty", O_RDWR), TIOCSTI, "TIOCSTI by /dev/tty");
    all_refused();
}

static void terminal_input_high_bits(void) {
    type_into(0, TIOCSTI | (1L << 32), "TIOCSTI with bit 32");
    type_into(0, TIOCSTI | (1L << 63), "TIOCSTI with bit 63");
    type_into(0, TIOCSTI | (0x7fffffffL << 32), "TIOCSTI with many bits");
    all_refused();
}

static void terminal_selection(void) {
    char paste[16] = {3}, select[16] = {2};
    static const long high[] = {0, 1L << 32, 1L << 63};
    for (int i = 0; i < 3; i++) {
        must_be_denied(CALL(ioctl, 0L, TIOCLINUX | high[i], select), "TIOCLINUX: select");
        must_be_denied(CALL(ioctl, 0L, TIOCLINUX | high[i], paste), "TIOCLINUX: paste");
    }
    all_refused();
}

/* Things that outlast the program and change the terminal for whoever comes next. */
static void terminal_switches(void) {
    int discipline = 2;
    must_fail(CALL(ioctl, 0L, TIOCSETD, &discipline), "another line discipline");
    must_fail(CALL(ioctl, 0L, TIOCEXCL, 0L), "the terminal for itself alone");
    must_be_denied(CALL(vhangup), "vhangup");
    all_refused();
}

static void other_terminals(void) {
    char path[64];
    for (int number = 0; number < 32; number++) {
        snprintf(path, sizeof path, "/dev/pts/%d", number);
        must_fail(CALL(openat, AT_FDCWD, path, O_RDWR | O_NOCTTY | O_NONBLOCK), "another terminal");
    }
    must_fail(CALL(openat, AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY), "a terminal of its own");
    must_fail(CALL(openat, AT_FDCWD, "/dev/console", O_RDWR | O_NOCTTY | O_NONBLOCK), "the console");
    all_refused();
}

const struct attack terminal_attacks[] = {
    ATTACK(terminal_input, ANYONE),
    ATTACK(terminal_input_high_bits, ANYONE),
    ATTACK(terminal_selection, NEVER), /* a virtual console's, not a pty's: the kernel says ENOTTY */
    ATTACK(terminal_switches, ANYONE),
    ATTACK(other_terminals, ANYONE),
    {0},
};
