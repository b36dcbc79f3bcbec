// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_MEMORY_SPREAD_H
#define HELIOSTAT_MEMORY_SPREAD_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "code.h"
#include "memory.h"

// Handles on all parts of a region that is spread over nodes. Threads may share it, but for its end.
typedef struct heliostat_spread heliostat_spread;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Spreads so many bytes, all zero, evenly over `count` nodes in this order; without a cluster node 0 is
// this one. The rest is as in `heliostat_memory_allocate`. `HELIOSTAT_TAKEN` when another region has the
// name, or one is being made or freed.
//
// # Safety
// `memory` is null or live, `name` null or a C string, `nodes` null or valid for `count`, `spread` null
// or valid for writing.
heliostat_code heliostat_spread_allocate(const heliostat_memory *memory,
                                         uint64_t bytes,
                                         const uint64_t *nodes,
                                         size_t count,
                                         const char *name,
                                         int32_t is_lasting,
                                         uint32_t others,
                                         heliostat_spread **spread);

// Handles on the parts of the spread region of this name, found from any node, as
// `heliostat_memory_map`. Parts on nodes that are lost answer `HELIOSTAT_PEER_GONE` or
// `HELIOSTAT_NO_CONTROL` when they are used, and the others can be used.
//
// # Safety
// `memory` is null or live, `name` null or a C string, `spread` null or valid for writing.
heliostat_code heliostat_spread_map(const heliostat_memory *memory,
                                    uint32_t user,
                                    const char *name,
                                    uint32_t wanted,
                                    heliostat_spread **spread);

// Gives the handles back, as `heliostat_memory_unmap`. Null is ignored.
//
// # Safety
// `spread` is null or live, and not used again.
void heliostat_spread_unmap(heliostat_spread *spread);

// Ends the region for everybody, and gives the handles back in any case. An error is about the first
// part that could not be freed.
//
// # Safety
// `spread` is null or live, and not used again.
heliostat_code heliostat_spread_free(heliostat_spread *spread);

// How many bytes it has goes to `*bytes`.
//
// # Safety
// `spread` is null or live, `bytes` null or valid for writing.
heliostat_code heliostat_spread_size(const heliostat_spread *spread, uint64_t *bytes);

// Reads `bytes` bytes from an offset on, from all nodes that they lie on at once. Codes are those of
// `heliostat_memory_read`; `heliostat_last_message` names the node and its bytes.
//
// # Safety
// `spread` is null or live; `into` is null or valid for writing `bytes` bytes, which nobody else uses.
heliostat_code heliostat_spread_read(const heliostat_spread *spread,
                                     uint64_t offset,
                                     void *into,
                                     size_t bytes);

// Writes `bytes` bytes from an offset on.
//
// # Safety
// `spread` is null or live; `from` is null or valid for reading `bytes` bytes, which nobody changes.
heliostat_code heliostat_spread_write(const heliostat_spread *spread,
                                      uint64_t offset,
                                      const void *from,
                                      size_t bytes);

// Sets bytes from an offset on to a value.
//
// # Safety
// `spread` is null or live.
heliostat_code heliostat_spread_set(const heliostat_spread *spread,
                                    uint64_t offset,
                                    uint64_t bytes,
                                    uint8_t value);

// Adds to the word at an offset, as `heliostat_memory_fetch_add`.
//
// # Safety
// `spread` is null or live, `old` null or valid for writing.
heliostat_code heliostat_spread_fetch_add(const heliostat_spread *spread,
                                          uint64_t offset,
                                          uint64_t more,
                                          uint64_t *old);

// Stores `stored` in a word that is `expected`, as `heliostat_memory_compare_swap`.
//
// # Safety
// As `heliostat_spread_fetch_add`.
heliostat_code heliostat_spread_compare_swap(const heliostat_spread *spread,
                                             uint64_t offset,
                                             uint64_t expected,
                                             uint64_t stored,
                                             uint64_t *old);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_MEMORY_SPREAD_H */
