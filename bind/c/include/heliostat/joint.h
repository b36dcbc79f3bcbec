// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_JOINT_H
#define HELIOSTAT_JOINT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "code.h"
#include "delegated.h"

// This process's part of a joint session. Threads may share it.
typedef struct heliostat_joint heliostat_joint;

// One thread's end of a joint session. One thread at a time.
typedef struct heliostat_submitter heliostat_submitter;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens a session for as many processes at a time as `members` says, 16 at most, this one among them,
// with a window of `window_bytes` (whole pages), all zero. `*session` is the caller's. Blocks for half
// a second at most. Errors as for `heliostat_delegated_start`.
//
// # Safety
// `session` is null or valid for writing.
heliostat_code heliostat_joint_start(size_t window_bytes,
                                     uint32_t members,
                                     heliostat_joint **session);

// The two descriptors that another process needs to join, which stay the session's: send them, or
// leave copies open for a child. Whoever has them can do with the session what its opener can.
//
// # Safety
// `session` is null or live; the outputs are null or valid for writing.
heliostat_code heliostat_joint_descriptors(heliostat_joint *session,
                                           int32_t *rings,
                                           int32_t *window);

// Joins a session by its two descriptors, which stay the caller's. In the place of a process that is
// gone, what that had under way is ended first, which takes 20 ms, or half a second if it does not
// end. `HELIOSTAT_FULL`: as many processes as may take part. `HELIOSTAT_PEER_GONE`: the session has
// ended.
//
// # Safety
// `session` is null or valid for writing.
heliostat_code heliostat_joint_join(int32_t rings,
                                    int32_t window,
                                    heliostat_joint **session);

// Where the window is and how long; all members share it. Good until the session is ended here.
//
// # Safety
// `session` is null or live; the outputs are null or valid for writing.
heliostat_code heliostat_joint_window(heliostat_joint *session, uint8_t **bytes, size_t *len);

// An end for one thread. `*submitter` is the caller's; it may outlive the session's handle.
//
// # Safety
// `session` is null or live; `submitter` is null or valid for writing.
heliostat_code heliostat_submitter_new(heliostat_joint *session, heliostat_submitter **submitter);

// Has the server open the file `name` (an absolute path) with `access` as
// `heliostat_delegated_open` does, as the process that has opened the session. The file is every
// member's: its fields may be sent to the others. Waits.
//
// # Safety
// `submitter` is null or live; `name` is null or a C string; `file` is null or valid for writing.
heliostat_code heliostat_submitter_open(heliostat_submitter *submitter,
                                        const char *name,
                                        uint32_t access,
                                        heliostat_piece scratch,
                                        heliostat_file *file);

// Submits operations in order and rings the server once, as `heliostat_delegated_submit` does.
// `*submitted` may be 0 after a tenth of a second: another process was stopped while it submitted.
//
// # Safety
// As for `heliostat_delegated_submit`.
heliostat_code heliostat_submitter_submit(heliostat_submitter *submitter,
                                          const heliostat_operation *operations,
                                          size_t count,
                                          size_t *submitted);

// Takes a completion of what this end has submitted, waiting for one as `heliostat_delegated_wait`
// does. `HELIOSTAT_PEER_GONE`: the session has ended, for all members.
//
// # Safety
// As for `heliostat_delegated_wait`.
heliostat_code heliostat_submitter_wait(heliostat_submitter *submitter,
                                        int64_t timeout_ms,
                                        heliostat_completion *completion);

// Asks for the end of this end's operation with this tag, as `heliostat_delegated_cancel` does.
//
// # Safety
// `submitter` is null or live.
heliostat_code heliostat_submitter_cancel(heliostat_submitter *submitter, uint64_t tag);

// Gives a thread's end back; what it has under way goes on. Null is ignored.
//
// # Safety
// `submitter` is null or came from this library and is not used again.
void heliostat_submitter_end(heliostat_submitter *submitter);

// Ends this process's part; the opener's end, once its submitters have ended, is the session's. Null
// is ignored.
//
// # Safety
// `session` is null or came from this library and is not used again.
void heliostat_joint_end(heliostat_joint *session);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_JOINT_H */
