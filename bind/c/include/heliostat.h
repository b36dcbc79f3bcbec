// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_H
#define HELIOSTAT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Attach to a region of one's own user.
#define HELIOSTAT_OWN_USER 4294967295

// Open for reading.
#define HELIOSTAT_READ 1

// Open for writing.
#define HELIOSTAT_WRITE 2

// Open for the device itself: what is aligned to 4096 goes past every cache, the rest is EINVAL.
#define HELIOSTAT_DIRECT 4

// Pieces that one operation has at most.
#define HELIOSTAT_PIECES_MAX 16

// Largest tag; those above are the library's own.
#define HELIOSTAT_TAG_MAX 9223372036854775807

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
  // The other side broke the protocol.
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
  // A living producer has that name.
  HELIOSTAT_TAKEN = -18,
  // The file was opened in an earlier session: open it again.
  HELIOSTAT_STALE = -19,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum heliostat_code heliostat_code;
#else
typedef int32_t heliostat_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How writes to a region become known.
enum heliostat_engine
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // By the kernel where it can, else every version is a whole copy.
  HELIOSTAT_ENGINE_PROBED = 0,
  // By the kernel, or not at all.
  HELIOSTAT_ENGINE_TRACKED = 1,
  // By the program (`heliostat_region_declare`).
  HELIOSTAT_ENGINE_DECLARED = 2,
  // Not: every version is a whole copy.
  HELIOSTAT_ENGINE_WHOLE = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum heliostat_engine heliostat_engine;
#else
typedef int32_t heliostat_engine;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

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
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum heliostat_kind heliostat_kind;
#else
typedef int32_t heliostat_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A region of somebody's, mapped for reading. Any thread, several at a time.
typedef struct heliostat_attachment heliostat_attachment;

// The consuming end.
typedef struct heliostat_consumer heliostat_consumer;

// A session with the server loop, and its window. One thread at a time.
typedef struct heliostat_delegated heliostat_delegated;

// The producing end.
typedef struct heliostat_producer heliostat_producer;

// A region that this process publishes. One thread at a time.
typedef struct heliostat_region heliostat_region;

// The shared memory of a ring, mapped.
typedef struct heliostat_ring heliostat_ring;

// A pinned version in one piece of memory. One thread at a time moves it on; its bytes may be read
// by any.
typedef struct heliostat_snapshot heliostat_snapshot;

// How a region is set up. `heliostat_settings_default` fills it; then change what you want.
typedef struct {
  // Bytes of this structure, as the caller was compiled: later versions have more.
  size_t bytes;
  // Name under which others find the region; null for none. UTF-8.
  const char *name;
  // What the bytes mean, for whoever attaches, at most 2044 bytes; null for nothing. UTF-8.
  const char *description;
  // A `heliostat_engine`.
  int32_t engine;
  // Versions that may be alive together, plus one in the making: 2 to 16.
  uint32_t colours;
  // The newest so many versions stay, pinned or not: 1 to `colours` - 1.
  uint32_t keep;
  // 1: look after every copy whether somebody wrote meanwhile (`heliostat_published`).
  uint32_t looks_for_races;
  // How long a publishing waits for a place; 0: not at all, it answers `HELIOSTAT_FULL`.
  uint64_t patience_ns;
} heliostat_settings;

// What a publishing did.
typedef struct {
  // The version's number, greater than that of the one before.
  uint64_t number;
  // Bytes of pages written since the version before.
  uint64_t dirty_bytes;
  // Bytes copied for it.
  uint64_t copied_bytes;
  // 1: somebody wrote while it was made, so it may be torn. 0: nobody. -1: unknown.
  int32_t has_raced;
} heliostat_published;

// What a region has done since it began.
typedef struct {
  // Versions published.
  uint64_t published;
  // Publishings that found no place.
  uint64_t skipped;
  // Publishings that had to wait.
  uint64_t stalled;
  // Bytes copied for all of them.
  uint64_t copied_bytes;
} heliostat_metrics;

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

// A place in the window.
typedef struct {
  // First byte, counted from the window's start.
  uint64_t offset;
  // Number of bytes, at least 1.
  uint32_t bytes;
  // Zero.
  uint32_t reserved;
} heliostat_piece;

// A file that the server has open. A plain value: copy it, compare it by its fields.
typedef struct {
  // Its number among the session's files.
  uint32_t index;
  // Tells it from others that had the number.
  uint32_t generation;
  // Of which session it is.
  uint64_t epoch;
} heliostat_file;

// One operation.
typedef struct {
  // A `heliostat_kind`.
  int32_t kind;
  // Microseconds until it ends with ETIMEDOUT; 0 for never.
  uint32_t timeout_us;
  // With which file.
  heliostat_file file;
  // Where in the file, in bytes.
  uint64_t offset;
  // Comes back with the completion; at most `HELIOSTAT_TAG_MAX`.
  uint64_t tag;
  // Where in the window, in order; read during the call that submits.
  const heliostat_piece *pieces;
  // How many, at most `HELIOSTAT_PIECES_MAX`.
  size_t pieces_count;
} heliostat_operation;

// How an operation ended.
typedef struct {
  // The operation's tag.
  uint64_t tag;
  // Bytes moved, or minus an errno of this system.
  int64_t result;
  // By which way: 0 none, 1 cached, 2 filled, 3 direct, 4 the kernel's page cache.
  uint32_t way;
  // Zero.
  uint32_t reserved;
} heliostat_completion;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Why the last call of this thread failed that says so in words: functions of regions,
// attachments and snapshots do. Never null; good until this thread's next call.
const char *heliostat_last_message(void);

// Creates a ring with `capacity` data bytes, a power of two from 4096. `*fd` becomes a descriptor
// to hand to the other side; both it and `*ring` are the caller's.
//
// # Safety
// `name` is null or a C string; `fd` and `ring` are null or valid for writing.
heliostat_code heliostat_ring_create(const char *name,
                                     uint64_t capacity,
                                     int32_t *fd,
                                     heliostat_ring **ring);

// Attaches the ring at `offset` of the descriptor's memory. The descriptor stays the caller's.
//
// # Safety
// `ring` is null or valid for writing.
heliostat_code heliostat_ring_attach(int32_t fd, size_t offset, heliostat_ring **ring);

// Gives the ring back; its ends go on without it. Null is ignored.
//
// # Safety
// `ring` is null or came from this library and is not used again.
void heliostat_ring_free(heliostat_ring *ring);

// Claims the producing end. `*producer` is the caller's.
//
// # Safety
// `ring` is null or live; `producer` is null or valid for writing.
heliostat_code heliostat_producer_open(heliostat_ring *ring, heliostat_producer **producer);

// Gives the producing end back. Null is ignored.
//
// # Safety
// `producer` is null or came from this library and is not used again.
void heliostat_producer_close(heliostat_producer *producer);

// Reserves `len` bytes and says where to write them. Reserving again before the commit gives the
// same place, so a reservation is given up by forgetting it.
//
// # Safety
// `producer` is null or live; `bytes` is null or valid for writing.
heliostat_code heliostat_reserve(heliostat_producer *producer, size_t len, uint8_t **bytes);

// Publishes the `len` bytes that were reserved and written, and wakes a consumer that sleeps.
//
// # Safety
// `producer` is null or live.
heliostat_code heliostat_commit(heliostat_producer *producer, size_t len);

// Waits until `len` bytes fit; a negative timeout waits for ever.
//
// # Safety
// `producer` is null or live.
heliostat_code heliostat_wait_space(heliostat_producer *producer, size_t len, int64_t timeout_ms);

// Claims the consuming end. `*consumer` is the caller's.
//
// # Safety
// `ring` is null or live; `consumer` is null or valid for writing.
heliostat_code heliostat_consumer_open(heliostat_ring *ring, heliostat_consumer **consumer);

// Gives the consuming end back. Null is ignored.
//
// # Safety
// `consumer` is null or came from this library and is not used again.
void heliostat_consumer_close(heliostat_consumer *consumer);

// Says where the oldest element is and how long. It stays there until `heliostat_release`; the
// producer can still write its bytes: copy first, then check.
//
// # Safety
// `consumer` is null or live; `bytes` and `len` are null or valid for writing.
heliostat_code heliostat_take(heliostat_consumer *consumer, const uint8_t **bytes, size_t *len);

// Releases the oldest element, which `heliostat_take` has shown.
//
// # Safety
// `consumer` is null or live.
heliostat_code heliostat_release(heliostat_consumer *consumer);

// Waits until there is an element; a negative timeout waits for ever.
//
// # Safety
// `consumer` is null or live.
heliostat_code heliostat_wait(heliostat_consumer *consumer, int64_t timeout_ms);

// Says where the control plane listens, and what this program is called there; null for the
// usual place (`HELIOSTAT_SOCKET`, or the user's own), and for no name. Once, before the first
// region with a name and the first `heliostat_attach`, which do it with nulls if nobody has.
//
// # Safety
// Both are null or C strings.
heliostat_code heliostat_configure(const char *socket_path, const char *program);

// Fills in what a region has when nobody says otherwise: no name, no description, the probed
// engine, 4 colours, keep 1, no patience.
//
// # Safety
// `settings` is null or valid for writing.
heliostat_code heliostat_settings_default(heliostat_settings *settings);

// Sets a region up over the `len` bytes at `start`, which the program goes on using as ever;
// nothing is copied before the first publishing. Null settings are the default. On failure
// nothing is left behind.
//
// # Safety
// The bytes stay mapped and readable whenever a version is made, until the region is destroyed.
// `settings` is null or filled in, its strings C strings; `region` is null or valid for writing.
heliostat_code heliostat_region_create(const uint8_t *start,
                                       size_t len,
                                       const heliostat_settings *settings,
                                       heliostat_region **region);

// Makes a version of the region as it is now. Nobody may write it meanwhile. Blocks for the
// patience at most. `HELIOSTAT_FULL`: all versions are pinned; what was written goes into the
// next version. `HELIOSTAT_NO_CONTROL`: the same, and for good, as the control plane does not tell
// any more who reads the region; create it anew. `published` may be null.
//
// # Safety
// `region` is null or live; `published` is null or valid for writing.
heliostat_code heliostat_region_publish(heliostat_region *region, heliostat_published *published);

// Says that `len` bytes at `offset` of the region were written, by a device or by other means
// that the engine cannot see.
//
// # Safety
// `region` is null or live.
heliostat_code heliostat_region_declare(heliostat_region *region, size_t offset, size_t len);

// Says by which descriptors a consumer of another process attaches (`heliostat_attach_by`), sealed
// so that holders can only read. They stay the region's: good until it is destroyed.
//
// # Safety
// `region` is null or live; `table` and `pool` are null or valid for writing.
heliostat_code heliostat_region_descriptors(heliostat_region *region,
                                            int32_t *table,
                                            int32_t *pool);

// Lets a consumer in by the two descriptors that its `heliostat_attach_by` has announced. They stay
// the caller's, who should close them: the consumer hears of the region's end by the last copy of
// the bell. `HELIOSTAT_FULL`: as many consumers are here as may be.
//
// # Safety
// `region` is null or live.
heliostat_code heliostat_region_admit(heliostat_region *region, int32_t pins, int32_t bell);

// What the region has done.
//
// # Safety
// `region` is null or live; `metrics` is null or valid for writing.
heliostat_code heliostat_region_metrics(heliostat_region *region, heliostat_metrics *metrics);

// The engine in use, in a word.
//
// # Safety
// `region` is null or live; `engine` is null or valid for writing; what it becomes is good for
// ever.
heliostat_code heliostat_region_engine(const heliostat_region *region, heliostat_engine *engine);

// Ends the region and its name; its last version stays with whoever is attached. In a child of
// the process that made it only the handle goes. Null is ignored.
//
// # Safety
// `region` is null or came from this library and is not used again.
void heliostat_region_destroy(heliostat_region *region);

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

// Has the server open the file `name` (an absolute path) with `access`: `HELIOSTAT_READ`,
// `HELIOSTAT_WRITE`, perhaps `HELIOSTAT_DIRECT`. The name travels through `scratch`, a place of its
// length or more. Waits. What open(2) refuses is `HELIOSTAT_NOT_FOUND`, `HELIOSTAT_DENIED`,
// `HELIOSTAT_INVALID`, `HELIOSTAT_UNSUPPORTED` (no local file) or `HELIOSTAT_SYSTEM`, with its words.
//
// # Safety
// `session` is null or live; `name` is null or a C string; `file` is null or valid for writing.
heliostat_code heliostat_delegated_open(heliostat_delegated *session,
                                        const char *name,
                                        uint32_t access,
                                        heliostat_piece scratch,
                                        heliostat_file *file);

// Has the server work with a file that this process has open, with the rights of the descriptor;
// with `direct` not 0 as `HELIOSTAT_DIRECT`. The descriptor stays the caller's. Waits; errors as
// for `heliostat_delegated_open`.
//
// # Safety
// `session` is null or live; `file` is null or valid for writing.
heliostat_code heliostat_delegated_show(heliostat_delegated *session,
                                        int32_t fd,
                                        int32_t direct,
                                        heliostat_file *file);

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
// window may not be used any more. Null is ignored.
//
// # Safety
// `session` is null or came from this library and is not used again.
void heliostat_delegated_end(heliostat_delegated *session);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_H */
