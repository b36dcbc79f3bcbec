// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_MEMORY_H
#define HELIOSTAT_MEMORY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "code.h"

// A right: read the region.
#define HELIOSTAT_MEMORY_READ 1

// A right: write it.
#define HELIOSTAT_MEMORY_WRITE 2

// A right: change words of it in one step.
#define HELIOSTAT_MEMORY_ATOMIC 4

// A right: name it, and say what other users may.
#define HELIOSTAT_MEMORY_SHARE 8

// A right: free, enlarge and keep it, and appoint other users.
#define HELIOSTAT_MEMORY_MANAGE 16

// The user whose names are meant: the caller's own.
#define HELIOSTAT_MEMORY_OWN_USER 4294967295

// A class of what is done on other nodes: what no rule is about.
#define HELIOSTAT_CLASS_NORMAL 0

// A class: what waits for nobody else.
#define HELIOSTAT_CLASS_HIGH 1

// A class: what may wait for all others.
#define HELIOSTAT_CLASS_LOW 2

// This process's access to memory regions. Threads may share it.
typedef struct heliostat_memory heliostat_memory;

// A handle on a memory region. Threads may share it, but for its end.
typedef struct heliostat_memory_region heliostat_memory_region;

// Bytes of the program that lie somewhere in a region.
typedef struct {
  // Where in the region.
  uint64_t offset;
  // The program's bytes.
  void *memory;
  // How many.
  size_t bytes;
} heliostat_memory_piece;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens it, where `heliostat_configure` has said that the control plane is. `*memory` is the
// caller's. Blocks for half a second at most. `HELIOSTAT_NO_CONTROL` when none answers.
//
// # Safety
// `memory` is null or valid for writing.
heliostat_code heliostat_memory_open(heliostat_memory **memory);

// Ends it; regions that were made by it stay. Null is ignored.
//
// # Safety
// `memory` is null or live, and not used again.
void heliostat_memory_close(heliostat_memory *memory);

// The same for regions of another node, by its number: what is allocated and mapped by it is there.
// `*there` is the caller's. The node's own number is as if it were not said. Operations on a node that
// is lost answer `HELIOSTAT_PEER_GONE`, requests to one that is not joined `HELIOSTAT_NO_CONTROL`.
//
// # Safety
// `memory` is null or live, `there` null or valid for writing.
heliostat_code heliostat_memory_on(const heliostat_memory *memory,
                                   uint64_t node,
                                   heliostat_memory **there);

// The node that the region is on goes to `*node`; 0 for this process's own.
//
// # Safety
// `region` is null or live, `node` null or valid for writing.
heliostat_code heliostat_memory_node(const heliostat_memory_region *region, uint64_t *node);

// Makes a region of so many bytes, all zero. `name` is null for none; `is_lasting` not 0 lets it
// outlive this process until it is freed; other users who know the name may do `others` with it.
// `*region` is the caller's and allows everything. `HELIOSTAT_TAKEN` when another region has the name,
// `HELIOSTAT_FULL` at a limit, `HELIOSTAT_DENIED` where a rule says no.
//
// # Safety
// `memory` is null or live, `name` null or a C string, `region` null or valid for writing.
heliostat_code heliostat_memory_allocate(const heliostat_memory *memory,
                                         uint64_t bytes,
                                         const char *name,
                                         int32_t is_lasting,
                                         uint32_t others,
                                         heliostat_memory_region **region);

// Makes a region of so many bytes, all zero, that lives on `replicas` nodes of a cluster, this one
// among them: what was written is on all of them before a call returns, and the death of one loses
// nothing. It stays until it is freed, or all of its nodes have died. `*region` is the caller's and
// allows everything. `HELIOSTAT_TAKEN` when another region has the name, `HELIOSTAT_FULL` at a limit.
//
// # Safety
// `memory` is null or live, `name` null or a C string, `region` null or valid for writing.
heliostat_code heliostat_memory_replicate(const heliostat_memory *memory,
                                          uint64_t bytes,
                                          const char *name,
                                          uint32_t replicas,
                                          uint32_t others,
                                          heliostat_memory_region **region);

// A handle on the region of this name, among those of `user` (`HELIOSTAT_MEMORY_OWN_USER` for the caller's),
// that allows `wanted`: all of it or nothing. `HELIOSTAT_NOT_FOUND` when none has the name,
// `HELIOSTAT_DENIED` where a rule or its owner says no, which may take half a second.
//
// # Safety
// `memory` is null or live, `name` null or a C string, `region` null or valid for writing.
heliostat_code heliostat_memory_map(const heliostat_memory *memory,
                                    uint32_t user,
                                    const char *name,
                                    uint32_t wanted,
                                    heliostat_memory_region **region);

// A user may map the region with these rights from now on, whatever others may.
//
// # Safety
// `region` is null or live.
heliostat_code heliostat_memory_appoint(const heliostat_memory_region *region,
                                        uint32_t user,
                                        uint32_t allowed);

// Makes the region longer, to so many bytes; those that come are zero, and handles stay as they are.
//
// # Safety
// `region` is null or live.
heliostat_code heliostat_memory_grow(const heliostat_memory_region *region,
                                     uint64_t bytes);

// Has the region's bytes lie elsewhere, in one piece; handles stay as they are, and whoever uses it
// meanwhile waits. `HELIOSTAT_TAKEN` while a program stays in it, which the words of the error name:
// then it is where it was.
//
// # Safety
// `region` is null or live.
heliostat_code heliostat_memory_relocate(const heliostat_memory_region *region);

// Moves the region to another node of the cluster; whoever has a handle goes on with that, and its next
// call finds the region there. As `heliostat_memory_relocate`; where it is not moved it is where it was.
//
// # Safety
// `region` is null or live.
heliostat_code heliostat_memory_move_to(const heliostat_memory_region *region,
                                        uint64_t node);

// Says how urgent is what this process does with the region from now on, where it is on another node:
// one of `HELIOSTAT_CLASS_*`, and no more than the rules of this node let it.
// `HELIOSTAT_INVALID` for a region of this node, and for a class that there is none of.
//
// # Safety
// `region` is null or live.
heliostat_code heliostat_memory_set_class(const heliostat_memory_region *region,
                                          uint32_t urgency);

// Gives the handle back. The region ends with the last one that may manage it, unless it is lasting.
// Null is ignored.
//
// # Safety
// `region` is null or live, and not used again.
void heliostat_memory_unmap(heliostat_memory_region *region);

// Ends the region for everybody, and gives the handle back in any case but one: `HELIOSTAT_TAKEN` while
// operations on it are on their way or were not taken, and it is as it was.
//
// # Safety
// `region` is null or live, and not used again.
heliostat_code heliostat_memory_free(heliostat_memory_region *region);

// Reads `bytes` bytes from an offset on. On either path: `HELIOSTAT_INVALID` when they do not all lie
// in the region, `HELIOSTAT_DENIED` when the handle does not allow it, `HELIOSTAT_STALE` when the
// region is gone, `HELIOSTAT_PEER_GONE` when the session is; and so for all below.
//
// # Safety
// `region` is null or live; `into` is null or valid for writing `bytes` bytes, which nobody else uses.
heliostat_code heliostat_memory_read(const heliostat_memory_region *region,
                                     uint64_t offset,
                                     void *into,
                                     size_t bytes);

// Writes `bytes` bytes from an offset on.
//
// # Safety
// `region` is null or live; `from` is null or valid for reading `bytes` bytes, which nobody changes.
heliostat_code heliostat_memory_write(const heliostat_memory_region *region,
                                      uint64_t offset,
                                      const void *from,
                                      size_t bytes);

// Sets bytes from an offset on to a value.
//
// # Safety
// `region` is null or live.
heliostat_code heliostat_memory_set(const heliostat_memory_region *region,
                                    uint64_t offset,
                                    uint64_t bytes,
                                    uint8_t value);

// Copies bytes to a place in the same or another region; they may overlap.
//
// # Safety
// Both are null or live.
heliostat_code heliostat_memory_copy(const heliostat_memory_region *region,
                                     uint64_t offset,
                                     const heliostat_memory_region *into,
                                     uint64_t at,
                                     uint64_t bytes);

// Adds to the word at an offset, a multiple of 8; `*old` is what it was. One step for everybody who
// changes words so.
//
// # Safety
// `region` is null or live, `old` null or valid for writing.
heliostat_code heliostat_memory_fetch_add(const heliostat_memory_region *region,
                                          uint64_t offset,
                                          uint64_t more,
                                          uint64_t *old);

// Stores `stored` in the word at an offset if it is `expected`; `*old` is what it was, which says
// whether it did.
//
// # Safety
// As `heliostat_memory_fetch_add`.
heliostat_code heliostat_memory_compare_swap(const heliostat_memory_region *region,
                                             uint64_t offset,
                                             uint64_t expected,
                                             uint64_t stored,
                                             uint64_t *old);

// Stores a value in the word at an offset; `*old` is what it was.
//
// # Safety
// As `heliostat_memory_fetch_add`.
heliostat_code heliostat_memory_swap(const heliostat_memory_region *region,
                                     uint64_t offset,
                                     uint64_t stored,
                                     uint64_t *old);

// How many bytes the region has now, and whether this process reads and writes it by itself (1) or
// the control plane's server loop does (0).
//
// # Safety
// `region` is null or live; the outputs are null or valid for writing.
heliostat_code heliostat_memory_size(const heliostat_memory_region *region,
                                     uint64_t *bytes,
                                     int32_t *is_direct);

// Reads many pieces at once. Errors as `heliostat_memory_read`, of the first piece that is wrong; others
// may have been read.
//
// # Safety
// `region` is null or live; `pieces` is null or valid for `count`, and the memory of each for writing
// its bytes, which nobody else uses and no two pieces share.
heliostat_code heliostat_memory_read_pieces(const heliostat_memory_region *region,
                                            const heliostat_memory_piece *pieces,
                                            size_t count);

// Writes many pieces at once. Errors as `heliostat_memory_write`; others may have been written.
//
// # Safety
// `region` is null or live; `pieces` is null or valid for `count`, and the memory of each for reading
// its bytes, which nobody changes.
heliostat_code heliostat_memory_write_pieces(const heliostat_memory_region *region,
                                             const heliostat_memory_piece *pieces,
                                             size_t count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_MEMORY_H */
