// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_STORE_H
#define HELIOSTAT_STORE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "code.h"

// A right: to read an area.
#define HELIOSTAT_AREA_READ 1

// A right: to write it.
#define HELIOSTAT_AREA_WRITE 2

// A right: to change its size, and to end it.
#define HELIOSTAT_AREA_MANAGE 4

// How: no other session may open it to write or manage it meanwhile.
#define HELIOSTAT_AREA_EXCLUSIVE 1

// How: by a server loop.
#define HELIOSTAT_AREA_EMULATED 2

// How: by a queue of this process's own on the device, or not at all.
#define HELIOSTAT_AREA_DIRECT 4

// The user whose names are meant: the caller's own.
#define HELIOSTAT_AREA_OWN_USER 4294967295

// An area that is open. Threads may share it, but for a change of its size and for its end.
typedef struct heliostat_area heliostat_area;

// Operations on an area that are under way, each with the caller's token. For one thread at a time. Its
// area stays open as long as it is there.
typedef struct heliostat_area_queue heliostat_area_queue;

// This process's access to the store. Threads may share it.
typedef struct heliostat_store heliostat_store;

// What an area is.
typedef struct {
  // Its size.
  uint64_t bytes;
  // What names it for ever: an area of the same name that is made later has another.
  uint64_t generation;
  // What offsets and lengths of a queue's operations are multiples of.
  uint32_t sector_bytes;
  // What its size is a multiple of.
  uint32_t grain_bytes;
  // What the handle allows.
  uint32_t rights;
  // 1 where this process drives the device, 0 where a server loop does.
  uint32_t is_direct;
} heliostat_area_info;

// An operation that has ended.
typedef struct {
  // Of the operation, as it was begun.
  uint64_t token;
  // `HELIOSTAT_OK` where it was done as a whole. After a write that failed its sectors hold the old
  // bytes or the new ones.
  int32_t code;
} heliostat_area_ended;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Connects, where `heliostat_configure` has said that the control plane is. `*store` is the caller's.
// `HELIOSTAT_NO_CONTROL` when none answers.
//
// # Safety
// `store` is null or valid for writing.
heliostat_code heliostat_store_connect(heliostat_store **store);

// Ends it; what was opened by it stays. Null is ignored.
//
// # Safety
// `store` is null or live, and not used again.
void heliostat_store_close(heliostat_store *store);

// Makes an area of so many bytes, a multiple of the store's grain, which are zero, and opens it with all
// rights. `how` is 0 or some of `HELIOSTAT_AREA_EXCLUSIVE`, `_EMULATED` and `_DIRECT`. `*area` is the
// caller's.
//
// `HELIOSTAT_TAKEN` where there is one of the name, `HELIOSTAT_FULL` where there is no room or a limit is
// reached, `HELIOSTAT_DENIED`, `HELIOSTAT_NOT_FOUND` where the control plane has no store.
//
// # Safety
// `store` is null or live, `name` null or a C string, `area` null or valid for writing.
heliostat_code heliostat_area_create(const heliostat_store *store,
                                     const char *name,
                                     uint64_t bytes,
                                     uint32_t how,
                                     heliostat_area **area);

// Opens the area that has the name among those of `user`, with all of `rights` or not at all. `how` as
// for `heliostat_area_create`. `*area` is the caller's.
//
// `HELIOSTAT_NOT_FOUND`, `HELIOSTAT_DENIED`; `HELIOSTAT_IN_USE` where another process has it exclusively,
// or writes it and it is wanted so: the last message names the process. `HELIOSTAT_UNSUPPORTED` where it
// was wanted directly, and the last message says why not.
//
// # Safety
// As `heliostat_area_create`.
heliostat_code heliostat_area_open(const heliostat_store *store,
                                   uint32_t user,
                                   const char *name,
                                   uint32_t rights,
                                   uint32_t how,
                                   heliostat_area **area);

// What an area is, as it was when it was opened or became by `heliostat_area_resize`.
//
// # Safety
// `area` is null or live, `info` null or valid for writing.
heliostat_code heliostat_area_describe(const heliostat_area *area, heliostat_area_info *info);

// Reads bytes from any offset on, and waits for them. `HELIOSTAT_INVALID` beyond the end,
// `HELIOSTAT_DENIED`, `HELIOSTAT_DEVICE`, `HELIOSTAT_PEER_GONE` where the control plane has ended.
//
// # Safety
// `area` is null or live; `into` is null or valid for writing `bytes` bytes.
heliostat_code heliostat_area_read(const heliostat_area *area,
                                   uint64_t offset,
                                   void *into,
                                   size_t bytes);

// Writes bytes to any offset, and waits until they are read so by others. They last after a
// `heliostat_area_flush`. What else lies in the first and the last sector is read before and written
// again. Answers as `heliostat_area_read`; some of the bytes may be written then.
//
// # Safety
// `area` is null or live; `from` is null or valid for reading `bytes` bytes that nobody changes.
heliostat_code heliostat_area_write(const heliostat_area *area,
                                    uint64_t offset,
                                    const void *from,
                                    size_t bytes);

// Makes last what was written before: it survives a loss of power. After `HELIOSTAT_DEVICE` nothing is
// known of what was written since the last flush.
//
// # Safety
// `area` is null or live.
heliostat_code heliostat_area_flush(const heliostat_area *area);

// Gives an area another size, a multiple of its grain. Bytes that it gains are zero. To make it smaller
// no queue of it may be open in this process: `HELIOSTAT_IN_USE`, as where another process drives it.
//
// # Safety
// `area` is null or live, and used by nobody else meanwhile.
heliostat_code heliostat_area_resize(heliostat_area *area,
                                     uint64_t bytes);

// Ends an area, with all handles on it, and its bytes. The handle is gone, whatever this answers.
//
// # Safety
// `area` is null or live, and not used again.
heliostat_code heliostat_area_delete(heliostat_area *area);

// Gives the handle back; the area stays. What was written and not flushed may be lost with the power.
// Null is ignored.
//
// # Safety
// `area` is null or live, and not used again.
void heliostat_area_close(heliostat_area *area);

// Makes a queue for so many operations at once, 1 to 1,024. `*queue` is the caller's.
//
// # Safety
// `area` is null or live, `queue` null or valid for writing.
heliostat_code heliostat_area_queue_open(const heliostat_area *area,
                                         uint32_t depth,
                                         heliostat_area_queue **queue);

// Begins to read whole sectors to `into`, which is the queue's until this operation has ended.
//
// `HELIOSTAT_FULL` while as many operations are under way as may be; `HELIOSTAT_INVALID` for bytes that
// are no whole sectors of the area; `HELIOSTAT_DEVICE`. Then nothing was begun.
//
// # Safety
// `queue` is null or live; `into` is null or valid for writing `bytes` bytes until the operation has
// ended or the queue was closed.
heliostat_code heliostat_area_queue_read(heliostat_area_queue *queue,
                                         uint64_t token,
                                         uint64_t offset,
                                         void *into,
                                         size_t bytes);

// Begins to write whole sectors, which are copied before this returns; with `is_durable` not 0 they
// survive a loss of power when it has ended. Answers as `heliostat_area_queue_read`.
//
// # Safety
// `queue` is null or live; `from` is null or valid for reading `bytes` bytes that nobody changes.
heliostat_code heliostat_area_queue_write(heliostat_area_queue *queue,
                                          uint64_t token,
                                          uint64_t offset,
                                          const void *from,
                                          size_t bytes,
                                          int32_t is_durable);

// Begins to make last what was written by operations that had ended before. Answers as
// `heliostat_area_queue_read`.
//
// # Safety
// `queue` is null or live.
heliostat_code heliostat_area_queue_flush(heliostat_area_queue *queue, uint64_t token);

// The next operation that has ended, in any order, waited for up to `timeout_ms` (0 for not at all,
// negative for ever).
//
// `HELIOSTAT_EMPTY` where nothing is under way, `HELIOSTAT_TIMED_OUT` where none has ended by then.
// `HELIOSTAT_DEVICE` and `HELIOSTAT_PEER_GONE` where nothing that is under way will end.
//
// # Safety
// `queue` is null or live, `ended` null or valid for writing.
heliostat_code heliostat_area_queue_next(heliostat_area_queue *queue,
                                         int64_t timeout_ms,
                                         heliostat_area_ended *ended);

// How many operations were begun and have not been told to have ended.
//
// # Safety
// `queue` is null or live, `count` null or valid for writing.
heliostat_code heliostat_area_queue_under_way(const heliostat_area_queue *queue, size_t *count);

// A descriptor that is readable when an operation may have ended, for poll, epoll and event loops: who
// is told asks `heliostat_area_queue_next` until it has none. It is the queue's, and there until that is
// closed. By the emulated way a thread of this process listens for it.
//
// # Safety
// `queue` is null or live, `descriptor` null or valid for writing.
heliostat_code heliostat_area_queue_descriptor(heliostat_area_queue *queue,
                                               int32_t *descriptor);

// Ends a queue. What is under way may be done or not. Null is ignored.
//
// # Safety
// `queue` is null or live, and not used again.
void heliostat_area_queue_close(heliostat_area_queue *queue);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_STORE_H */
