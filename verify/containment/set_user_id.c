/* Installed set-user-id: ends with 70 when that gave it another user's rights. */
#include <unistd.h>

int main(void) { return geteuid() != getuid() ? 70 : 0; }
