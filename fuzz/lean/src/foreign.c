/* What the targets call. */
#include "foreign.h"

void lean_fuzz_completions(const uint8_t *input, size_t bytes)
{
    foreign_completions(input, bytes);
}
void lean_fuzz_text(const uint8_t *input, size_t bytes)
{
    foreign_text(input, bytes);
}
