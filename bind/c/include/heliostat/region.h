// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_REGION_H
#define HELIOSTAT_REGION_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "code.h"

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

// A region that this process publishes. One thread at a time.
typedef struct heliostat_region heliostat_region;

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

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

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

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_REGION_H */
