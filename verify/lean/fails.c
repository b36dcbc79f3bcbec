/* A worker that ends with 3: each, or only the one whose number is said. */
#include "heliostat_lean_host.h"

int main(int count, char **words)
{
    hl_lean lean = {0};
    if (hl_host_attach(&lean))
        return 9;
    return count < 2 || lean.worker == (uint32_t)atoi(words[1]) ? 3 : 0;
}
