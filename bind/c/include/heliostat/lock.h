// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_LOCK_H
#define HELIOSTAT_LOCK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "code.h"

// A kind: one holder at a time.
#define HELIOSTAT_LOCK 1

// A kind: one writer, or any number of readers.
#define HELIOSTAT_LOCK_READER_WRITER 2

// A kind: `count` permits, 1 to 2^31.
#define HELIOSTAT_LOCK_SEMAPHORE 3

// A kind: `count` participants, 1 to 65,536.
#define HELIOSTAT_LOCK_BARRIER 4

// What is claimed of a lock, and of a reader-writer lock by a writer. Of a semaphore a claim is the
// number of permits.
#define HELIOSTAT_LOCK_WRITE 0

// What a reader claims of a reader-writer lock.
#define HELIOSTAT_LOCK_READ 4294967295

// The user whose names are meant: the caller's own.
#define HELIOSTAT_LOCK_OWN_USER 4294967295

// A lock, semaphore or barrier that is open. Threads may share it, but for its end.
typedef struct heliostat_lock heliostat_lock;

// A lock that is held, or permits of a semaphore.
typedef struct heliostat_lock_held heliostat_lock_held;

// This process's access to locks. Threads may share it.
typedef struct heliostat_locks heliostat_locks;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens it, where `heliostat_configure` has said that the control plane is. `*locks` is the caller's.
// Blocks for half a second at most. `HELIOSTAT_NO_CONTROL` when none answers.
//
// # Safety
// `locks` is null or valid for writing.
heliostat_code heliostat_locks_open(heliostat_locks **locks);

// Ends it; what was opened by it stays. Null is ignored.
//
// # Safety
// `locks` is null or live, and not used again.
void heliostat_locks_close(heliostat_locks *locks);

// The same for names on another node, by its number: what is opened by it is there, and the control
// plane of that node decides. `*there` is the caller's. The node's own number is as if it were not said.
// Where that node is not joined, or is lost, and nothing was done, calls answer
// `HELIOSTAT_NO_CONTROL`; `HELIOSTAT_PEER_GONE` where it may have been done. What was held there is held
// no more when the node is lost, and its names have to be opened anew.
//
// # Safety
// `locks` is null or live, `there` null or valid for writing.
heliostat_code heliostat_locks_on(const heliostat_locks *locks,
                                  uint64_t node,
                                  heliostat_locks **there);

// Opens what has the name among those of `user`, and makes it where nothing has. `count` is that of a
// semaphore or barrier, else 0; `is_silent` not 0 keeps deaths of holders from being told. All who
// open a name say the same: else `HELIOSTAT_TAKEN`. `*lock` is the caller's.
//
// # Safety
// `locks` is null or live, `name` null or a C string, `lock` null or valid for writing.
heliostat_code heliostat_lock_open(const heliostat_locks *locks,
                                   uint32_t user,
                                   const char *name,
                                   uint32_t kind,
                                   uint32_t count,
                                   int32_t is_silent,
                                   heliostat_lock **lock);

// Gives it back. What is held of it stays held until it is released. Null is ignored.
//
// # Safety
// `lock` is null or live, and not used again.
void heliostat_lock_close(heliostat_lock *lock);

// Acquires what is claimed. Blocks for `timeout_ms` at most, for ever if it is negative; with 0 it
// does not wait, and does not get past who waits. `*held` is the caller's. `HELIOSTAT_TIMED_OUT` when
// its turn did not come, `HELIOSTAT_PEER_GONE` when the session with the control plane has ended.
//
// # Safety
// `lock` is null or live, `held` null or valid for writing.
heliostat_code heliostat_lock_acquire(const heliostat_lock *lock,
                                      uint32_t claim,
                                      int64_t timeout_ms,
                                      heliostat_lock_held **held);

// The token, which is larger than that of every acquisition before, and whether a holder has died whose
// work nobody has put right since. Either may be null.
//
// # Safety
// `held` is null or live; `token` and `has_owner_died` are null or valid for writing.
heliostat_code heliostat_lock_token(const heliostat_lock_held *held,
                                    uint64_t *token,
                                    int32_t *has_owner_died);

// Releases it, in any case. `HELIOSTAT_PEER_GONE` when it was lost before: another may hold it.
//
// # Safety
// `held` is null or live, and not used again.
heliostat_code heliostat_lock_release(heliostat_lock_held *held);

// Arrives at a barrier and waits until all have, for `timeout_ms` at most, for ever if it is negative.
// `*generation` is which time that was, `*index` how many had arrived before; either may be null.
// `HELIOSTAT_TIMED_OUT` breaks the barrier for the others, who have `HELIOSTAT_BROKEN`.
//
// # Safety
// `barrier` is null or live; `generation` and `index` are null or valid for writing.
heliostat_code heliostat_barrier_wait(const heliostat_lock *barrier,
                                      int64_t timeout_ms,
                                      uint64_t *generation,
                                      uint32_t *index);

// Makes a barrier whole. Who waits at it has `HELIOSTAT_BROKEN`.
//
// # Safety
// `barrier` is null or live.
heliostat_code heliostat_barrier_reset(const heliostat_lock *barrier);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_LOCK_H */
