//! What the store of a control plane is, for people.
//!
//! ```text
//!   0 state u32, durable by u32, identity 16 bytes
//!  24 bytes u64, of areas at most u64, free u64, zeroing u64, changes u64
//!  64 areas u32, areas at most u32, grain u32, sector u32, alignment u32, direct u32, direct at most u32,
//!     flags u32 (1 past the page cache, 2 forced unit access, 4 discards)
//!  96 discarded u64, text
//! ```

use super::durability::{take_durable_by, take_unit, DurableBy};
use super::not_done::{decode_text, encode_text};
use crate::wire::{Reader, WireError, Writer};

const PAST_CACHE: u32 = 1;
const FORCED: u32 = 2;
const DISCARDS: u32 = 4;

/// Whether there is a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum StoreState {
    /// There is none; the text says why.
    #[default]
    None = 0,
    /// It is being opened.
    Opening = 1,
    /// It is there; the text says where.
    Open = 2,
    /// Its device has failed; the text says where.
    Failed = 3,
}

impl StoreState {
    fn from_number(number: u32) -> Option<StoreState> {
        let all = [Self::None, Self::Opening, Self::Open, Self::Failed];
        all.into_iter().find(|it| *it as u32 == number)
    }

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Opening => "opening",
            Self::Open => "open",
            Self::Failed => "failed",
        }
    }
}

/// The store of a control plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreInfo {
    /// Whether there is one.
    pub state: StoreState,
    /// How writes are made durable.
    pub durable_by: DurableBy,
    /// Which one.
    pub identity: [u8; 16],
    /// Its bytes.
    pub bytes: u64,
    /// Those that areas may have.
    pub data_bytes: u64,
    /// Those of them that are free.
    pub free_bytes: u64,
    /// Those that wait to be zeroed.
    pub zeroing_bytes: u64,
    /// Changes so far.
    pub sequence: u64,
    /// Areas that there are.
    pub areas: u32,
    /// Areas that there may be.
    pub areas_max: u32,
    /// What sizes are multiples of.
    pub grain_bytes: u32,
    /// What reads and writes are multiples of.
    pub sector_bytes: u32,
    /// What memory is aligned to.
    pub memory_alignment: u32,
    /// Handles that are direct.
    pub direct: u32,
    /// How many may be.
    pub direct_max: u32,
    /// Whether bytes go past the page cache.
    pub is_past_cache: bool,
    /// Whether the disk is known to have forced unit access.
    pub is_forced: bool,
    /// Whether what areas lose is given back to the device, once it is zeroed.
    pub does_discard: bool,
    /// Bytes that were given back so, since the store was opened.
    pub discarded_bytes: u64,
    /// Where it lies, or why there is none.
    pub text: String,
}

impl Default for StoreInfo {
    fn default() -> StoreInfo {
        StoreInfo {
            state: StoreState::None,
            durable_by: DurableBy::default(),
            identity: [0; 16],
            bytes: 0,
            data_bytes: 0,
            free_bytes: 0,
            zeroing_bytes: 0,
            sequence: 0,
            areas: 0,
            areas_max: 0,
            grain_bytes: 4096,
            sector_bytes: 4096,
            memory_alignment: 4096,
            direct: 0,
            direct_max: 0,
            is_past_cache: false,
            is_forced: false,
            does_discard: false,
            discarded_bytes: 0,
            text: String::new(),
        }
    }
}

impl StoreInfo {
    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.state as u32).u32(self.durable_by as u32).put(&self.identity);
        w.u64(self.bytes).u64(self.data_bytes).u64(self.free_bytes).u64(self.zeroing_bytes);
        w.u64(self.sequence).u32(self.areas).u32(self.areas_max).u32(self.grain_bytes);
        w.u32(self.sector_bytes).u32(self.memory_alignment).u32(self.direct).u32(self.direct_max);
        let bit = |is: bool, flag| if is { flag } else { 0 };
        let flags = bit(self.is_past_cache, PAST_CACHE) | bit(self.is_forced, FORCED);
        w.u32(flags | bit(self.does_discard, DISCARDS)).u64(self.discarded_bytes);
        encode_text(&self.text, w);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let state = r.u32();
        let wrong = WireError::Field { name: "state of the store", found: u64::from(state) };
        let state = StoreState::from_number(state).ok_or(wrong)?;
        let (durable_by, identity) = (take_durable_by(r)?, r.take());
        let (bytes, data_bytes, free_bytes) = (r.u64(), r.u64(), r.u64());
        let (zeroing_bytes, sequence) = (r.u64(), r.u64());
        let (areas, areas_max) = (r.u32(), r.u32());
        let grain_bytes = take_unit(r, "grain")?;
        let sector_bytes = take_unit(r, "sector")?;
        let memory_alignment = take_unit(r, "alignment")?;
        let (direct, direct_max) = (r.u32(), r.u32());
        let flags = r.u32();
        if flags & !(PAST_CACHE | FORCED | DISCARDS) != 0 {
            return Err(WireError::Field { name: "flags", found: u64::from(flags) });
        }
        Ok(StoreInfo {
            state,
            durable_by,
            identity,
            bytes,
            data_bytes,
            free_bytes,
            zeroing_bytes,
            sequence,
            areas,
            areas_max,
            grain_bytes,
            sector_bytes,
            memory_alignment,
            direct,
            direct_max,
            is_past_cache: flags & PAST_CACHE != 0,
            is_forced: flags & FORCED != 0,
            does_discard: flags & DISCARDS != 0,
            discarded_bytes: r.u64(),
            text: decode_text(r)?,
        })
    }
}
