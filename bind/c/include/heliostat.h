// The C interface of Heliostat: everything. A program may include what it uses instead.

#ifndef HELIOSTAT_H
#define HELIOSTAT_H

// What a call answered, and why in words.
#include "heliostat/code.h"
// Rings in shared memory, a producer and a consumer each.
#include "heliostat/ring.h"
// Versions of live memory: publishing them.
#include "heliostat/region.h"
// The same: reading them.
#include "heliostat/snapshot.h"
// Reading and writing files through the control plane's server loop.
#include "heliostat/delegated.h"
// The names of such files: opening, making, renaming and removing them; directories and locks.
#include "heliostat/names.h"
// The same files by threads of several processes.
#include "heliostat/joint.h"
// Memory regions with names and rights.
#include "heliostat/memory.h"
// The same of such that are spread over nodes.
#include "heliostat/memory_spread.h"
// Operations on them that complete later.
#include "heliostat/memory_operations.h"
// Locks, semaphores and barriers with names.
#include "heliostat/lock.h"
// Functions of other programs called, and own ones served.
#include "heliostat/rpc.h"
// Logs in a file or an area, whose entries are durable when it is said so.
#include "heliostat/log.h"
// Queues in such logs.
#include "heliostat/queue.h"
// Areas of a store: bytes with a name that outlive every program.
#include "heliostat/store.h"

#endif /* HELIOSTAT_H */
