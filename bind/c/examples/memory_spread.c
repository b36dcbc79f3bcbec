// A memory region that is spread over the nodes whose numbers are named (without a cluster: 0), written and
// read as one, and found again by its name.
//
// HELIOSTAT_SOCKET says where the control plane is, or it is the user's own.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "heliostat.h"

enum { BYTES = 3 << 20, NODES_MAX = 64 };

int main(int words, char **word) {
  uint64_t nodes[NODES_MAX] = {0};
  size_t count = words > 1 ? 0 : 1;
  for (int at = 1; at < words && count < NODES_MAX; at++) nodes[count++] = strtoull(word[at], NULL, 10);
  heliostat_memory *memory = NULL;
  heliostat_spread *spread = NULL, *found = NULL;
  CHECK(heliostat_memory_open(&memory));
  CHECK(heliostat_spread_allocate(memory, BYTES, nodes, count, "example/spread", 0, 0, &spread));
  if (heliostat_spread_allocate(memory, BYTES, nodes, count, "example/spread", 0, 0, &found) != HELIOSTAT_TAKEN) return 1;
  unsigned char *written = malloc(BYTES), *read = malloc(BYTES);
  for (size_t at = 0; at < BYTES; at++) written[at] = (unsigned char)(at % 251);
  CHECK(heliostat_spread_write(spread, 0, written, BYTES));
  const uint32_t rights = HELIOSTAT_MEMORY_READ | HELIOSTAT_MEMORY_WRITE | HELIOSTAT_MEMORY_ATOMIC;
  CHECK(heliostat_spread_map(memory, HELIOSTAT_MEMORY_OWN_USER, "example/spread", rights, &found));
  CHECK(heliostat_spread_read(found, 0, read, BYTES));
  const int same = memcmp(written, read, BYTES) == 0;
  uint64_t old = 1, bytes = 0;
  CHECK(heliostat_spread_set(found, BYTES - 8, 8, 0));
  CHECK(heliostat_spread_fetch_add(found, BYTES - 8, 5, NULL));
  CHECK(heliostat_spread_compare_swap(spread, BYTES - 8, 5, 6, &old));
  CHECK(heliostat_spread_size(found, &bytes));
  if (heliostat_spread_read(found, BYTES, read, 1) != HELIOSTAT_INVALID) return 1;
  heliostat_spread_unmap(found);
  CHECK(heliostat_spread_free(spread));
  heliostat_memory_close(memory);
  printf("%" PRIu64 " bytes, %s, %" PRIu64 "\n", bytes, same ? "the same" : "others", old);
  free(written), free(read);
  return same ? 0 : 1;
}
