// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_LOG_H
#define HELIOSTAT_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "code.h"

// A log that is open to be written. Threads may share it, but for its end.
typedef struct heliostat_log heliostat_log;

// Goes through the entries of a log. For one thread at a time.
typedef struct heliostat_log_reader heliostat_log_reader;

// An entry's place in its log: bytes and entries before it, since the log was made.
typedef struct {
  // Bytes before it.
  uint64_t at;
  // Entries before it; a log counts some that nobody reads.
  uint64_t sequence;
} heliostat_position;

// Called once with what became of an append: `HELIOSTAT_OK` when it is durable, else it is not known
// whether it is. Called by a thread of the library or by one that waits. It may append, and takes no
// lock that is held by somebody who appends or waits.
typedef void (*heliostat_log_done)(void *context, int32_t code, heliostat_position position);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes a log of so many bytes where there is nothing yet, and opens it. `place` is a file's path, or
// `/store/NAME` for an area. Of a file every byte is written once. `*log` is the caller's.
//
// `HELIOSTAT_TAKEN` where there is something, `HELIOSTAT_WRONG_DEVICE` for fewer than 40,960 bytes,
// `HELIOSTAT_DENIED`, `HELIOSTAT_NOT_FOUND` for a folder that is none.
//
// # Safety
// `place` is null or a C string, `log` null or valid for writing.
heliostat_code heliostat_log_create(const char *place,
                                    uint64_t bytes,
                                    heliostat_log **log);

// Opens a log after whatever happened. One process at a time has it open.
//
// `HELIOSTAT_NOT_FOUND`; `HELIOSTAT_IN_USE` while another process has it; `HELIOSTAT_FOREIGN` where
// there is no log, `HELIOSTAT_UNSUPPORTED` of a later format, `HELIOSTAT_WRONG_DEVICE` where it was made
// in a file of another size; `HELIOSTAT_CORRUPT` where what was acknowledged is damaged, and the last
// message says at which position; `HELIOSTAT_DENIED`, `HELIOSTAT_DEVICE`.
//
// # Safety
// As `heliostat_log_create`.
heliostat_code heliostat_log_open(const char *place,
                                  heliostat_log **log);

// Opens a log, or makes one of so many bytes where there is nothing. Answers as both.
//
// # Safety
// As `heliostat_log_create`.
heliostat_code heliostat_log_open_or_create(const char *place, uint64_t bytes, heliostat_log **log);

// Gives up the entries before a position, which an append or an entry has told: its own one is the
// first that stays. Returns at once; after a crash some may be there again, unless
// `heliostat_log_checkpoint` came between.
//
// `HELIOSTAT_STALE` where it was trimmed before, `HELIOSTAT_INVALID` where it is no entry's or not
// acknowledged.
//
// # Safety
// `log` is null or live.
heliostat_code heliostat_log_trim(const heliostat_log *log, heliostat_position position);

// Makes durable what was trimmed, and has the next opening begin here.
//
// # Safety
// `log` is null or live.
heliostat_code heliostat_log_checkpoint(const heliostat_log *log);

// Where the first wanted entry begins, and where the next one that is acknowledged will. Null is
// ignored.
//
// # Safety
// `log` is null or live, `begin` and `end` are null or valid for writing.
heliostat_code heliostat_log_range(const heliostat_log *log,
                                   heliostat_position *begin,
                                   heliostat_position *end);

// Bytes of the longest payload, and bytes for all entries, each of which takes 32 more than its
// payload and is rounded up to 8. Null is ignored.
//
// # Safety
// `log` is null or live, `payload_bytes_max` and `room_bytes` are null or valid for writing.
heliostat_code heliostat_log_limits(const heliostat_log *log,
                                    uint64_t *payload_bytes_max,
                                    uint64_t *room_bytes);

// A descriptor that becomes readable when entries were acknowledged, or the log has failed: for poll,
// epoll and event loops. It is the log's, and there until the log is closed. Who was told drains it,
// and then asks `heliostat_log_range`.
//
// # Safety
// `log` is null or live, `descriptor` null or valid for writing.
heliostat_code heliostat_log_descriptor(const heliostat_log *log,
                                        int32_t *descriptor);

// Has the descriptor not readable until there is something new.
//
// # Safety
// `log` is null or live.
heliostat_code heliostat_log_drain(const heliostat_log *log);

// Waits for what is on its way, writes a checkpoint, and ends the log, whatever this answers. Another
// process can open it when its readers are closed as well. Null is ignored.
//
// # Safety
// `log` is null or live, and not used again.
heliostat_code heliostat_log_close(heliostat_log *log);

// Appends an entry and returns at once; waits only while as much as may be is on its way. It becomes
// durable by itself: `heliostat_log_wait`, `heliostat_log_sync` or the descriptor tell when. Its
// position goes to `*position`, unless null.
//
// `HELIOSTAT_FULL` when the area is full: trimming makes room, and what was acknowledged stays.
// `HELIOSTAT_TOO_LARGE`, `HELIOSTAT_ENDED`, `HELIOSTAT_DEVICE`. Then nothing was appended.
//
// # Safety
// `log` is null or live; `payload` is valid for reading `bytes` bytes that nobody changes, or null and
// these 0; `position` is null or valid for writing.
heliostat_code heliostat_log_append(const heliostat_log *log,
                                    const void *payload,
                                    size_t bytes,
                                    heliostat_position *position);

// The same, and has `done` called with `context` when it is durable. Where this does not answer
// `HELIOSTAT_OK`, `done` is not called.
//
// # Safety
// As `heliostat_log_append`; `done` is null or a function that may be called by any thread with
// `context`.
heliostat_code heliostat_log_append_then(const heliostat_log *log,
                                         const void *payload,
                                         size_t bytes,
                                         heliostat_log_done done,
                                         void *context,
                                         heliostat_position *position);

// Appends an entry and waits until it is durable.
//
// Answers as `heliostat_log_append`; where the device fails meanwhile, the next opening finds out
// whether the entry is there.
//
// # Safety
// As `heliostat_log_append`.
heliostat_code heliostat_log_append_sync(const heliostat_log *log,
                                         const void *payload,
                                         size_t bytes,
                                         heliostat_position *position);

// Waits until the entry at a position is durable, up to `timeout_ms` (negative for ever); 0 only
// looks. `HELIOSTAT_TIMED_OUT`; `HELIOSTAT_INVALID` for a position that no append has told.
//
// # Safety
// `log` is null or live.
heliostat_code heliostat_log_wait(const heliostat_log *log,
                                  heliostat_position position,
                                  int64_t timeout_ms);

// Waits until everything that was appended before is durable.
//
// # Safety
// `log` is null or live.
heliostat_code heliostat_log_sync(const heliostat_log *log);

// Reads the acknowledged entries of an open log, from a position on that an append or an entry has
// told; from the first one where `from` is null. `*reader` is the caller's.
//
// `HELIOSTAT_STALE` where the position was trimmed, `HELIOSTAT_INVALID` where it is none.
//
// # Safety
// `log` is null or live, `from` null or valid for reading, `reader` null or valid for writing.
heliostat_code heliostat_log_read(const heliostat_log *log,
                                  const heliostat_position *from,
                                  heliostat_log_reader **reader);

// Opens a log to be read only, whether another process has it open to write or not. Nothing is
// changed. What it shows, no crash takes back. `*reader` is the caller's.
//
// Answers as `heliostat_log_open`, but never that it is in use.
//
// # Safety
// `place` is null or a C string, `reader` null or valid for writing.
heliostat_code heliostat_log_read_beside(const char *place, heliostat_log_reader **reader);

// Reads the next entry: where its payload lies, until the next call with this reader, and how many
// bytes it has; where it begins, and where the next one does. Each may be null.
//
// `HELIOSTAT_EMPTY` at the end, after which there may be more. `HELIOSTAT_CORRUPT` where an
// acknowledged entry is not there: the last message says at which position, and the reader stays
// there. `HELIOSTAT_STALE` where it was trimmed meanwhile, `HELIOSTAT_DEVICE`.
//
// # Safety
// `reader` is null or live and nobody else's meanwhile; the others are null or valid for writing.
heliostat_code heliostat_log_reader_next(heliostat_log_reader *reader,
                                         const void **payload,
                                         size_t *bytes,
                                         heliostat_position *position,
                                         heliostat_position *next);

// Of a reader beside the writer: waits until the log was written since the last wait, up to
// `timeout_ms` (negative for ever). `HELIOSTAT_TIMED_OUT`; `HELIOSTAT_UNSUPPORTED` of another reader,
// which the log's descriptor tells.
//
// # Safety
// `reader` is null or live.
heliostat_code heliostat_log_reader_wait(const heliostat_log_reader *reader,
                                         int64_t timeout_ms);

// Of a reader beside the writer that is at the end: searches behind it for a proof that there was
// another entry. `HELIOSTAT_CORRUPT`, and the last message says where.
//
// # Safety
// `reader` is null or live and nobody else's meanwhile.
heliostat_code heliostat_log_reader_check_end(heliostat_log_reader *reader);

// Ends a reader. Null is ignored.
//
// # Safety
// `reader` is null or live, and not used again.
void heliostat_log_reader_close(heliostat_log_reader *reader);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_LOG_H */
