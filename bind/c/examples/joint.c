// A joint session: two processes read one file together, each its half, and add up what they read.
//
// `joint FILE` opens the session and FILE (HELIOSTAT_SOCKET says where the control plane is, or it is
// the user's own), starts itself again as another member with the two descriptors, and prints how
// many bytes there were and their sum.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "heliostat.h"

enum { PIECE = 64 * 1024, MEMBERS = 2, PATIENCE_MS = 20000 };

// What each member has found, at the window's end.
struct found {
  uint64_t bytes, sum;
};

// Adds up every second piece of the file, by a submitter of this thread's own.
static int add_up(heliostat_joint *session, heliostat_file file, size_t member) {
  uint8_t *window = NULL;
  size_t len = 0;
  CHECK(heliostat_joint_window(session, &window, &len));
  struct found *found = (struct found *)(window + len - PIECE) + member;
  heliostat_submitter *submitter = NULL;
  CHECK(heliostat_submitter_new(session, &submitter));
  const heliostat_piece piece = {.offset = member * PIECE, .bytes = PIECE};
  heliostat_operation read = {.kind = HELIOSTAT_KIND_READ, .file = file, .pieces = &piece, .pieces_count = 1};
  for (uint64_t at = member * PIECE;; at += MEMBERS * PIECE) {
    read.offset = at;
    read.tag = at;
    size_t submitted = 0;
    while (submitted == 0) CHECK(heliostat_submitter_submit(submitter, &read, 1, &submitted));
    heliostat_completion done;
    CHECK(heliostat_submitter_wait(submitter, PATIENCE_MS, &done));
    if (done.tag != at || done.result < 0) return 1;
    for (int64_t index = 0; index < done.result; index++) found->sum += window[piece.offset + index];
    found->bytes += done.result;
    if (done.result < PIECE) break;
  }
  heliostat_submitter_end(submitter);
  return 0;
}

// Starts this program again as another member, with copies of the descriptors.
static pid_t start_other(const char *program, heliostat_joint *session, heliostat_file file) {
  int rings = -1, window = -1;
  if (heliostat_joint_descriptors(session, &rings, &window) != HELIOSTAT_OK) return -1;
  pid_t child = fork();
  if (child == 0) {
    char words[5][24];
    snprintf(words[0], 24, "%d", dup(rings));
    snprintf(words[1], 24, "%d", dup(window));
    snprintf(words[2], 24, "%" PRIu32, file.index);
    snprintf(words[3], 24, "%" PRIu32, file.generation);
    snprintf(words[4], 24, "%" PRIu64, file.epoch);
    execl("/proc/self/exe", program, words[0], words[1], words[2], words[3], words[4], (char *)NULL);
    _exit(127);
  }
  return child;
}

static int take_part(char **words) {
  heliostat_joint *session = NULL;
  CHECK(heliostat_joint_join(atoi(words[1]), atoi(words[2]), &session));
  heliostat_file file = {
      .index = strtoul(words[3], NULL, 10),
      .generation = strtoul(words[4], NULL, 10),
      .epoch = strtoull(words[5], NULL, 10),
  };
  int failed = add_up(session, file, 1);
  heliostat_joint_end(session);
  return failed;
}

int main(int count, char **words) {
  if (count == 6) return take_part(words);
  if (count != 2) return 2;
  heliostat_joint *session = NULL;
  size_t len = 4 * PIECE;
  CHECK(heliostat_joint_start(len, MEMBERS, &session));
  uint8_t *window = NULL;
  CHECK(heliostat_joint_window(session, &window, NULL));
  heliostat_submitter *submitter = NULL;
  CHECK(heliostat_submitter_new(session, &submitter));
  heliostat_file file;
  const heliostat_piece scratch = {.offset = 0, .bytes = PIECE};
  CHECK(heliostat_submitter_open(submitter, words[1], HELIOSTAT_READ, scratch, &file));
  heliostat_submitter_end(submitter);

  pid_t other = start_other(words[0], session, file);
  int status = 0;
  if (other < 0 || add_up(session, file, 0) != 0) return 1;
  if (waitpid(other, &status, 0) != other || status != 0) return 1;
  const struct found *found = (const struct found *)(window + len - PIECE);
  printf("%" PRIu64 " bytes, sum %" PRIu64 "\n", found[0].bytes + found[1].bytes, found[0].sum + found[1].sum);
  heliostat_joint_end(session);
  return 0;
}
