// A memory region that two programs share: both count in one word, and one reads what the other wrote.
//
// `memory` allocates a region under a name (HELIOSTAT_SOCKET says where the control plane is, or it is
// the user's own), starts itself again as another program that maps it by the name, and prints what
// became of it.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "heliostat.h"

enum { BYTES = 1 << 20, COUNTER = 0, TEXT = 4096, ROUNDS = 100000 };

static int count(const heliostat_memory_region *region) {
  for (int round = 0; round < ROUNDS; round++) CHECK(heliostat_memory_fetch_add(region, COUNTER, 1, NULL));
  return 0;
}

// The other program.
static int take_part(const char *name) {
  heliostat_memory *memory = NULL;
  heliostat_memory_region *region = NULL;
  CHECK(heliostat_memory_open(&memory));
  const uint32_t rights = HELIOSTAT_MEMORY_READ | HELIOSTAT_MEMORY_ATOMIC;
  CHECK(heliostat_memory_map(memory, HELIOSTAT_MEMORY_OWN_USER, name, rights, &region));
  char text[6] = "";
  CHECK(heliostat_memory_read(region, TEXT, text, 5));
  if (strcmp(text, "hello") != 0) return 1;
  // The handle does not allow it, and says so.
  if (heliostat_memory_write(region, TEXT, "other", 5) != HELIOSTAT_DENIED) return 1;
  int failed = count(region);
  heliostat_memory_unmap(region);
  heliostat_memory_close(memory);
  return failed;
}

int main(int words, char **word) {
  if (words == 2) return take_part(word[1]);
  heliostat_memory *memory = NULL;
  heliostat_memory_region *region = NULL;
  CHECK(heliostat_memory_open(&memory));
  CHECK(heliostat_memory_allocate(memory, BYTES, "example/shared", 0, 0, &region));
  CHECK(heliostat_memory_write(region, TEXT, "hello", 5));
  pid_t other = fork();
  if (other == 0) {
    execl(word[0], word[0], "example/shared", (char *)NULL);
    _exit(127);
  }
  int status = 0;
  if (other < 0 || count(region) != 0) return 1;
  if (waitpid(other, &status, 0) != other || status != 0) return 1;
  uint64_t counted = 0, bytes = 0;
  int is_direct = 0;
  CHECK(heliostat_memory_swap(region, COUNTER, 0, &counted));
  CHECK(heliostat_memory_grow(region, 2 * BYTES));
  CHECK(heliostat_memory_size(region, &bytes, &is_direct));
  printf("%" PRIu64 " counted, %" PRIu64 " bytes, %s\n", counted, bytes, is_direct ? "direct" : "delegated");
  if (heliostat_memory_write(region, 2 * BYTES, "x", 1) != HELIOSTAT_INVALID) return 1;
  CHECK(heliostat_memory_free(region));
  heliostat_memory_close(memory);
  return 0;
}
