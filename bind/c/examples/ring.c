// One message through a ring, in one process: what each call looks like and who owns what.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "heliostat.h"

int main(void) {
  int fd = -1;
  heliostat_ring *ours = NULL, *theirs = NULL;
  heliostat_producer *producer = NULL;
  heliostat_consumer *consumer = NULL;
  CHECK(heliostat_ring_create("example", 4096, &fd, &ours));
  CHECK(heliostat_ring_attach(fd, 0, &theirs));
  CHECK(heliostat_producer_open(ours, &producer));
  CHECK(heliostat_consumer_open(theirs, &consumer));

  uint8_t *into = NULL;
  CHECK(heliostat_reserve(producer, 6, &into));
  memcpy(into, "hello", 6);
  CHECK(heliostat_commit(producer, 6));

  const uint8_t *from = NULL;
  size_t len = 0;
  CHECK(heliostat_wait(consumer, 1000));
  CHECK(heliostat_take(consumer, &from, &len));
  printf("%zu %s\n", len, (const char *)from);
  CHECK(heliostat_release(consumer));

  if (heliostat_take(consumer, &from, &len) != HELIOSTAT_EMPTY) return 1;
  if (heliostat_reserve(producer, 4096, &into) != HELIOSTAT_TOO_LARGE) return 1;
  if (heliostat_reserve(NULL, 1, &into) != HELIOSTAT_NULL) return 1;
  if (heliostat_wait(consumer, 5) != HELIOSTAT_TIMED_OUT) return 1;

  heliostat_producer_close(producer);
  heliostat_consumer_close(consumer);
  heliostat_ring_free(ours);
  heliostat_ring_free(theirs);
  close(fd);
  return 0;
}
