// A memory region on another node, whose number is named, that is written in a lower class than others: what is
// more urgent does not wait for it.
//
// HELIOSTAT_SOCKET says where the control plane is, or it is the user's own.
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "heliostat.h"

enum { BYTES = 1 << 20, ROUNDS = 8 };

int main(int words, char **word) {
  if (words != 2) return 2;
  static char bytes[BYTES];
  heliostat_memory *memory = NULL, *there = NULL;
  heliostat_memory_region *region = NULL;
  CHECK(heliostat_memory_open(&memory));
  CHECK(heliostat_memory_on(memory, strtoull(word[1], NULL, 10), &there));
  CHECK(heliostat_memory_allocate(there, BYTES, NULL, 0, 0, &region));
  if (heliostat_memory_set_class(region, 3) != HELIOSTAT_INVALID) return 1;
  if (heliostat_memory_set_class(NULL, HELIOSTAT_CLASS_LOW) != HELIOSTAT_NULL) return 1;
  CHECK(heliostat_memory_set_class(region, HELIOSTAT_CLASS_LOW));
  for (int round = 0; round < ROUNDS; round++) CHECK(heliostat_memory_write(region, 0, bytes, BYTES));
  CHECK(heliostat_memory_set_class(region, HELIOSTAT_CLASS_HIGH));
  CHECK(heliostat_memory_read(region, 0, bytes, BYTES));
  heliostat_memory_unmap(region);
  heliostat_memory_close(there);
  heliostat_memory_close(memory);
  puts("written low");
  return 0;
}
