// The C interface of Heliostat. Generated from bind/c/src by cbindgen; do not edit.
// Regenerate: HELIOSTAT_BLESS=1 cargo test -p heliostat-c

#ifndef HELIOSTAT_RING_H
#define HELIOSTAT_RING_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "code.h"

// The consuming end.
typedef struct heliostat_consumer heliostat_consumer;

// The producing end.
typedef struct heliostat_producer heliostat_producer;

// The shared memory of a ring, mapped.
typedef struct heliostat_ring heliostat_ring;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

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

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HELIOSTAT_RING_H */
