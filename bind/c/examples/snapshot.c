// Versions of an array that goes on changing: who owns what, and what each refusal means.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "heliostat.h"

#define REFUSED(call, wanted)                                                            \
  do {                                                                                   \
    int code = (call);                                                                   \
    if (code != (wanted)) {                                                              \
      fprintf(stderr, "%s answered %d and not " #wanted "\n", #call, code);              \
      return 1;                                                                          \
    }                                                                                    \
  } while (0)

enum { CELLS = 1 << 18 };

// What goes wrong is a code and a sentence, and leaves nothing behind.
static int refusals(heliostat_region *region, heliostat_attachment *reader) {
  heliostat_region *none = NULL;
  heliostat_snapshot *gone = NULL;
  heliostat_settings settings;
  CHECK(heliostat_settings_default(&settings));
  settings.colours = 99;
  REFUSED(heliostat_region_create((const uint8_t *)"x", 1, &settings, &none), HELIOSTAT_INVALID);
  if (!strstr(heliostat_last_message(), "colours") || none) return 1;
  REFUSED(heliostat_region_create(NULL, 1, NULL, &none), HELIOSTAT_NULL);
  REFUSED(heliostat_region_declare(region, CELLS * sizeof(double), 1), HELIOSTAT_INVALID);
  REFUSED(heliostat_region_publish(NULL, NULL), HELIOSTAT_NULL);
  REFUSED(heliostat_snapshot_take(reader, 99, &gone), HELIOSTAT_NOT_FOUND);
  REFUSED(heliostat_attachment_wait(reader, 99, 5), HELIOSTAT_TIMED_OUT);
  heliostat_attachment *lost = NULL;
  CHECK(heliostat_configure("/nonexistent/control.sock", "example"));
  REFUSED(heliostat_attach("heat", HELIOSTAT_OWN_USER, &lost), HELIOSTAT_NO_CONTROL);
  REFUSED(heliostat_attach("no name", HELIOSTAT_OWN_USER, &lost), HELIOSTAT_INVALID);
  return 0;
}

// A forked child has its parent's handles and may not use them.
static int forked(heliostat_region *region, heliostat_attachment *reader) {
  pid_t child = fork();
  if (child == 0) {
    heliostat_region_facts facts;
    int is_refused = heliostat_region_publish(region, NULL) == HELIOSTAT_FORKED &&
                     heliostat_attachment_facts(reader, &facts) == HELIOSTAT_FORKED;
    heliostat_detach(reader);
    heliostat_region_destroy(region);
    _exit(is_refused ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status;
}

int main(int argc, char **argv) {
  double *heat = calloc(CELLS, sizeof(double));
  heliostat_settings settings;
  CHECK(heliostat_settings_default(&settings));
  settings.description = "heat <f8 (262144)";
  // For tools that do not know how the kernel tracks writes, such as Valgrind.
  if (argc > 1 && !strcmp(argv[1], "declared")) settings.engine = HELIOSTAT_ENGINE_DECLARED;
  heliostat_region *region = NULL;
  heliostat_attachment *reader = NULL;
  CHECK(heliostat_region_create((const uint8_t *)heat, CELLS * sizeof(double), &settings, &region));
  // Another process says heliostat_attach(name); the region then has a name in its settings.
  CHECK(heliostat_attach_own(region, &reader));

  heat[1000] = 41;
  heliostat_published first;
  CHECK(heliostat_region_publish(region, &first));
  heliostat_snapshot *snapshot = NULL;
  CHECK(heliostat_snapshot_take(reader, 0, &snapshot));
  const uint8_t *bytes = NULL;
  size_t len = 0;
  CHECK(heliostat_snapshot_bytes(snapshot, &bytes, &len, NULL));
  const double *seen = (const double *)bytes;

  heat[1000] = 42;  // The program goes on; the version does not change.
  CHECK(heliostat_region_declare(region, 1000 * sizeof(double), sizeof(double)));
  CHECK(heliostat_region_publish(region, NULL));
  printf("%.0f ", seen[1000]);
  CHECK(heliostat_attachment_wait(reader, first.number, 1000));
  CHECK(heliostat_snapshot_move(reader, 0, snapshot));
  CHECK(heliostat_snapshot_bytes(snapshot, &bytes, &len, NULL));
  printf("%.0f ", ((const double *)bytes)[1000]);
  if (refusals(region, reader)) return 1;
  // What the child leaves to its parent would look like a leak to such a tool.
  if (argc == 1 && forked(region, reader)) return 1;

  heat[1000] = 43;
  CHECK(heliostat_region_declare(region, 1000 * sizeof(double), sizeof(double)));
  CHECK(heliostat_region_publish(region, NULL));
  heliostat_metrics metrics;
  CHECK(heliostat_region_metrics(region, &metrics));
  char words[32];
  CHECK(heliostat_attachment_description(reader, words, sizeof words, &len));
  if (metrics.published != 3 || strcmp(words, "heat <f8 (262144)")) return 1;

  // The last version stays good when the region, and even the attachment, is gone.
  CHECK(heliostat_snapshot_move(reader, 3, snapshot));
  heliostat_region_destroy(region);
  REFUSED(heliostat_attachment_wait(reader, 3, -1), HELIOSTAT_ENDED);
  heliostat_detach(reader);
  free(heat);
  CHECK(heliostat_snapshot_bytes(snapshot, &bytes, NULL, NULL));
  printf("%.0f\n", ((const double *)bytes)[1000]);
  heliostat_snapshot_release(snapshot);
  return 0;
}
