// A memory region that two programs share: both count in one word, and one reads what the other wrote.
//
// `memory` allocates a region under a name (HELIOSTAT_SOCKET says where the control plane is, or it is
// the user's own), starts itself again as another program that maps it by the name, and prints what
// became of it.
#include <inttypes.h>
#include <poll.h>
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

// Many operations at once: pieces in one call, then some that complete while we do something else.
static int together(const heliostat_memory *memory, const heliostat_memory_region *region) {
  char first[] = "one", second[] = "two", back[8] = "";
  heliostat_memory_piece pieces[] = {{TEXT + 100, first, 3}, {TEXT + 200, second, 3}};
  CHECK(heliostat_memory_write_pieces(region, pieces, 2));
  pieces[0].memory = back, pieces[1].memory = back + 3;
  CHECK(heliostat_memory_read_pieces(region, pieces, 2));
  if (strcmp(back, "onetwo") != 0) return 1;
  heliostat_memory_operations *operations = NULL;
  CHECK(heliostat_memory_operations_open(memory, 2, &operations));
  memset(back, 0, sizeof back);
  const heliostat_memory_operation all[] = {
      {.region = region, .kind = HELIOSTAT_MEMORY_KIND_READ, .offset = TEXT + 200, .memory = back, .bytes = 3},
      {.region = region, .kind = HELIOSTAT_MEMORY_KIND_SWAP, .flags = HELIOSTAT_MEMORY_URGENT, .offset = 64, .argument = 7},
  };
  uint64_t number = 0;
  int descriptor = -1;
  CHECK(heliostat_memory_submit(operations, all, 2, &number));
  if (heliostat_memory_submit(operations, all, 1, &number) != HELIOSTAT_FULL) return 1;
  CHECK(heliostat_memory_descriptor(operations, &descriptor));
  for (int left = 2; left > 0; left--) {
    struct pollfd look = {.fd = descriptor, .events = POLLIN};
    if (poll(&look, 1, 10000) != 1) return 1;
    heliostat_memory_completion completion;
    CHECK(heliostat_memory_wait(operations, 0, &completion));
    if (completion.code != HELIOSTAT_OK || completion.result != (completion.number == number ? 3 : 0)) return 1;
  }
  if (strcmp(back, "two") != 0) return 1;
  heliostat_memory_completion none;
  if (heliostat_memory_wait(operations, -1, &none) != HELIOSTAT_EMPTY) return 1;
  heliostat_memory_operations_close(operations);
  return 0;
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
  CHECK(heliostat_memory_relocate(region));
  CHECK(heliostat_memory_size(region, &bytes, &is_direct));
  printf("%" PRIu64 " counted, %" PRIu64 " bytes, %s\n", counted, bytes, is_direct ? "direct" : "delegated");
  if (together(memory, region) != 0) return 1;
  // Only what is on other nodes has a class.
  if (heliostat_memory_set_class(region, HELIOSTAT_CLASS_LOW) != HELIOSTAT_INVALID) return 1;
  if (heliostat_memory_write(region, 2 * BYTES, "x", 1) != HELIOSTAT_INVALID) return 1;
  CHECK(heliostat_memory_free(region));
  heliostat_memory_close(memory);
  return 0;
}
