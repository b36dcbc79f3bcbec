// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_NAMES_H
#define HELIOSTAT_NAMES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "code.h"
#include "delegated.h"

// Open for reading.
#define HELIOSTAT_READ 1

// Open for writing.
#define HELIOSTAT_WRITE 2

// Open for the device itself: what is aligned to 4096 goes past every cache, the rest is EINVAL.
#define HELIOSTAT_DIRECT 4

// Open for the caches: reads never go past them, however large. Not with `HELIOSTAT_DIRECT`.
#define HELIOSTAT_BUFFERED 8

// Make the file if it is not there.
#define HELIOSTAT_CREATE 16

// It must not be there. With `HELIOSTAT_CREATE`.
#define HELIOSTAT_EXCLUSIVE 32

// It becomes empty. With `HELIOSTAT_WRITE`.
#define HELIOSTAT_TRUNCATE 64

// Open a directory. With `HELIOSTAT_READ` alone.
#define HELIOSTAT_DIRECTORY 128

// Times this, permissions are part of an access: `HELIOSTAT_CREATE + 0644 * HELIOSTAT_MODE`. The
// program's umask takes its bits away.
#define HELIOSTAT_MODE 65536

// A rename replaces nothing.
#define HELIOSTAT_NOREPLACE 1

// The lock is given back.
#define HELIOSTAT_UNLOCK 0

// Others may have the same lock.
#define HELIOSTAT_LOCK_SHARED 1

// Nobody else may have any.
#define HELIOSTAT_LOCK_ALONE 2

// In a batch: EAGAIN instead of a wait.
#define HELIOSTAT_LOCK_NOW 4

// One entry of a directory.
typedef struct {
  // Its number on the device.
  uint64_t inode;
  // Where the entries after it begin.
  uint64_t cookie;
  // Its name, without a zero at the end; as long as the bytes that it was found in.
  const uint8_t *name;
  // Bytes of the name.
  size_t name_bytes;
  // What it is, as d_type of readdir(3); 0 where the file system does not say.
  uint32_t kind;
  // Zero.
  uint32_t reserved;
} heliostat_entry;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Has the server open the file `name` (an absolute path) with `access`: `HELIOSTAT_READ`,
// `HELIOSTAT_WRITE` and more; with `HELIOSTAT_CREATE` the file's permissions times
// `HELIOSTAT_MODE` are added. The name travels through `scratch`, a place of its length or more, and
// of 64 bytes where the program may read the file by its own io_uring. Waits. What open(2) refuses
// is `HELIOSTAT_NOT_FOUND`, `HELIOSTAT_DENIED`, `HELIOSTAT_TAKEN` (it is there, or a lease is in the
// way), `HELIOSTAT_INVALID`, `HELIOSTAT_UNSUPPORTED` (no local file) or `HELIOSTAT_SYSTEM`, with its
// words. A file that was made stays, also when there is no room for another open one.
//
// # Safety
// `session` is null or live; `name` is null or a C string; `file` is null or valid for writing.
heliostat_code heliostat_delegated_open(heliostat_delegated *session,
                                        const char *name,
                                        uint32_t access,
                                        heliostat_piece scratch,
                                        heliostat_file *file);

// Makes a directory with permissions, of which the program's umask takes its bits away. The name, an
// absolute path, travels through `scratch`, a place of its length or more. Waits. What mkdir(2)
// refuses is `HELIOSTAT_TAKEN` (it is there), `HELIOSTAT_NOT_FOUND`, `HELIOSTAT_DENIED`,
// `HELIOSTAT_INVALID`, `HELIOSTAT_UNSUPPORTED` or `HELIOSTAT_SYSTEM`, with its words: nothing was
// made then. After `HELIOSTAT_PEER_GONE` it may have been made or not.
//
// # Safety
// `session` is null or live; `name` is null or a C string.
heliostat_code heliostat_delegated_mkdir(heliostat_delegated *session,
                                         const char *name,
                                         uint32_t mode,
                                         heliostat_piece scratch);

// Removes an empty directory; as `heliostat_delegated_mkdir`, with what rmdir(2) refuses.
//
// # Safety
// `session` is null or live; `name` is null or a C string.
heliostat_code heliostat_delegated_rmdir(heliostat_delegated *session,
                                         const char *name,
                                         heliostat_piece scratch);

// Removes a name; as `heliostat_delegated_mkdir`, with what unlink(2) refuses.
//
// # Safety
// `session` is null or live; `name` is null or a C string.
heliostat_code heliostat_delegated_unlink(heliostat_delegated *session,
                                          const char *name,
                                          heliostat_piece scratch);

// Gives what is called `from` the name `to`, in one step. `flags` is 0, or `HELIOSTAT_NOREPLACE` for
// `HELIOSTAT_TAKEN` where that is there. `scratch` holds both names. As `heliostat_delegated_mkdir`.
//
// # Safety
// `session` is null or live; the names are null or C strings.
heliostat_code heliostat_delegated_rename(heliostat_delegated *session,
                                          const char *from,
                                          const char *to,
                                          uint32_t flags,
                                          heliostat_piece scratch);

// Makes a symbolic link called `name` to `target`, which is not looked at. `scratch` holds both. As
// `heliostat_delegated_mkdir`.
//
// # Safety
// `session` is null or live; the texts are null or C strings.
heliostat_code heliostat_delegated_symlink(heliostat_delegated *session,
                                           const char *target,
                                           const char *name,
                                           heliostat_piece scratch);

// Where a symbolic link leads: `*bytes` of it, without a zero at the end, lie at the start of
// `scratch`'s bytes in the window then, and as many as there was room for behind the name, which
// `scratch` holds first. As `heliostat_delegated_mkdir`.
//
// # Safety
// `session` is null or live; `name` is null or a C string; `bytes` is null or valid for writing.
heliostat_code heliostat_delegated_readlink(heliostat_delegated *session,
                                            const char *name,
                                            heliostat_piece scratch,
                                            size_t *bytes);

// Makes a file that was opened for writing `bytes` long; new ones are zero. Waits, also for the
// writes that were submitted before. What ftruncate(2) refuses is `HELIOSTAT_INVALID` or
// `HELIOSTAT_SYSTEM`, with its words: the file is as it was.
//
// # Safety
// `session` is null or live.
heliostat_code heliostat_delegated_truncate(heliostat_delegated *session,
                                            heliostat_file file,
                                            uint64_t bytes);

// Locks a whole file: `how` is `HELIOSTAT_LOCK_SHARED`, `HELIOSTAT_LOCK_ALONE` or
// `HELIOSTAT_UNLOCK`. Waits: 0 not at all (`HELIOSTAT_TAKEN`), a negative timeout for ever, else so
// many milliseconds (`HELIOSTAT_TIMED_OUT`), an hour at most. A lock belongs to the opened file, and
// ends with that or the session. Who has one gives it back first, also when this fails.
//
// # Safety
// `session` is null or live.
heliostat_code heliostat_delegated_lock(heliostat_delegated *session,
                                        heliostat_file file,
                                        uint32_t how,
                                        int64_t timeout_ms);

// The entry at `*at` in the bytes of a `HELIOSTAT_KIND_READDIR` that has completed, 0 at first;
// `*at` becomes where the next one is. `bytes` are the result's, and lie in one run. Does not block.
// `HELIOSTAT_EMPTY` behind the last: the next Readdir takes that one's cookie as its offset, and one
// whose result is 0 is at the directory's end.
//
// # Safety
// `bytes` is null or valid for `len`; `at` and `entry` are null or valid.
heliostat_code heliostat_entry_next(const uint8_t *bytes,
                                    size_t len,
                                    size_t *at,
                                    heliostat_entry *entry);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_NAMES_H */
