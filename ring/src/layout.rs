//! Where everything lies in a ring's shared memory. `docs/ring.md` draws the same in words.
//!
//! ```text
//! 0x000  identity    magic u64, version u32, flags u32 (0), capacity u64, zeros to 0x080
//! 0x080  producer    head u64                   written by the producer only
//! 0x100  consumer    tail u64                   written by the consumer only
//! 0x180  bell of the consumer  u32              written by both, only around a sleep
//! 0x200  bell of the producer  u32              written by both, only around a sleep
//! 0x280  zeros to 0x1000
//! 0x1000 data        capacity bytes, mapped twice
//! ```
//!
//! Each group has two cache lines to itself, because the spatial prefetcher of x86 fetches lines
//! in pairs: with one line each, polling the tail would drag the head's line along.

/// First eight bytes of a ring.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HELIRING");
/// Version of this layout and of the protocol over it.
pub const VERSION: u32 = 1;

/// Offset of the magic number.
pub const MAGIC_AT: usize = 0x000;
/// Offset of the version.
pub const VERSION_AT: usize = 0x008;
/// Offset of the flags; all of them are reserved and zero.
pub const FLAGS_AT: usize = 0x00c;
/// Offset of the capacity.
pub const CAPACITY_AT: usize = 0x010;
/// Offset of the head.
pub const HEAD_AT: usize = 0x080;
/// Offset of the tail.
pub const TAIL_AT: usize = 0x100;
/// Offset of the consumer's bell.
pub const CONSUMER_BELL_AT: usize = 0x180;
/// Offset of the producer's bell.
pub const PRODUCER_BELL_AT: usize = 0x200;
/// Bytes in front of the data: one page, so that the data can be mapped twice.
pub const CONTROL_BYTES: usize = 0x1000;

/// Bytes that one group of control words has to itself.
pub const GROUP_BYTES: usize = 128;

/// Fewest data bytes: one page, the grain of the double mapping.
pub const CAPACITY_MIN: u64 = 4096;
/// Most data bytes. A position's tag (30 bits of eight-byte words) then tells laps apart.
pub const CAPACITY_MAX: u64 = 1 << 32;

/// Bytes of an element's header, and the alignment of elements.
pub const HEADER_BYTES: u64 = 8;

const _: () = assert!(HEAD_AT % GROUP_BYTES == 0 && HEAD_AT >= CAPACITY_AT + 8);
const _: () = assert!(TAIL_AT == HEAD_AT + GROUP_BYTES);
const _: () = assert!(CONSUMER_BELL_AT == TAIL_AT + GROUP_BYTES);
const _: () = assert!(PRODUCER_BELL_AT == CONSUMER_BELL_AT + GROUP_BYTES);
const _: () = assert!(PRODUCER_BELL_AT + GROUP_BYTES <= CONTROL_BYTES);
const _: () = assert!(CONTROL_BYTES == heliostat_base::mapping::PAGE_BYTES);
