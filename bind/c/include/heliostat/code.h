// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_CODE_H
#define HELIOSTAT_CODE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// What a call answered. Zero is success; negative numbers are kept for ever.
enum heliostat_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Done.
  HELIOSTAT_OK = 0,
  // A pointer was null, or a name held no terminating zero.
  HELIOSTAT_NULL = -1,
  // No space until the consumer releases something.
  HELIOSTAT_FULL = -2,
  // No element is committed.
  HELIOSTAT_EMPTY = -3,
  // The element or buffer does not fit and never will.
  HELIOSTAT_TOO_LARGE = -4,
  // The other side broke the protocol; or an entry of a log is damaged.
  HELIOSTAT_CORRUPT = -5,
  // The deadline has passed.
  HELIOSTAT_TIMED_OUT = -6,
  // The other side is gone.
  HELIOSTAT_PEER_GONE = -7,
  // That end of the ring is in use already in this process.
  HELIOSTAT_CLAIMED = -8,
  // The kernel refused, or the memory is not fit to be a ring.
  HELIOSTAT_SYSTEM = -9,
  // A bug of this library was caught at the border.
  HELIOSTAT_PANIC = -10,
  // An argument is outside its limits, or a name is none.
  HELIOSTAT_INVALID = -11,
  // No region has that name now, or the region has no such version, or no longer.
  HELIOSTAT_NOT_FOUND = -12,
  // No rule allows it.
  HELIOSTAT_DENIED = -13,
  // The control plane is not there, or did not answer.
  HELIOSTAT_NO_CONTROL = -14,
  // The producer has ended the region.
  HELIOSTAT_ENDED = -15,
  // The kernel or a sandbox does not allow the engine that was asked for.
  HELIOSTAT_UNSUPPORTED = -16,
  // The handle was made before a fork, in the parent.
  HELIOSTAT_FORKED = -17,
  // A living producer has that name; or there is a file by it, or another has the lock.
  HELIOSTAT_TAKEN = -18,
  // The file was opened in an earlier session: open it again. Or the memory region is gone.
  HELIOSTAT_STALE = -19,
  // The operation was given up; it may have been done in part.
  HELIOSTAT_CANCELLED = -20,
  // The function that was called says no.
  HELIOSTAT_FAILED = -21,
  // The barrier is broken until somebody resets it: a participant died or gave up.
  HELIOSTAT_BROKEN = -30,
  // The device has failed: what was not acknowledged may be there or not.
  HELIOSTAT_DEVICE = -31,
  // Another process has it open to write.
  HELIOSTAT_IN_USE = -32,
  // What lies there is no log.
  HELIOSTAT_FOREIGN = -33,
  // No device for a log, or not the one that this log was made on.
  HELIOSTAT_WRONG_DEVICE = -34,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum heliostat_code heliostat_code;
#else
typedef int32_t heliostat_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Why the last call of this thread failed that says so in words: functions of regions,
// attachments and snapshots do. Never null; good until this thread's next call.
const char *heliostat_last_message(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_CODE_H */
