// A log and a queue in files of their own, without any control plane.
//
// `log FOLDER` makes both, fills them, reads the log beside its writer, works the queue off, and prints
// what there was.
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "heliostat.h"

enum { FILE_BYTES = 256 << 10, PATIENCE_MS = 60000 };

static int append(heliostat_log *log, heliostat_position *last) {
  // Durable when it returns.
  CHECK(heliostat_log_append_sync(log, "first", 5, NULL));
  // On their way; they share a write.
  CHECK(heliostat_log_append(log, "second", 6, NULL));
  CHECK(heliostat_log_append(log, "third", 5, last));
  int descriptor = -1;
  CHECK(heliostat_log_descriptor(log, &descriptor));
  while (heliostat_log_wait(log, *last, 0) == HELIOSTAT_TIMED_OUT) {
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    if (poll(&entry, 1, PATIENCE_MS) != 1) return 1;
    CHECK(heliostat_log_drain(log));
  }
  return 0;
}

// What another process does, too: it needs no lock.
static int read_beside(const char *path) {
  heliostat_log_reader *reader = NULL;
  const void *payload = NULL;
  size_t bytes = 0;
  int code = HELIOSTAT_OK;
  CHECK(heliostat_log_read_beside(path, &reader));
  while ((code = heliostat_log_reader_next(reader, &payload, &bytes, NULL, NULL)) == HELIOSTAT_OK)
    printf("%.*s ", (int)bytes, (const char *)payload);
  heliostat_log_reader_close(reader);
  return code == HELIOSTAT_EMPTY ? 0 : 1;
}

static int work_off(const char *path) {
  heliostat_queue *queue = NULL;
  heliostat_queue_item *item = NULL;
  heliostat_position at;
  const void *payload = NULL;
  size_t bytes = 0;
  CHECK(heliostat_queue_create(path, FILE_BYTES, &queue));
  CHECK(heliostat_queue_push_sync(queue, "job", 3, NULL));
  CHECK(heliostat_queue_pop(queue, PATIENCE_MS, &item, &payload, &bytes, &at));
  CHECK(heliostat_queue_give_back(queue, at));
  heliostat_queue_item_release(item);
  CHECK(heliostat_queue_pop(queue, PATIENCE_MS, &item, &payload, &bytes, &at));
  printf("%.*s\n", (int)bytes, (const char *)payload);
  CHECK(heliostat_queue_acknowledge_sync(queue, at));
  heliostat_queue_item_release(item);
  if (heliostat_queue_pop(queue, 0, &item, NULL, NULL, &at) != HELIOSTAT_EMPTY) return 1;
  CHECK(heliostat_queue_close(queue));
  return 0;
}

int main(int words, char **word) {
  if (words != 2) return 2;
  char path[2][4096];
  snprintf(path[0], sizeof path[0], "%s/example.log", word[1]);
  snprintf(path[1], sizeof path[1], "%s/example.queue", word[1]);
  heliostat_log *log = NULL, *again = NULL;
  heliostat_position last;
  CHECK(heliostat_log_create(path[0], FILE_BYTES, &log));
  if (append(log, &last) != 0 || read_beside(path[0]) != 0) return 1;
  if (heliostat_log_open(path[0], &again) != HELIOSTAT_IN_USE) return 1;
  CHECK(heliostat_log_trim(log, last));
  CHECK(heliostat_log_close(log));
  CHECK(heliostat_log_open(path[0], &log));
  heliostat_position begin;
  CHECK(heliostat_log_range(log, &begin, NULL));
  if (begin.at != last.at) return 1;
  CHECK(heliostat_log_close(log));
  if (work_off(path[1]) != 0) return 1;
  return unlink(path[0]) + unlink(path[1]);
}
