//! Limits of memory regions that both planes know, each with its reason.

/// Regions of a node at once: a word of eight bytes each, in a page of their own.
pub const REGIONS_MAX: usize = 1 << 20;
/// Bytes in front of the words in the region page.
pub const REGION_PAGE_HEAD_BYTES: usize = 4096;
/// Bytes of the region page. Its pages exist once a word in them is used.
pub const REGION_PAGE_BYTES: usize = REGION_PAGE_HEAD_BYTES + REGIONS_MAX * 8;
/// Handles of a node at once.
pub const HANDLES_MAX: usize = 4 * REGIONS_MAX;
/// Arenas of a node at once: a descriptor each.
pub const ARENAS_MAX: usize = 4096;
/// Pieces of one region: who reads across them looks each of them up.
pub const PIECES_MAX: usize = 64;
/// Every piece begins at a multiple of this and is one long: a cache line, so that two regions share
/// none.
pub const GRAIN: u64 = 64;
/// Smallest arena, and what every one is a multiple of: a huge page.
pub const ARENA_BYTES_MIN: u64 = 2 << 20;
/// Largest arena, and so the largest piece: what one mapping may have.
pub const ARENA_BYTES_MAX: u64 = 1 << 40;
/// Pieces in one answer.
pub const PIECES_PER_REPLY_MAX: usize = 20;
/// Regions in one answer to `List`.
pub const LISTED_PER_REPLY_MAX: usize = 5;
/// Largest window of a session whose operations are delegated.
pub const WINDOW_BYTES_MAX: u64 = 1 << 30;
/// How long the owner of a region may take to answer who may map it. Less than whoever asks waits for
/// the control plane (`CONTROL_DEADLINE_MS`), so that it hears the no.
pub const ASK_DEADLINE_MS: u64 = 300;
/// Moves of regions of a node at once: each has bytes twice.
pub const MOVES_MAX: usize = 64;
/// How long a move waits until nobody is in the region. Longer than any copy of a few gigabytes takes;
/// who has not left then keeps it, and the move is given up.
pub const MOVE_LEAVE_MS: u64 = 2000;
/// Regions that have left a node and are looked for there.
pub const FORWARDS_MAX: usize = 1024;
/// How long a node says where a region is that has left it, beyond that as long as somebody has a handle
/// there with which he managed it.
pub const FORWARD_MS: u64 = 600_000;
