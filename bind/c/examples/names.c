// Names of delegated files: a directory of versions, of which each replaces the one before at once.
//
// `names FOLDER` makes FOLDER/versions and puts three versions of a file into it by the control
// plane's server (HELIOSTAT_SOCKET, or the user's own): each is written under another name, brought
// to the disk and renamed under a lock, so that a reader sees the old one or the new one whole. Then
// it makes a link to the last one, and lists the directory.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "heliostat.h"

enum { PLACE = 64 * 1024, PATIENCE_MS = 20000, VERSIONS = 3 };
static const heliostat_piece SCRATCH = {.offset = 0, .bytes = 8192};
static const heliostat_piece LISTED = {.offset = PLACE, .bytes = PLACE};

static int finish(heliostat_delegated *session, heliostat_operation operation, int64_t *result) {
  size_t submitted = 0;
  heliostat_completion done;
  CHECK(heliostat_delegated_submit(session, &operation, 1, &submitted));
  CHECK(heliostat_delegated_wait(session, PATIENCE_MS, &done));
  if (result != NULL) *result = done.result;
  if (done.result >= 0) return 0;
  fprintf(stderr, "operation %d answered %" PRId64 "\n", operation.kind, done.result);
  return 1;
}

// Writes a version beside the current one, and puts it in its place.
static int put(heliostat_delegated *session, heliostat_file directory, const char *folder, int version) {
  char draft[2048], current[2048];
  snprintf(draft, sizeof draft, "%s/versions/draft.%d", folder, version);
  snprintf(current, sizeof current, "%s/versions/current", folder);
  uint8_t *window = NULL;
  heliostat_file file;
  CHECK(heliostat_delegated_window(session, &window, NULL));
  const uint32_t access = HELIOSTAT_WRITE | HELIOSTAT_CREATE | HELIOSTAT_EXCLUSIVE;
  CHECK(heliostat_delegated_open(session, draft, access + 0644 * HELIOSTAT_MODE, SCRATCH, &file));
  heliostat_piece text = {.offset = PLACE};
  text.bytes = (uint32_t)snprintf((char *)window + PLACE, PLACE, "version %d\n", version);
  heliostat_operation write = {.kind = HELIOSTAT_KIND_WRITE, .file = file, .pieces = &text, .pieces_count = 1};
  heliostat_operation fsync = {.kind = HELIOSTAT_KIND_FSYNC, .file = file};
  heliostat_operation close = {.kind = HELIOSTAT_KIND_CLOSE, .file = file};
  if (finish(session, write, NULL) || finish(session, fsync, NULL) || finish(session, close, NULL)) return 1;
  // One at a time: who else puts versions there asks for the same lock.
  CHECK(heliostat_delegated_lock(session, directory, HELIOSTAT_LOCK_ALONE, PATIENCE_MS));
  CHECK(heliostat_delegated_rename(session, draft, current, 0, SCRATCH));
  fsync.file = directory;
  if (finish(session, fsync, NULL)) return 1;
  CHECK(heliostat_delegated_lock(session, directory, HELIOSTAT_UNLOCK, 0));
  return 0;
}

static int list(heliostat_delegated *session, heliostat_file directory) {
  uint8_t *window = NULL;
  CHECK(heliostat_delegated_window(session, &window, NULL));
  heliostat_operation read = {.kind = HELIOSTAT_KIND_READDIR, .file = directory, .pieces = &LISTED, .pieces_count = 1};
  for (;;) {
    int64_t bytes = 0;
    if (finish(session, read, &bytes)) return 1;
    if (bytes == 0) return 0;
    heliostat_entry entry;
    size_t at = 0;
    while (heliostat_entry_next(window + LISTED.offset, (size_t)bytes, &at, &entry) == HELIOSTAT_OK) {
      printf("%.*s\n", (int)entry.name_bytes, (const char *)entry.name);
      read.offset = entry.cookie;
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "names FOLDER\n");
    return 2;
  }
  char folder[1024], link[1100];
  snprintf(folder, sizeof folder, "%s/versions", argv[1]);
  snprintf(link, sizeof link, "%s/newest", argv[1]);
  heliostat_delegated *session = NULL;
  heliostat_file directory;
  CHECK(heliostat_delegated_start(2 * PLACE, &session));
  CHECK(heliostat_delegated_mkdir(session, folder, 0755, SCRATCH));
  CHECK(heliostat_delegated_open(session, folder, HELIOSTAT_READ | HELIOSTAT_DIRECTORY, SCRATCH, &directory));
  for (int version = 1; version <= VERSIONS; version++) {
    if (put(session, directory, argv[1], version)) return 1;
  }
  CHECK(heliostat_delegated_symlink(session, "versions/current", link, SCRATCH));
  if (list(session, directory)) return 1;
  heliostat_delegated_end(session);
  return 0;
}
