// Delegated operations: a file read in one batch, in whatever order the pieces come, and added up.
//
// `delegated FILE` reads FILE in pieces of 64 KiB, up to 64 under way, by the control plane's server
// loop (HELIOSTAT_SOCKET, or the user's own), and prints how many bytes there were, their sum, and
// how many reads went which way. Then it appends a line to FILE.log, a file that it opens by name.
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "heliostat.h"

enum { PIECE = 64 * 1024, DEPTH = 64, PATIENCE_MS = 20000 };
static const char *const WAYS[] = {"none", "cached", "filled", "direct", "kernel", "own"};

static heliostat_operation read_into(heliostat_file file, uint64_t offset, const heliostat_piece *piece) {
  heliostat_operation operation = {.kind = HELIOSTAT_KIND_READ, .file = file, .offset = offset};
  operation.pieces = piece;
  operation.pieces_count = 1;
  operation.tag = piece->offset / PIECE;
  return operation;
}

// Keeps as many reads under way as there are pieces in the window.
static int add_up(heliostat_delegated *session, heliostat_file file) {
  uint8_t *window = NULL;
  CHECK(heliostat_delegated_window(session, &window, NULL));
  uint64_t next = 0, bytes = 0, sum = 0, ways[6] = {0};
  size_t under_way = 0, submitted = 0;
  int at_end = 0;
  heliostat_piece pieces[DEPTH];
  heliostat_operation batch[DEPTH];
  for (size_t slot = 0; slot < DEPTH; slot++, next += PIECE) {
    pieces[slot] = (heliostat_piece){.offset = slot * PIECE, .bytes = PIECE};
    batch[slot] = read_into(file, next, &pieces[slot]);
  }
  CHECK(heliostat_delegated_submit(session, batch, DEPTH, &submitted));
  for (under_way = submitted; under_way > 0; under_way--) {
    heliostat_completion done;
    CHECK(heliostat_delegated_wait(session, PATIENCE_MS, &done));
    if (done.result < 0 || done.tag >= DEPTH || done.way > 5) {
      fprintf(stderr, "a read answered %" PRId64 "\n", done.result);
      return 1;
    }
    for (int64_t at = 0; at < done.result; at++) sum += window[done.tag * PIECE + at];
    bytes += done.result;
    ways[done.way]++;
    at_end |= done.result < PIECE;
    if (at_end) continue;
    batch[0] = read_into(file, next, &pieces[done.tag]);
    next += PIECE;
    CHECK(heliostat_delegated_submit(session, batch, 1, &submitted));
    under_way += submitted;
  }
  printf("%" PRIu64 " bytes, sum %" PRIu64 ";", bytes, sum);
  for (int way = 1; way < 6; way++) printf(" %s %" PRIu64, WAYS[way], ways[way]);
  printf("\n");
  return 0;
}

static int finish(heliostat_delegated *session, heliostat_operation operation, int64_t wanted) {
  size_t submitted = 0;
  heliostat_completion done;
  CHECK(heliostat_delegated_submit(session, &operation, 1, &submitted));
  CHECK(heliostat_delegated_wait(session, PATIENCE_MS, &done));
  if (done.tag == operation.tag && done.result == wanted) return 0;
  fprintf(stderr, "operation %d answered %" PRId64 "\n", operation.kind, done.result);
  return 1;
}

static int note(heliostat_delegated *session, const char *name) {
  static const char LINE[] = "added up\n";
  uint8_t *window = NULL;
  heliostat_file file;
  const heliostat_piece scratch = {.offset = 0, .bytes = 4096};
  const heliostat_piece line = {.offset = 4096, .bytes = sizeof LINE - 1};
  CHECK(heliostat_delegated_window(session, &window, NULL));
  CHECK(heliostat_delegated_open(session, name, HELIOSTAT_WRITE, scratch, &file));
  memcpy(window + line.offset, LINE, line.bytes);
  heliostat_operation append = {.kind = HELIOSTAT_KIND_APPEND, .file = file, .tag = 1, .pieces = &line, .pieces_count = 1};
  heliostat_operation fsync = {.kind = HELIOSTAT_KIND_FSYNC, .file = file, .tag = 2};
  heliostat_operation close = {.kind = HELIOSTAT_KIND_CLOSE, .file = file, .tag = 3};
  return finish(session, append, line.bytes) || finish(session, fsync, 0) || finish(session, close, 0);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "delegated FILE\n");
    return 2;
  }
  heliostat_delegated *session = NULL;
  heliostat_file file;
  int descriptor = open(argv[1], O_RDONLY);
  if (descriptor < 0) {
    perror(argv[1]);
    return 1;
  }
  CHECK(heliostat_delegated_start((size_t)DEPTH * PIECE, &session));
  CHECK(heliostat_delegated_show(session, descriptor, 0, &file));
  close(descriptor);
  char name[4096];
  snprintf(name, sizeof name, "%s.log", argv[1]);
  int failed = add_up(session, file) || note(session, name);
  // A session that is ended closes its files; saying so is the program's habit, not a duty.
  heliostat_operation close = {.kind = HELIOSTAT_KIND_CLOSE, .file = file, .tag = 4};
  failed = failed || finish(session, close, 0);
  heliostat_delegated_end(session);
  return failed;
}
