/* Two workers read one file in large parts, the second one behind the first: `follows FILE PASSES` */
#include "heliostat_lean_host.h"

#include <stdio.h>

enum { PART = 512 * 1024, BEHIND = 4 };

int main(int count, char **words)
{
    hl_lean lean = {0};
    hl_object file = {0, 0};
    hl_facts facts = {0};
    uint64_t sum = 0;
    if (count < 3 || hl_host_attach(&lean) || hl_open(&lean, words[1], HL_READ, 0, &file) || hl_stat(&lean, file, &facts))
        return 9;
    uint8_t *part = (uint8_t *)hl_payload(&lean);
    for (int pass = 0; pass < atoi(words[2]); pass++)
        for (uint64_t at = 0; at + PART <= facts.size; at += PART) {
            /* Who follows begins later, and nobody hurries. */
            usleep(lean.worker && at == 0 ? BEHIND * 5000 : 5000);
            if (hl_read(&lean, file, at, part, PART) != PART)
                return 8;
            sum += part[0] + part[PART - 1];
        }
    fprintf(stderr, "sum %llu\n", (unsigned long long)sum);
    pause();
    return 0;
}
