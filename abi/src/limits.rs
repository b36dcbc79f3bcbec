//! Every limit of the two planes, computed from named terms, each with its reason.

/// Processes that may hold a session at once; one node-page word each.
pub const SESSIONS_MAX: usize = 4096;
/// Listening addresses registered at once.
pub const PORTS_MAX: usize = 1024;
/// Channels (client process x listening address) alive at once.
pub const CHANNELS_MAX: usize = 16384;
/// Snapshot regions with a name at once; one node-page word each, a page of them.
pub const REGIONS_MAX: usize = 1024;
/// Consumers attached to snapshot regions by name at once, all regions together.
pub const ATTACHMENTS_MAX: usize = 4096;
/// Files under a lease at once: a descriptor of the control plane and a node-page word each.
pub const LEASES_MAX: usize = 4096;
/// Destinations that a restricted connection may be allowed: each open looks at all.
pub const DESTINATIONS_MAX: usize = 64;
/// Scopes of regions that a restricted connection may be allowed: each publication and attachment
/// looks at all.
pub const REGION_SCOPES_MAX: usize = 64;
/// Streams in one channel: one bit each in the channel's `offers` word.
pub const SLOTS_MAX: usize = 64;
/// Smallest ring of one direction: room for a page-sized write and a few small ones.
pub const RING_BYTES_MIN: u32 = 16 * 1024;
/// Largest ring of one direction: larger ones only spoil caches.
pub const RING_BYTES_MAX: u32 = 4 * 1024 * 1024;
/// Ring of one direction when the configuration names none; a power of two.
pub const RING_BYTES_DEFAULT: u32 = 256 * 1024;
/// Channels one client may hold for one listening address (64 streams each).
pub const CHANNELS_PER_PAIR_MAX: usize = 64;
/// Descriptors that travel with one reply; the kernel's own limit is 253 (SCM_MAX_FD).
pub const FDS_PER_REPLY_MAX: usize = 16;
/// Consumers that one reply tells the coming of: each may bring a page of pins and a bell.
pub const JOINED_PER_REPLY_MAX: usize = FDS_PER_REPLY_MAX / 2;
/// Connections itemised in one session's report; further ones are only counted. Four times what one
/// client has direct to one address, so that those beyond that limit are told with their reason.
pub const REPORT_ENTRIES_MAX: usize = 4 * CHANNELS_PER_PAIR_MAX * SLOTS_MAX;
/// How long a stub waits for the control plane before it goes native.
pub const CONTROL_DEADLINE_MS: u64 = 500;
/// An offer that nobody has answered for this long gives its slot up when slots run short.
pub const OFFER_OVERDUE_MS: u64 = 1000;
/// An offer beside which an acceptor has written without knowing it is kept for this long.
pub const OFFER_PATIENCE_MS: u64 = 20;
/// An accepted connection whose offer has not come is native after this long.
pub const UNDECIDED_MS: u64 = 1000;
/// Slots of one user's channels that an acceptor looks at for one connection.
pub const SLOTS_LOOKED_AT_MAX: usize = 16 * 1024;
/// Offers of one user that an acceptor waits for beside one connection.
pub const CANDIDATES_MAX: usize = 64;
/// Bytes sent with MSG_MORE or under TCP_CORK are held back for this long, as by the kernel.
pub const HELD_BACK_NS: u64 = 200_000_000;
/// How long one side waits for the other, which it has woken, to take unread bytes back before a
/// relay stands in. One that is awake and does not look is given less.
pub const DEMOTE_WAIT_NS: u64 = 4_000_000;
/// The same for a peer that does not sleep on the connection: longer than it looks before it sleeps.
pub const DEMOTE_AWAKE_WAIT_NS: u64 = 1_000_000;
/// How long one side waits where not even a relay can stand in, because the kernel makes no process.
pub const DEMOTE_DEADLINE_NS: u64 = 200_000_000;
