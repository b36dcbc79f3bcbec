/* Replays inputs: `foreign completions|text FILE...`, each with small mutations of it. */
#include "foreign.h"

#include <unistd.h>

enum { INPUT_BYTES_MAX = 1 << 16, SECONDS_MAX = 60 };

int main(int count, char **words)
{
    static uint8_t input[INPUT_BYTES_MAX];
    const uint8_t values[] = {0, 1, 0x2c, 0x2d, 0x7f, 0x80, 0xff};
    if (count < 3) return 2;
    /* An input that is looked at for ever ends the process. */
    alarm(SECONDS_MAX);
    void (*exercise)(const uint8_t *, size_t) = words[1][0] == 't' ? foreign_text : foreign_completions;
    for (int number = 2; number < count; number++) {
        FILE *file = fopen(words[number], "rb");
        size_t bytes = file ? fread(input, 1, sizeof input, file) : 0;
        if (!file || fclose(file)) return 3;
        exercise(input, bytes);
        for (size_t at = 0; at < bytes; at++) {
            uint8_t kept = input[at];
            for (size_t value = 0; value < sizeof values; value++) {
                input[at] = values[value];
                exercise(input, bytes);
            }
            input[at] = kept;
        }
    }
    return 0;
}
