// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_QUEUE_H
#define HELIOSTAT_QUEUE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "code.h"
#include "log.h"

// A queue that is open. Threads may share it, but for its end.
typedef struct heliostat_queue heliostat_queue;

// The payload of an entry that was handed out.
typedef struct heliostat_queue_item heliostat_queue_item;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes a queue of so many bytes where there is nothing yet, as `heliostat_log_create` does a log.
// `*queue` is the caller's.
//
// # Safety
// `place` is null or a C string, `queue` null or valid for writing.
heliostat_code heliostat_queue_create(const char *place, uint64_t bytes, heliostat_queue **queue);

// Opens a queue, as `heliostat_log_open` does a log. What was handed out before and whose
// acknowledgement is not durable is handed out again.
//
// # Safety
// As `heliostat_queue_create`.
heliostat_code heliostat_queue_open(const char *place, heliostat_queue **queue);

// Opens a queue, or makes one of so many bytes where there is nothing. Answers as both.
//
// # Safety
// As `heliostat_queue_create`.
heliostat_code heliostat_queue_open_or_create(const char *place,
                                              uint64_t bytes,
                                              heliostat_queue **queue);

// Takes the next durable entry that nobody has, and waits for one up to `timeout_ms` (0 for not at
// all, negative for ever). Its payload lies at `*payload` until `*item`, the caller's, is released;
// by its position it is acknowledged or given back.
//
// `HELIOSTAT_EMPTY` when there was none in time. `HELIOSTAT_FULL` when the first entry that is not
// acknowledged lies 2,048 behind. `HELIOSTAT_CORRUPT` and `HELIOSTAT_DEVICE` as for a log.
//
// # Safety
// `queue` is null or live, the others are null or valid for writing.
heliostat_code heliostat_queue_pop(const heliostat_queue *queue,
                                   int64_t timeout_ms,
                                   heliostat_queue_item **item,
                                   const void **payload,
                                   size_t *bytes,
                                   heliostat_position *position);

// Lets go of a payload; the entry stays handed out. Null is ignored.
//
// # Safety
// `item` is null or live, and not used again.
void heliostat_queue_item_release(heliostat_queue_item *item);

// Says that an entry was dealt with. Returns at once: a crash before the next header block is written
// has it handed out again. `HELIOSTAT_INVALID` where it is not handed out.
//
// # Safety
// `queue` is null or live.
heliostat_code heliostat_queue_acknowledge(const heliostat_queue *queue,
                                           heliostat_position position);

// The same, and waits until it is durable: the entry is never handed out again.
//
// # Safety
// `queue` is null or live.
heliostat_code heliostat_queue_acknowledge_sync(const heliostat_queue *queue,
                                                heliostat_position position);

// Gives an entry back, for the next who takes one. `HELIOSTAT_INVALID` where it is not handed out.
//
// # Safety
// `queue` is null or live.
heliostat_code heliostat_queue_give_back(const heliostat_queue *queue, heliostat_position position);

// A descriptor that becomes readable when there may be more to take, or the queue has failed. It is
// the queue's, and there until that is closed. Who was told drains it, and takes until it is empty.
//
// # Safety
// `queue` is null or live, `descriptor` null or valid for writing.
heliostat_code heliostat_queue_descriptor(const heliostat_queue *queue, int32_t *descriptor);

// Has the descriptor not readable until there is something new.
//
// # Safety
// `queue` is null or live.
heliostat_code heliostat_queue_drain(const heliostat_queue *queue);

// Waits for what is on its way, makes durable what was acknowledged, and ends the queue, whatever this
// answers. Null is ignored.
//
// # Safety
// `queue` is null or live, and not used again.
heliostat_code heliostat_queue_close(heliostat_queue *queue);

// Appends an entry and returns at once, as `heliostat_log_append` does. It can be taken when it is
// durable.
//
// # Safety
// `queue` is null or live; `payload` is valid for reading `bytes` bytes that nobody changes, or null
// and these 0; `position` is null or valid for writing.
heliostat_code heliostat_queue_push(const heliostat_queue *queue,
                                    const void *payload,
                                    size_t bytes,
                                    heliostat_position *position);

// The same, and waits until it is durable.
//
// # Safety
// As `heliostat_queue_push`.
heliostat_code heliostat_queue_push_sync(const heliostat_queue *queue,
                                         const void *payload,
                                         size_t bytes,
                                         heliostat_position *position);

// The same without waiting, and has `done` called with `context` when it is durable and can be taken, as
// `heliostat_log_append_then`. Where this does not answer `HELIOSTAT_OK`, `done` is not called.
//
// # Safety
// As `heliostat_queue_push`; `done` is null or a function that may be called by any thread with
// `context`.
heliostat_code heliostat_queue_push_then(const heliostat_queue *queue,
                                         const void *payload,
                                         size_t bytes,
                                         heliostat_log_done done,
                                         void *context,
                                         heliostat_position *position);

// Waits until the entry that was pushed to a position is durable, up to `timeout_ms` (negative for
// ever); 0 only looks. `HELIOSTAT_TIMED_OUT`; `HELIOSTAT_INVALID` for a position that no push has told.
//
// # Safety
// `queue` is null or live.
heliostat_code heliostat_queue_wait(const heliostat_queue *queue,
                                    heliostat_position position,
                                    int64_t timeout_ms);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_QUEUE_H */
