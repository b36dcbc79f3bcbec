// Drives areas from C, a command a line; test_areas.py tells the commands.
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heliostat.h"

enum { LINE_BYTES = 8192, PATIENCE_MS = 60000, DEPTH = 8, SECTOR = 4096 };

static heliostat_store *store;
static heliostat_area *area;

static const char *word_of(int code) {
  switch (code) {
    case HELIOSTAT_FULL: return "full";
    case HELIOSTAT_STALE: return "stale";
    case HELIOSTAT_INVALID: return "invalid";
    case HELIOSTAT_DEVICE: return "device";
    case HELIOSTAT_IN_USE: return "in_use";
    case HELIOSTAT_DENIED: return "denied";
    case HELIOSTAT_NOT_FOUND: return "not_found";
    case HELIOSTAT_TAKEN: return "taken";
    case HELIOSTAT_UNSUPPORTED: return "unsupported";
    case HELIOSTAT_NO_CONTROL:
    case HELIOSTAT_PEER_GONE: return "no_control";
    case HELIOSTAT_NULL: return "closed";
    default: return "system";
  }
}

static void say(int code) {
  if (code == HELIOSTAT_OK) printf("ok\n");
  else if (code == HELIOSTAT_IN_USE) printf("error in_use: %s\n", heliostat_last_message());
  else printf("error %s\n", word_of(code));
}

static uint32_t rights_of(const char *word) {
  uint32_t rights = 0;
  for (; *word; word++)
    rights |= *word == 'r' ? HELIOSTAT_AREA_READ : *word == 'w' ? HELIOSTAT_AREA_WRITE : HELIOSTAT_AREA_MANAGE;
  return rights;
}

static uint32_t how_of(const char *way, int exclusive) {
  uint32_t how = exclusive ? HELIOSTAT_AREA_EXCLUSIVE : 0;
  if (strcmp(way, "emulated") == 0) how |= HELIOSTAT_AREA_EMULATED;
  if (strcmp(way, "direct") == 0) how |= HELIOSTAT_AREA_DIRECT;
  return how;
}

static void say_read(uint64_t offset, size_t bytes) {
  char *into = malloc(bytes + 1);
  if (into == NULL) abort();
  int code = heliostat_area_read(area, offset, into, bytes);
  if (code == HELIOSTAT_OK) {
    // Bytes of an area may be zero, which ends a string.
    printf("ok ");
    fwrite(into, 1, bytes, stdout);
    printf("\n");
  } else {
    say(code);
  }
  free(into);
}

static void say_size(void) {
  heliostat_area_info info;
  int code = heliostat_area_describe(area, &info);
  if (code == HELIOSTAT_OK) printf("ok %" PRIu64 " %s\n", info.bytes, info.is_direct ? "direct" : "emulated");
  else say(code);
}

// Waits for the next that has ended, asleep on the descriptor.
static int next_of(heliostat_area_queue *queue, heliostat_area_ended *ended) {
  int descriptor = -1;
  int code = heliostat_area_queue_descriptor(queue, &descriptor);
  while (code == HELIOSTAT_OK && (code = heliostat_area_queue_next(queue, 0, ended)) == HELIOSTAT_TIMED_OUT) {
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    if (poll(&entry, 1, PATIENCE_MS) != 1) return HELIOSTAT_TIMED_OUT;
    code = HELIOSTAT_OK;
  }
  return code == HELIOSTAT_OK ? ended->code : code;
}

// Writes so many sectors, several at once, each with its number, and reads them by the same queue.
static int by_queue(uint64_t sectors) {
  static char memory[DEPTH][SECTOR];
  heliostat_area_queue *queue = NULL;
  heliostat_area_ended ended;
  int code = heliostat_area_queue_open(area, DEPTH, &queue);
  uint64_t begun = 0, done = 0;
  while (code == HELIOSTAT_OK && done < sectors) {
    char from[SECTOR];
    memset(from, (int)begun & 0xff, sizeof from);
    if (begun < sectors && begun - done < DEPTH) {
      code = heliostat_area_queue_write(queue, begun, begun * SECTOR, from, sizeof from, begun % 2);
      begun++;
      continue;
    }
    code = next_of(queue, &ended);
    done++;
  }
  if (code == HELIOSTAT_OK && (code = heliostat_area_queue_flush(queue, 77)) == HELIOSTAT_OK) code = next_of(queue, &ended);
  for (uint64_t at = 0; code == HELIOSTAT_OK && at < DEPTH; at++)
    code = heliostat_area_queue_read(queue, at, at * SECTOR, memory[at], SECTOR);
  if (code == HELIOSTAT_OK && heliostat_area_queue_read(queue, 9, 0, memory[0], SECTOR) != HELIOSTAT_FULL) code = HELIOSTAT_SYSTEM;
  for (int at = 0; code == HELIOSTAT_OK && at < DEPTH; at++)
    if ((code = next_of(queue, &ended)) == HELIOSTAT_OK && memory[ended.token][SECTOR - 1] != (char)ended.token) code = HELIOSTAT_SYSTEM;
  if (code == HELIOSTAT_OK && heliostat_area_queue_next(queue, 0, &ended) != HELIOSTAT_EMPTY) code = HELIOSTAT_SYSTEM;
  heliostat_area_queue_close(queue);
  return code;
}

static void act(const char *verb, const char *first, const char *second, const char *third, const char *fourth) {
  uint64_t number = strtoull(first, NULL, 10), other = strtoull(second, NULL, 10);
  if (strcmp(verb, "create") == 0) say(heliostat_area_create(store, first, other, how_of(third, 0), &area));
  else if (strcmp(verb, "open") == 0)
    say(heliostat_area_open(store, HELIOSTAT_AREA_OWN_USER, first, rights_of(second), how_of(third, *fourth), &area));
  else if (strcmp(verb, "size") == 0) say_size();
  else if (strcmp(verb, "write") == 0) say(heliostat_area_write(area, number, second, strlen(second)));
  else if (strcmp(verb, "read") == 0) say_read(number, other);
  else if (strcmp(verb, "flush") == 0) say(heliostat_area_flush(area));
  else if (strcmp(verb, "resize") == 0) say(heliostat_area_resize(area, number));
  else if (strcmp(verb, "queue") == 0) say(by_queue(number));
  else if (strcmp(verb, "delete") == 0) { say(heliostat_area_delete(area)); area = NULL; }
  else if (strcmp(verb, "close") == 0) { heliostat_area_close(area); area = NULL; say(HELIOSTAT_OK); }
  else printf("error no such command\n");
}

int main(void) {
  char line[LINE_BYTES], word[5][LINE_BYTES];
  setvbuf(stdout, NULL, _IOLBF, 0);
  int code = heliostat_store_connect(&store);
  if (code != HELIOSTAT_OK) return 1;
  while (fgets(line, sizeof line, stdin) != NULL) {
    for (int at = 0; at < 5; at++) word[at][0] = '\0';
    sscanf(line, "%s %s %s %s %s", word[0], word[1], word[2], word[3], word[4]);
    act(word[0], word[1], word[2], word[3], word[4]);
  }
  heliostat_area_close(area);
  heliostat_store_close(store);
  return 0;
}
