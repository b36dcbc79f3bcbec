// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_SNAPSHOT_H
#define HELIOSTAT_SNAPSHOT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "code.h"
#include "region.h"

// Attach to a region of one's own user.
#define HELIOSTAT_OWN_USER 4294967295

// A region of somebody's, mapped for reading. Any thread, several at a time.
typedef struct heliostat_attachment heliostat_attachment;

// A pinned version in one piece of memory. One thread at a time moves it on; its bytes may be read
// by any.
typedef struct heliostat_snapshot heliostat_snapshot;

// Hands two descriptors of a consumer, its page of pins and an end of its bell, to the producer, and
// answers 0 once that has let it in (`heliostat_region_admit`). They are closed afterwards.
typedef int32_t (*heliostat_announce)(void *context, int32_t pins, int32_t bell);

// What an attachment knows of its region.
typedef struct {
  // Bytes of the region.
  uint64_t bytes;
  // Number of the newest version, 0 before the first.
  uint64_t latest;
  // Counts the producers of its name; 1 for the first.
  uint64_t generation;
  // 1 once the producer has ended it in good order.
  uint32_t is_ended;
} heliostat_region_facts;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Attaches to the region that user `owner` (`HELIOSTAT_OWN_USER`: one's own) has named.
// `*attachment` is the caller's. Blocks for half a second at most.
//
// # Safety
// `name` is null or a C string; `attachment` is null or valid for writing.
heliostat_code heliostat_attach(const char *name,
                                uint32_t owner,
                                heliostat_attachment **attachment);

// Attaches to a region of this very process, named or not: for analysis on another thread.
//
// # Safety
// `region` is null or live; `attachment` is null or valid for writing.
heliostat_code heliostat_attach_own(heliostat_region *region, heliostat_attachment **attachment);

// Attaches by the descriptors of `heliostat_region_descriptors`, which the producer has handed over
// by some way of its own; without name and control plane. They stay the caller's. Before anything
// is pinned `announce` is called, with `context`: a number but 0 is `HELIOSTAT_PEER_GONE`.
//
// # Safety
// `announce` is null or may be called with `context`; `attachment` is null or valid for writing.
heliostat_code heliostat_attach_by(int32_t table,
                                   int32_t pool,
                                   heliostat_announce announce,
                                   void *context,
                                   heliostat_attachment **attachment);

// What is known of the region now. Does not block.
//
// # Safety
// `attachment` is null or live; `facts` is null or valid for writing.
heliostat_code heliostat_attachment_facts(const heliostat_attachment *attachment,
                                          heliostat_region_facts *facts);

// Copies the region's description, cut to `room` - 1 bytes and ended by a zero. `*len` becomes its
// whole length, unless `len` is null. Foreign words: they are the producer's.
//
// # Safety
// `attachment` is null or live; `into` is null or valid for `room` bytes; `len` is null or valid
// for writing.
heliostat_code heliostat_attachment_description(const heliostat_attachment *attachment,
                                                char *into,
                                                size_t room,
                                                size_t *len);

// Sleeps until there is a version newer than `number`; a negative timeout waits for ever, a signal
// ends it as the timeout does. `HELIOSTAT_ENDED`: the producer has ended, or died 0.5 s ago.
//
// # Safety
// `attachment` is null or live.
heliostat_code heliostat_attachment_wait(const heliostat_attachment *attachment,
                                         uint64_t number,
                                         int64_t timeout_ms);

// Leaves the region. Snapshots that were taken stay good until they are released. Null is ignored.
//
// # Safety
// `attachment` is null or came from this library and is not used again.
void heliostat_detach(heliostat_attachment *attachment);

// Pins version `number`, or the newest for 0, and maps it in one piece. `*snapshot` is the
// caller's. `HELIOSTAT_NOT_FOUND`: no such version, or no longer. `HELIOSTAT_FULL`: eight versions
// are pinned by this attachment already.
//
// # Safety
// `attachment` is null or live; `snapshot` is null or valid for writing.
heliostat_code heliostat_snapshot_take(const heliostat_attachment *attachment,
                                       uint64_t number,
                                       heliostat_snapshot **snapshot);

// Lets a snapshot show version `number`, or the newest for 0, of the same attachment instead: only
// what differs is mapped. Pointers into the old version show other bytes from then on. On failure
// it shows what it showed, but for `HELIOSTAT_SYSTEM`, after which it is to be released.
//
// # Safety
// `attachment` and `snapshot` are null or live, and the snapshot is of that attachment.
heliostat_code heliostat_snapshot_move(const heliostat_attachment *attachment,
                                       uint64_t number,
                                       heliostat_snapshot *snapshot);

// Where the version's bytes are, how many, and which version it is; each output may be null. The
// bytes are read-only, and good until the snapshot is moved on or released.
//
// # Safety
// `snapshot` is null or live; the outputs are null or valid for writing.
heliostat_code heliostat_snapshot_bytes(const heliostat_snapshot *snapshot,
                                        const uint8_t **bytes,
                                        size_t *len,
                                        uint64_t *number);

// Lets the version go; its bytes may not be read any more. Null is ignored.
//
// # Safety
// `snapshot` is null or came from this library and is not used again.
void heliostat_snapshot_release(heliostat_snapshot *snapshot);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_SNAPSHOT_H */
