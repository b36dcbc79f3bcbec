// A lock that two programs share, and a barrier at which they meet.
//
// `lock` opens both by name (HELIOSTAT_SOCKET says where the control plane is, or it is the user's own),
// starts itself again as another program that does the same, and prints what became of it: how far both
// have counted in a file that nothing else protects, and what is told of a holder that died.
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "heliostat.h"

enum { ROUNDS = 500 };

static int count(const heliostat_lock *lock, const char *path) {
  FILE *file = fopen(path, "r+");
  if (file == NULL) return 1;
  uint64_t last = 0;
  for (int round = 0; round < ROUNDS; round++) {
    heliostat_lock_held *held = NULL;
    uint64_t token = 0, counted = 0;
    CHECK(heliostat_lock_acquire(lock, HELIOSTAT_LOCK_WRITE, -1, &held));
    CHECK(heliostat_lock_token(held, &token, NULL));
    if (token <= last) return 1;
    last = token;
    rewind(file);
    if (fscanf(file, "%" SCNu64, &counted) != 1) return 1;
    rewind(file);
    fprintf(file, "%" PRIu64 "\n", counted + 1);
    fflush(file);
    CHECK(heliostat_lock_release(held));
  }
  return fclose(file);
}

static int open_both(heliostat_locks *locks, heliostat_lock **lock, heliostat_lock **barrier) {
  const uint32_t own = HELIOSTAT_LOCK_OWN_USER;
  CHECK(heliostat_lock_open(locks, own, "example/count", HELIOSTAT_LOCK, 0, 0, lock));
  CHECK(heliostat_lock_open(locks, own, "example/meet", HELIOSTAT_LOCK_BARRIER, 2, 0, barrier));
  return 0;
}

// The other program: it counts, meets, and dies with the lock.
static int take_part(const char *path) {
  heliostat_locks *locks = NULL;
  heliostat_lock *lock = NULL, *barrier = NULL;
  heliostat_lock_held *held = NULL;
  CHECK(heliostat_locks_open(&locks));
  if (open_both(locks, &lock, &barrier) != 0) return 1;
  CHECK(heliostat_barrier_wait(barrier, 60000, NULL, NULL));
  if (count(lock, path) != 0) return 1;
  CHECK(heliostat_barrier_wait(barrier, 60000, NULL, NULL));
  CHECK(heliostat_lock_acquire(lock, HELIOSTAT_LOCK_WRITE, -1, &held));
  CHECK(heliostat_barrier_wait(barrier, 60000, NULL, NULL));
  return raise(SIGKILL);
}

int main(int words, char **word) {
  if (words == 3) return take_part(word[2]);
  if (words != 2) return 2;
  heliostat_locks *locks = NULL;
  heliostat_lock *lock = NULL, *barrier = NULL;
  heliostat_lock_held *held = NULL;
  CHECK(heliostat_locks_open(&locks));
  if (open_both(locks, &lock, &barrier) != 0) return 1;
  FILE *file = fopen(word[1], "w");
  if (file == NULL) return 1;
  fprintf(file, "0\n");
  fclose(file);
  pid_t other = fork();
  if (other == 0) {
    execl(word[0], word[0], "other", word[1], (char *)NULL);
    _exit(127);
  }
  CHECK(heliostat_barrier_wait(barrier, 60000, NULL, NULL));
  if (count(lock, word[1]) != 0) return 1;
  CHECK(heliostat_barrier_wait(barrier, 60000, NULL, NULL));
  uint64_t generation = 0, counted = 0;
  CHECK(heliostat_barrier_wait(barrier, 60000, &generation, NULL));
  int status = 0, has_owner_died = 0;
  if (heliostat_lock_acquire(lock, 7, 0, &held) != HELIOSTAT_INVALID) return 1;
  CHECK(heliostat_lock_acquire(lock, HELIOSTAT_LOCK_WRITE, 60000, &held));
  CHECK(heliostat_lock_token(held, NULL, &has_owner_died));
  if (other < 0 || waitpid(other, &status, 0) != other || !WIFSIGNALED(status)) return 1;
  if (heliostat_barrier_wait(barrier, -1, NULL, NULL) != HELIOSTAT_BROKEN) return 1;
  CHECK(heliostat_barrier_reset(barrier));
  if (heliostat_barrier_wait(barrier, 10, NULL, NULL) != HELIOSTAT_TIMED_OUT) return 1;
  file = fopen(word[1], "r");
  if (file == NULL || fscanf(file, "%" SCNu64, &counted) != 1) return 1;
  fclose(file);
  printf("%" PRIu64 " counted, met %" PRIu64 " times, owner %s\n", counted, generation, has_owner_died ? "died" : "lives");
  CHECK(heliostat_lock_release(held));
  heliostat_lock_close(barrier);
  heliostat_lock_close(lock);
  heliostat_locks_close(locks);
  return 0;
}
