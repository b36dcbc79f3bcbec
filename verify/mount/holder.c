// A program that holds names of every kind and does what it is told, one line at a time.
//
//   snapshot NAME BYTES   a region of numbers, all alike in each version
//   publish N             all numbers are N from now on, in a new version       -> version NUMBER
//   race                  publishes as fast as it can, until the next line      -> raced NUMBER
//   region NAME BYTES LASTING OTHERS   a memory region                          -> region
//   poke OFFSET TEXT      writes into it                                        -> poked
//   peek OFFSET BYTES     reads from it                                         -> peeked TEXT
//   lock NAME             holds a lock                                          -> held
//   serve NAME            serves a function                                     -> served
//   log PLACE BYTES       opens a log, or makes it                              -> log
//   append TEXT           appends a line to it, durable                         -> appended
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../bind/c/examples/check.h"
#include "heliostat.h"
#include "heliostat/log.h"

enum { LINE = 512, TEXT = 400, COLOURS = 4 };

static uint64_t *cells;
static size_t cell_count;
static heliostat_region *snapshots;
static heliostat_log *opened;
static heliostat_memory *memory;
static heliostat_memory_region *region;

static int named(const char *name, size_t bytes) {
  cell_count = bytes / sizeof *cells;
  cells = calloc(cell_count, sizeof *cells);
  heliostat_settings settings;
  CHECK(heliostat_settings_default(&settings));
  settings.name = name;
  settings.colours = COLOURS;
  settings.description = "numbers";
  CHECK(heliostat_region_create((const uint8_t *)cells, bytes, &settings, &snapshots));
  printf("snapshot\n");
  return 0;
}

static uint64_t publish(uint64_t number) {
  for (size_t at = 0; at < cell_count; at++) cells[at] = number;
  heliostat_published published;
  return heliostat_region_publish(snapshots, &published) == HELIOSTAT_OK ? published.number : 0;
}

// Each version's numbers are one more than those before; readers must never see two in one file.
static int race(void) {
  uint64_t last = 0;
  struct pollfd next = {.fd = 0, .events = POLLIN};
  while (poll(&next, 1, 0) == 0) {
    uint64_t number = publish(cells[0] + 1);
    last = number ? number : last;
  }
  printf("raced %" PRIu64 "\n", last);
  return 0;
}

static int allocated(const char *name, uint64_t bytes, int lasting, uint32_t others) {
  if (memory == NULL) CHECK(heliostat_memory_open(&memory));
  CHECK(heliostat_memory_allocate(memory, bytes, name, lasting, others, &region));
  printf("region\n");
  return 0;
}

static int held(const char *name) {
  heliostat_locks *locks = NULL;
  heliostat_lock *lock = NULL;
  heliostat_lock_held *is_held = NULL;
  CHECK(heliostat_locks_open(&locks));
  CHECK(heliostat_lock_open(locks, HELIOSTAT_LOCK_OWN_USER, name, HELIOSTAT_LOCK, 0, 0, &lock));
  CHECK(heliostat_lock_acquire(lock, HELIOSTAT_LOCK_WRITE, -1, &is_held));
  printf("held\n");
  return 0;
}

static int served(const char *name) {
  heliostat_rpc *rpc = NULL;
  heliostat_service *service = NULL;
  CHECK(heliostat_rpc_open(&rpc));
  CHECK(heliostat_rpc_serve(rpc, name, NULL, &service));
  printf("served\n");
  return 0;
}

static int logged(const char *place, uint64_t bytes) {
  CHECK(heliostat_log_open_or_create(place, bytes, &opened));
  printf("log\n");
  return 0;
}

// Entries as programs write them to a file: lines.
static int append(char *text) {
  heliostat_position position;
  strcat(text, "\n");
  CHECK(heliostat_log_append_sync(opened, (const uint8_t *)text, strlen(text), &position));
  printf("appended\n");
  return 0;
}

static int obey(const char *line) {
  char text[TEXT + 2] = "";
  uint64_t number = 0, bytes = 0;
  int lasting = 0;
  uint32_t others = 0;
  if (sscanf(line, "snapshot %400s %" SCNu64, text, &bytes) == 2) return named(strdup(text), bytes);
  if (sscanf(line, "publish %" SCNu64, &number) == 1) {
    printf("version %" PRIu64 "\n", publish(number));
    return 0;
  }
  if (strncmp(line, "race", 4) == 0) return race();
  if (sscanf(line, "region %400s %" SCNu64 " %d %" SCNu32, text, &bytes, &lasting, &others) == 4)
    return allocated(text, bytes, lasting, others);
  if (sscanf(line, "poke %" SCNu64 " %400s", &number, text) == 2) {
    CHECK(heliostat_memory_write(region, number, text, strlen(text)));
    printf("poked\n");
    return 0;
  }
  if (sscanf(line, "peek %" SCNu64 " %" SCNu64, &number, &bytes) == 2 && bytes <= TEXT) {
    CHECK(heliostat_memory_read(region, number, text, bytes));
    printf("peeked %s\n", text);
    return 0;
  }
  if (sscanf(line, "lock %400s", text) == 1) return held(text);
  if (sscanf(line, "serve %400s", text) == 1) return served(text);
  if (sscanf(line, "log %400s %" SCNu64, text, &bytes) == 2) return logged(text, bytes);
  if (sscanf(line, "append %400s", text) == 1) return append(text);
  fprintf(stderr, "what is %s", line);
  return 1;
}

int main(void) {
  char line[LINE];
  setvbuf(stdin, NULL, _IONBF, 0);
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (fgets(line, sizeof line, stdin) != NULL)
    if (obey(line) != 0) return 1;
  return 0;
}
