// Two programs and a name: `named produce NAME` publishes, `named consume NAME` attaches to it.
//
// The control plane is the usual one (HELIOSTAT_SOCKET, or the user's own). The producer ends when
// its standard input does; the consumer when the region ends, after it has read 20 versions.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "heliostat.h"

enum { CELLS = 1 << 16, VERSIONS = 20, PATIENCE_MS = 20000 };

static int produce(const char *name) {
  double *cells = calloc(CELLS, sizeof(double));
  heliostat_settings settings;
  heliostat_region *region = NULL;
  CHECK(heliostat_settings_default(&settings));
  settings.name = name;
  settings.description = "65536 doubles, all alike";
  CHECK(heliostat_region_create((const uint8_t *)cells, CELLS * sizeof(double), &settings, &region));
  puts("named");
  fflush(stdout);
  struct pollfd input = {.fd = 0, .events = POLLIN};
  for (double step = 1; poll(&input, 1, 1) == 0; step++) {
    for (int at = 0; at < CELLS; at++) cells[at] = step;
    CHECK(heliostat_region_declare(region, 0, CELLS * sizeof(double)));
    CHECK(heliostat_region_publish(region, NULL));
  }
  heliostat_region_destroy(region);
  free(cells);
  return 0;
}

// The number in every cell of the newest version; -1 where they differ.
static int read_one(heliostat_attachment *reader, double *step) {
  heliostat_snapshot *snapshot = NULL;
  const uint8_t *bytes = NULL;
  size_t len = 0;
  CHECK(heliostat_snapshot_take(reader, 0, &snapshot));
  CHECK(heliostat_snapshot_bytes(snapshot, &bytes, &len, NULL));
  const double *cells = (const double *)bytes;
  *step = len == CELLS * sizeof(double) ? cells[0] : -1;
  for (int at = 1; at < CELLS && *step > 0; at++) {
    if (cells[at] != *step) *step = -1;
  }
  heliostat_snapshot_release(snapshot);
  return 0;
}

static int consume(const char *name) {
  heliostat_attachment *reader = NULL;
  heliostat_region_facts facts;
  char words[64];
  size_t len = 0;
  CHECK(heliostat_attach(name, HELIOSTAT_OWN_USER, &reader));
  CHECK(heliostat_attachment_description(reader, words, sizeof words, &len));
  CHECK(heliostat_attachment_facts(reader, &facts));
  printf("attached %llu generation %llu: %s\n", (unsigned long long)facts.bytes,
         (unsigned long long)facts.generation, words);
  fflush(stdout);
  double before = 0, step = 0;
  for (int seen = 0; seen < VERSIONS; seen++) {
    CHECK(heliostat_attachment_facts(reader, &facts));
    CHECK(heliostat_attachment_wait(reader, facts.latest, PATIENCE_MS));
    if (read_one(reader, &step) || step <= before) {
      fprintf(stderr, "version shows %g after %g\n", step, before);
      return 1;
    }
    before = step;
  }
  printf("read %d\n", VERSIONS);
  fflush(stdout);
  int code = HELIOSTAT_OK;
  while (code == HELIOSTAT_OK) {
    CHECK(heliostat_attachment_facts(reader, &facts));
    code = heliostat_attachment_wait(reader, facts.latest, PATIENCE_MS);
  }
  // What was published last stays readable.
  int failed = code != HELIOSTAT_ENDED || read_one(reader, &step) || step < before;
  heliostat_detach(reader);
  if (!failed) puts("ended");
  return failed;
}

int main(int argc, char **argv) {
  if (argc == 3 && !strcmp(argv[1], "produce")) return produce(argv[2]);
  if (argc == 3 && !strcmp(argv[1], "consume")) return consume(argv[2]);
  fprintf(stderr, "named produce|consume NAME\n");
  return 2;
}
