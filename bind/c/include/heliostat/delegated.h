// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_DELEGATED_H
#define HELIOSTAT_DELEGATED_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "code.h"

// Pieces that one operation has at most.
#define HELIOSTAT_PIECES_MAX 16

// Largest tag; those above are the library's own.
#define HELIOSTAT_TAG_MAX 9223372036854775807

// What an operation does.
enum heliostat_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Bytes of the file at `offset` into the pieces.
  HELIOSTAT_KIND_READ = 1,
  // The pieces into the file at `offset`.
  HELIOSTAT_KIND_WRITE = 2,
  // The pieces to the end of the file, in one step.
  HELIOSTAT_KIND_APPEND = 3,
  // What was written before is on the disk once this completes; no pieces.
  HELIOSTAT_KIND_FSYNC = 4,
  // What is known of the file into the one piece: 64 bytes as docs/delegated.md lays them out.
  HELIOSTAT_KIND_STAT = 6,
  // The file is not needed any more; no pieces.
  HELIOSTAT_KIND_CLOSE = 7,
  // The file becomes `argument` bytes long; no pieces.
  HELIOSTAT_KIND_TRUNCATE = 9,
  // The directory whose name lies in the one piece is made, with the permissions in `argument`.
  HELIOSTAT_KIND_MKDIR = 10,
  // The directory whose name lies in the one piece is removed.
  HELIOSTAT_KIND_RMDIR = 11,
  // The name in the one piece is removed.
  HELIOSTAT_KIND_UNLINK = 12,
  // What has the name in the first piece gets the one in the second; `HELIOSTAT_NOREPLACE`.
  HELIOSTAT_KIND_RENAME = 13,
  // A symbolic link to what the first piece says gets the name in the second.
  HELIOSTAT_KIND_SYMLINK = 14,
  // Where the link whose name lies in the first piece leads, into the second.
  HELIOSTAT_KIND_READLINK = 15,
  // Entries of a directory from a cookie on, which is `offset`: see `heliostat_entry_next`.
  HELIOSTAT_KIND_READDIR = 16,
  // A lock on the whole file: `HELIOSTAT_LOCK_SHARED` and the like in `argument`; no pieces.
  HELIOSTAT_KIND_LOCK = 17,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum heliostat_kind heliostat_kind;
#else
typedef int32_t heliostat_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A session with the server loop, and its window. One thread at a time.
typedef struct heliostat_delegated heliostat_delegated;

// A file that the server has open. A plain value: copy it, compare it by its fields.
typedef struct {
  // Its number among the session's files.
  uint32_t index;
  // Tells it from others that had the number.
  uint32_t generation;
  // Of which session it is.
  uint64_t epoch;
} heliostat_file;

// A place in the window.
typedef struct {
  // First byte, counted from the window's start.
  uint64_t offset;
  // Number of bytes, at least 1.
  uint32_t bytes;
  // Zero.
  uint32_t reserved;
} heliostat_piece;

// One operation.
typedef struct {
  // A `heliostat_kind`.
  int32_t kind;
  // Microseconds until it ends with ETIMEDOUT; 0 for never.
  uint32_t timeout_us;
  // With which file; any for kinds that are about names.
  heliostat_file file;
  // Where in the file, in bytes.
  uint64_t offset;
  // Comes back with the completion; at most `HELIOSTAT_TAG_MAX`.
  uint64_t tag;
  // Where in the window, in order; read during the call that submits.
  const heliostat_piece *pieces;
  // How many, at most `HELIOSTAT_PIECES_MAX`.
  size_t pieces_count;
  // What the kind says; else 0.
  uint64_t argument;
} heliostat_operation;

// How an operation ended.
typedef struct {
  // The operation's tag.
  uint64_t tag;
  // Bytes moved, or minus an errno of this system.
  int64_t result;
  // By which way: 0 none, 1 cached, 2 filled, 3 direct, 4 the kernel's page cache, 5 direct by an
  // io_uring of the program's own.
  uint32_t way;
  // Zero.
  uint32_t reserved;
} heliostat_completion;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Begins a session with a window of `window_bytes` (whole pages), all zero; a process has one at a
// time. `*session` is the caller's. Blocks for half a second at most. `HELIOSTAT_NO_CONTROL`,
// `HELIOSTAT_DENIED`, `HELIOSTAT_FULL`, `HELIOSTAT_TAKEN`: nothing is left behind.
//
// # Safety
// `session` is null or valid for writing.
heliostat_code heliostat_delegated_start(size_t window_bytes, heliostat_delegated **session);

// Where the window is and how long. Its bytes are the program's own; those of an operation's pieces
// belong to the server until it has completed. Good until the session is ended.
//
// # Safety
// `session` is null or live; the outputs are null or valid for writing.
heliostat_code heliostat_delegated_window(heliostat_delegated *session,
                                          uint8_t **bytes,
                                          size_t *len);

// Has the server work with a file that this process has open, with the rights of the descriptor.
// `way` is 0, `HELIOSTAT_DIRECT` or `HELIOSTAT_BUFFERED`, each as for `heliostat_delegated_open`; else
// `HELIOSTAT_INVALID`. The descriptor stays the caller's. Waits; errors as there.
//
// # Safety
// `session` is null or live; `file` is null or valid for writing.
heliostat_code heliostat_delegated_show(heliostat_delegated *session,
                                        int32_t fd,
                                        uint32_t way,
                                        heliostat_file *file);

// Whether files that are opened with `HELIOSTAT_DIRECT` from now on are read by this program's own
// io_uring, where the control plane has no limit for it (docs/delegated.md); so it is at first. With
// 0 the server loop reads them all, beside whatever the calling thread does. Does not block.
//
// # Safety
// `session` is null or live.
heliostat_code heliostat_delegated_read_directly(heliostat_delegated *session,
                                                 int32_t is_wanted);

// Submits operations in order and rings the server once. `*submitted` becomes how many there was
// room for; the others are to be submitted again after completions were taken. Does not block.
// `HELIOSTAT_INVALID`, `HELIOSTAT_STALE`: nothing was submitted. A piece beyond the window is
// answered with a completion (EINVAL).
//
// # Safety
// `session` is null or live; `operations` is valid for `count`, and the pieces of each for theirs;
// `submitted` is null or valid for writing.
heliostat_code heliostat_delegated_submit(heliostat_delegated *session,
                                          const heliostat_operation *operations,
                                          size_t count,
                                          size_t *submitted);

// Asks for the end of the operation with this tag and waits for the answer. It completes in any
// case: with ECANCELED, or as if nobody had asked. `HELIOSTAT_NOT_FOUND`: it was not under way.
//
// # Safety
// `session` is null or live.
heliostat_code heliostat_delegated_cancel(heliostat_delegated *session, uint64_t tag);

// Takes a completion, waiting for one: 0 looks only, a negative timeout waits for ever.
// `HELIOSTAT_TIMED_OUT`; `HELIOSTAT_EMPTY` when nothing is under way. `HELIOSTAT_PEER_GONE`: the
// control plane has ended the session, what was under way may be done or not, files are to be
// opened again, and what is submitted next begins another session.
//
// # Safety
// `session` is null or live; `completion` is null or valid for writing.
heliostat_code heliostat_delegated_wait(heliostat_delegated *session,
                                        int64_t timeout_ms,
                                        heliostat_completion *completion);

// Ends the session. What is under way goes on until the device is done; nobody hears of it. The
// program's own reads are waited for, two seconds at most. The window may not be used any more. Null is ignored.
//
// # Safety
// `session` is null or came from this library and is not used again.
void heliostat_delegated_end(heliostat_delegated *session);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_DELEGATED_H */
