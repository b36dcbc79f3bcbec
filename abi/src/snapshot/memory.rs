//! Memory of a snapshot region: the pool that holds its bytes, the table that says which bytes
//! make a version, and each consumer's page of pins.
//!
//! ```text
//! pool   colour 0: chunk 0, chunk 1, ..   colour 1: chunk 0, chunk 1, ..   ..
//! table  0     magic u32, version u32, generation u64, length u64, first u32, chunks u32,
//!              colours u32
//!        40    address u64          of the first byte, in the producer's memory
//!        64    latest u64           number of the newest version, 0 for none
//!        128   bell u32             its low half, for futex(2); closed u32
//!        256   description          length u32, then so many bytes, for whoever reads the region
//!        4096  places, one per colour, each `place_stride(chunks)` bytes:
//!              number u64, published u64 (monotonic ns), dirty u64 (bytes), copied u64 (bytes),
//!              then one byte per chunk, its colour
//! pins   0     magic u32, version u32;  64 waits u32, armed u32;  128 pinned versions u64 x PINS
//! ```
//!
//! Pool and table are written by the producer alone; consumers map them read-only. A page of pins
//! is written by its consumer and read by the producer. A version is a table of colours: chunk
//! `c` of colour `k` lies at `(k * chunks + c) * CHUNK_BYTES` of the pool. The region's first byte
//! lies at `first` of chunk 0, as it does in its page of the producer's memory, so that a page of
//! the one is a page of the other.

use crate::wire::{Reader, Writer};

/// First four bytes of a table: "HSNT".
pub const TABLE_MAGIC: u32 = u32::from_le_bytes(*b"HSNT");
/// First four bytes of a page of pins: "HSNP".
pub const PINS_MAGIC: u32 = u32::from_le_bytes(*b"HSNP");
/// A chunk: what has one colour. A huge page, so that a pool may consist of them.
pub const CHUNK_BYTES: usize = 2 << 20;
/// Most chunks of a pool, all colours together (1 TiB).
/// A region of 4 colours is 256 GiB at most.
pub const CHUNKS_MAX: usize = 1 << 19;
/// Fewest colours: the newest version, and the next one in the making.
pub const COLOURS_MIN: usize = 2;
/// Most colours, and so most versions alive together, plus one in the making.
pub const COLOURS_MAX: usize = 16;
/// Versions one consumer may pin at a time.
pub const PINS: usize = 8;
/// Consumers attached to one region at a time.
pub const CONSUMERS_MAX: usize = 64;

/// Bytes of a table's head.
pub const HEAD_BYTES: usize = 40;
/// Offset in the table of the address of the region's first byte in the producer's memory; 0 for
/// one that has none. Of use to debuggers only: nobody maps or reads anything by it.
pub const ADDRESS: usize = 40;
/// Offset in the table of the description: its length (u32), then its bytes.
pub const DESCRIPTION: usize = 256;
/// Most bytes of a description. It says what the bytes mean (say, a type and dimensions), in the
/// words of producer and consumer; Heliostat does not read it.
pub const DESCRIPTION_MAX: usize = 2044;
/// Offset in the table of the newest version's number.
pub const LATEST: usize = 64;
/// Offset in the table of the word that changes with every version.
pub const BELL: usize = 128;
/// Offset in the table of a word that is 1 once the producer has ended the region.
pub const CLOSED: usize = 132;
/// Offset in the table of the first place.
pub const PLACES: usize = 4096;
/// Offset in a place of the version's number; 0 while nobody may pin it.
pub const NUMBER: usize = 0;
/// Offset in a place of the time of publishing, monotonic ns.
pub const PUBLISHED: usize = 8;
/// Offset in a place of the bytes written since the version before.
pub const DIRTY: usize = 16;
/// Offset in a place of the bytes copied for this version.
pub const COPIED: usize = 24;
/// Offset in a place of the colours, one byte per chunk.
pub const COLOURS: usize = 64;
/// Offset in a page of pins of the count of threads of its consumer that sleep on the bell.
pub const WAITS: usize = 64;
/// Offset in a page of pins of the word that is 1 while its consumer wants a byte on its bell. The
/// producer clears it with the byte it sends, so that nobody's bell fills up.
pub const ARMED: usize = 68;
/// Offset in a page of pins of the first pinned version's number, 0 for none.
pub const PINNED: usize = 128;
/// Bytes of a page of pins.
pub const PINS_BYTES: usize = 4096;

/// Shape of a region, from its table's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Counts producers of this region: another one after a restart.
    pub generation: u64,
    /// Bytes of the region.
    pub length: u64,
    /// Place of its first byte in the first page.
    pub first: u32,
    /// Chunks of it.
    pub chunks: u32,
    /// Colours of the pool.
    pub colours: u32,
}

impl Shape {
    /// The shape of `length` bytes, `first` bytes into a page, in `colours` colours; `None` beyond
    /// a limit.
    pub fn new(generation: u64, length: u64, first: u32, colours: u32) -> Option<Self> {
        let chunks = length.checked_add(u64::from(first))?.div_ceil(CHUNK_BYTES as u64);
        let fits = length > 0
            && first < 4096
            && (COLOURS_MIN..=COLOURS_MAX).contains(&(colours as usize))
            && (1..=CHUNKS_MAX as u64 / u64::from(colours)).contains(&chunks);
        fits.then_some(Self { generation, length, first, chunks: chunks as u32, colours })
    }

    /// Where the region lies in the chunks, counted through all of them.
    pub fn span(&self) -> std::ops::Range<usize> {
        self.first as usize..self.first as usize + self.length as usize
    }

    /// Bytes of the pool.
    pub fn pool_bytes(&self) -> usize {
        self.chunks as usize * self.colours as usize * CHUNK_BYTES
    }

    /// Bytes of the table.
    pub fn table_bytes(&self) -> usize {
        self.place(self.colours as usize).next_multiple_of(4096)
    }

    /// Offset in the table of place `index`.
    pub fn place(&self, index: usize) -> usize {
        PLACES + index * (COLOURS + (self.chunks as usize).next_multiple_of(64))
    }

    /// Offset in the pool of chunk `chunk` in colour `colour`.
    pub fn slot(&self, colour: usize, chunk: usize) -> usize {
        (colour * self.chunks as usize + chunk) * CHUNK_BYTES
    }

    /// Bytes of chunk `chunk` that are in use; the last one may be short.
    pub fn chunk_bytes(&self, chunk: usize) -> usize {
        (self.span().end - chunk * CHUNK_BYTES).min(CHUNK_BYTES)
    }

    /// The head of a table.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let mut w = Writer::new(&mut bytes);
        w.u32(TABLE_MAGIC).u32(u32::from(crate::VERSION)).u64(self.generation).u64(self.length);
        w.u32(self.first).u32(self.chunks).u32(self.colours);
        bytes
    }

    /// The shape in foreign bytes; `None` when they are no table's head.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        let mut r = Reader::new(bytes);
        let is_table = r.u32() == TABLE_MAGIC && r.u32() == u32::from(crate::VERSION);
        let (generation, length) = (r.u64(), r.u64());
        let (first, chunks, colours) = (r.u32(), r.u32(), r.u32());
        let shape = Self::new(generation, length, first, colours)?;
        (is_table && shape.chunks == chunks).then_some(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_round_trips_and_nothing_else_is_taken_for_one() {
        let shape = Shape::new(3, 5 * CHUNK_BYTES as u64 - 15, 16, 4).unwrap();
        let bytes = shape.encode();
        assert_eq!(shape.chunks, 6);
        assert_eq!(shape.chunk_bytes(5), 1);
        assert_eq!(Shape::decode(&bytes), Some(shape));
        for at in [0, 4, 25, 28, 32] {
            let mut changed = bytes;
            changed[at] ^= 0x40;
            assert_eq!(Shape::decode(&changed), None, "byte {at}");
        }
    }

    #[test]
    fn limits_are_kept() {
        assert_eq!(Shape::new(1, 0, 0, 2), None);
        assert_eq!(Shape::new(1, 1, 0, 1), None);
        assert_eq!(Shape::new(1, 1, 0, COLOURS_MAX as u32 + 1), None);
        assert_eq!(Shape::new(1, 1, 4096, 2), None);
        assert_eq!(Shape::new(1, u64::MAX, 1, 2), None);
        assert_eq!(Shape::new(1, (CHUNKS_MAX * CHUNK_BYTES) as u64, 1, 2), None);
        for colours in [2, 4, 16] {
            let length = (CHUNKS_MAX / colours * CHUNK_BYTES) as u64;
            let largest = Shape::new(1, length, 0, colours as u32).unwrap();
            let last = largest.slot(colours - 1, largest.chunks as usize - 1);
            assert_eq!(last + CHUNK_BYTES, largest.pool_bytes());
            assert_eq!(Shape::new(1, length, 1, colours as u32), None);
        }
    }

    #[test]
    fn places_do_not_touch() {
        let shape = Shape::new(1, 100 * CHUNK_BYTES as u64, 0, 16).unwrap();
        for index in 0..16 {
            assert!(shape.place(index) + COLOURS + 100 <= shape.place(index + 1));
            assert_eq!(shape.place(index) % 64, 0);
        }
        assert!(shape.place(16) <= shape.table_bytes());
    }
}
