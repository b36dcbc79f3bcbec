// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_MEMORY_OPERATIONS_H
#define HELIOSTAT_MEMORY_OPERATIONS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "code.h"
#include "memory.h"

// The operation is begun before all others that are not urgent and have not begun.
#define HELIOSTAT_MEMORY_URGENT 1

// What an operation on a memory region does.
enum heliostat_memory_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // `bytes` bytes from `offset` on into `memory`, where they lie once the completion is taken.
  HELIOSTAT_MEMORY_KIND_READ = 1,
  // `bytes` bytes of `memory` to `offset` on; copied by the call that submits.
  HELIOSTAT_MEMORY_KIND_WRITE = 2,
  // `bytes` bytes from `offset` on become `argument`, a byte.
  HELIOSTAT_MEMORY_KIND_SET = 3,
  // `bytes` bytes from `offset` on to `argument` on in `into`.
  HELIOSTAT_MEMORY_KIND_COPY = 4,
  // Adds `argument` to the word at `offset`.
  HELIOSTAT_MEMORY_KIND_FETCH_ADD = 5,
  // Stores `argument` in the word at `offset` if it is `expected`.
  HELIOSTAT_MEMORY_KIND_COMPARE_SWAP = 6,
  // Stores `argument` in the word at `offset`.
  HELIOSTAT_MEMORY_KIND_SWAP = 7,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum heliostat_memory_kind heliostat_memory_kind;
#else
typedef int32_t heliostat_memory_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Operations on their way. Threads may share it, but for its end.
typedef struct heliostat_memory_operations heliostat_memory_operations;

// One operation on a region.
typedef struct {
  // With which region.
  const heliostat_memory_region *region;
  // A `heliostat_memory_kind`.
  int32_t kind;
  // 0 or `HELIOSTAT_MEMORY_URGENT`.
  uint32_t flags;
  // Where in the region.
  uint64_t offset;
  // The program's bytes, of a read or write.
  void *memory;
  // How many bytes, of all but words.
  uint64_t bytes;
  // What the kind says; else 0.
  uint64_t argument;
  // Of a compare-and-swap; else 0.
  uint64_t expected;
  // Where a copy goes; else null.
  const heliostat_memory_region *into;
} heliostat_memory_operation;

// How an operation ended.
typedef struct {
  // Its number.
  uint64_t number;
  // Bytes that were moved, or what the word was; 0 where it failed.
  uint64_t result;
  // How it ended, as the call of the same name; `HELIOSTAT_CANCELLED`.
  heliostat_code code;
  // Zero.
  uint32_t reserved;
} heliostat_memory_completion;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes a place for operations that complete later, `limit` at most that are on their way or were not
// taken. `*operations` is the caller's.
//
// # Safety
// `memory` is null or live, `operations` null or valid for writing.
heliostat_code heliostat_memory_operations_open(const heliostat_memory *memory,
                                                size_t limit,
                                                heliostat_memory_operations **operations);

// Gives up what is on its way and ends it. The program's memory is not touched any more. Null is
// ignored.
//
// # Safety
// `operations` is null or live, and not used again.
void heliostat_memory_operations_close(heliostat_memory_operations *operations);

// Submits `count` operations, all or none. `*number` becomes the number of the first; the others follow
// it, one by one. On the direct path they are done when this returns. `HELIOSTAT_FULL`: take completions
// first. `HELIOSTAT_INVALID`: one is none. What else may be wrong the completions say.
//
// # Safety
// `operations` is null or live; `all` is null or valid for `count`, the regions in it live, and the
// memory of each valid for its bytes: of reads until the completion is taken, and nobody else's.
heliostat_code heliostat_memory_submit(const heliostat_memory_operations *operations,
                                       const heliostat_memory_operation *all,
                                       size_t count,
                                       uint64_t *number);

// Takes a completion, waiting for one: 0 looks only, a negative timeout waits for ever. What was read
// lies in its memory now. `HELIOSTAT_TIMED_OUT`; `HELIOSTAT_EMPTY` when nothing is on its way.
//
// # Safety
// `operations` is null or live, `completion` null or valid for writing; the memory of reads is as it was
// promised.
heliostat_code heliostat_memory_wait(const heliostat_memory_operations *operations,
                                     int64_t timeout_ms,
                                     heliostat_memory_completion *completion);

// Gives an operation up. It completes in any case: as `HELIOSTAT_CANCELLED`, perhaps done in part, or as
// if nobody had asked. `HELIOSTAT_NOT_FOUND`: it is not on its way.
//
// # Safety
// `operations` is null or live.
heliostat_code heliostat_memory_cancel(const heliostat_memory_operations *operations,
                                       uint64_t number);

// A descriptor that is readable, for poll(2) and epoll(7), while there is a completion to take. It is
// closed with `operations`.
//
// # Safety
// `operations` is null or live, `descriptor` null or valid for writing.
heliostat_code heliostat_memory_descriptor(const heliostat_memory_operations *operations,
                                           int32_t *descriptor);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_MEMORY_OPERATIONS_H */
