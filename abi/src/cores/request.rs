//! What is asked of the service of cores: the bodies of its records.
//!
//! ```text
//! 0 Set    layout u32, kernel kind u32, interrupt kind u32, 0 u32,
//!          kernel 48 bytes, interrupt 48 bytes
//!          (kind 0: count u32, zeros; kind 1: twelve times first u16, end u16)
//! 1 Reset
//! 2 State
//! 3 Join   the asking process and its children go where applications go
//! 4 Keep   the asking process was begun with a place of its own, and stays there
//! ```

use super::cpu_ranges::{CpuRanges, RANGES_BYTES};
use super::limits::CPUS_MAX;
use crate::session::record::{OwnRequest, REQUEST_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

/// The number of the service in the protocol.
pub const SERVICE: u16 = 12;
/// The number of its first request.
pub const FIRST: u16 = SERVICE << 8;

const _: () = assert!(16 + 2 * RANGES_BYTES <= REQUEST_BODY_BYTES);

/// The numbers of requests, each given once.
pub mod number {
    use super::FIRST;

    /// Of Set.
    pub const SET: u16 = FIRST;
    /// Of Reset.
    pub const RESET: u16 = FIRST + 1;
    /// Of State.
    pub const STATE: u16 = FIRST + 2;
    /// Of Join.
    pub const JOIN: u16 = FIRST + 3;
    /// Of Keep.
    pub const KEEP: u16 = FIRST + 4;
}

/// Where cores that are counted are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u32)]
pub enum Layout {
    /// Side by side: they share caches with each other.
    Packed = 0,
    /// Apart: each shares caches with applications.
    Spread = 1,
}

impl Layout {
    /// Both.
    pub const ALL: [Layout; 2] = [Layout::Packed, Layout::Spread];

    /// The word that people use.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Packed => "packed",
            Self::Spread => "spread",
        }
    }
}

/// Which cores are wanted for something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// So many, wherever the layout puts them.
    Count(u32),
    /// These.
    List(CpuRanges),
}

impl Wanted {
    /// No core.
    pub const NONE: Wanted = Wanted::Count(0);

    fn kind(&self) -> u32 {
        u32::from(matches!(self, Self::List(_)))
    }

    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Count(count) => {
                w.u32(*count).put(&[0; RANGES_BYTES - 4]);
            }
            Self::List(ranges) => ranges.encode(w),
        }
    }

    fn decode(kind: u32, r: &mut Reader<'_>) -> Result<Wanted, WireError> {
        match kind {
            0 => {
                let count = r.u32();
                let rest: [u8; RANGES_BYTES - 4] = r.take();
                if rest.iter().any(|byte| *byte != 0) {
                    return Err(WireError::Reserved);
                }
                if count as usize > CPUS_MAX {
                    return Err(WireError::Field { name: "count", found: u64::from(count) });
                }
                Ok(Wanted::Count(count))
            }
            1 => CpuRanges::decode(r).map(Wanted::List),
            found => Err(WireError::Field { name: "kind", found: u64::from(found) }),
        }
    }
}

/// A request.
#[expect(clippy::large_enum_variant, reason = "one lives for a call, on the stack")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoresRequest {
    /// The cores are parted so, from now on.
    Set {
        /// Where cores that are counted are taken.
        layout: Layout,
        /// For server loops.
        kernel: Wanted,
        /// For interrupts.
        interrupt: Wanted,
    },
    /// Everything that was changed is as it was.
    Reset,
    /// How they are parted.
    State,
    /// The asking process and its children are a program under Heliostat.
    Join,
    /// The asking process was begun with a place of its own, whatever that looks like.
    Keep,
}

impl CoresRequest {
    fn number(&self) -> u16 {
        match self {
            Self::Set { .. } => number::SET,
            Self::Reset => number::RESET,
            Self::State => number::STATE,
            Self::Join => number::JOIN,
            Self::Keep => number::KEEP,
        }
    }

    /// The record.
    pub fn encode(&self) -> OwnRequest {
        let mut body = [0; REQUEST_BODY_BYTES];
        if let Self::Set { layout, kernel, interrupt } = self {
            let mut w = Writer::new(&mut body);
            w.u32(*layout as u32).u32(kernel.kind()).u32(interrupt.kind()).u32(0);
            kernel.encode(&mut w);
            interrupt.encode(&mut w);
        }
        OwnRequest { number: self.number(), body }
    }

    /// The request in a record's foreign body.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(own: &OwnRequest) -> Result<Self, WireError> {
        let mut r = Reader::new(&own.body);
        let request = match own.number {
            number::SET => take_set(&mut r)?,
            number::RESET => Self::Reset,
            number::STATE => Self::State,
            number::JOIN => Self::Join,
            number::KEEP => Self::Keep,
            found => return Err(WireError::Kind { found }),
        };
        if !r.rest_is_zero() {
            return Err(WireError::Reserved);
        }
        Ok(request)
    }
}

fn take_set(r: &mut Reader<'_>) -> Result<CoresRequest, WireError> {
    let (layout, kernel, interrupt, zero) = (r.u32(), r.u32(), r.u32(), r.u32());
    if zero != 0 {
        return Err(WireError::Reserved);
    }
    let wrong = WireError::Field { name: "layout", found: u64::from(layout) };
    let known = Layout::ALL.into_iter().find(|known| *known as u32 == layout);
    Ok(CoresRequest::Set {
        layout: known.ok_or(wrong)?,
        kernel: Wanted::decode(kernel, r)?,
        interrupt: Wanted::decode(interrupt, r)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::CpuMask;
    use super::*;

    fn list(text: &str) -> Wanted {
        Wanted::List(CpuRanges::of(CpuMask::parse(text).unwrap()).unwrap())
    }

    #[test]
    fn every_request_goes_through_a_record() {
        let set = |layout, kernel, interrupt| CoresRequest::Set { layout, kernel, interrupt };
        for request in [
            set(Layout::Packed, Wanted::Count(3), Wanted::NONE),
            set(Layout::Spread, list("3,7"), list("15")),
            CoresRequest::Reset,
            CoresRequest::State,
            CoresRequest::Join,
            CoresRequest::Keep,
        ] {
            assert_eq!(CoresRequest::decode(&request.encode()), Ok(request));
        }
    }

    #[test]
    fn every_byte_of_a_record_is_checked() {
        let set = CoresRequest::Set {
            layout: Layout::Packed,
            kernel: Wanted::Count(1),
            interrupt: Wanted::NONE,
        };
        for (place, value) in [(0, 2), (4, 2), (8, 9), (12, 1), (21, 1), (69, 1)] {
            let mut own = set.encode();
            own.body[place] = value;
            assert!(CoresRequest::decode(&own).is_err(), "byte {place}");
        }
        let mut own = CoresRequest::Reset.encode();
        own.body[111] = 1;
        assert_eq!(CoresRequest::decode(&own), Err(WireError::Reserved));
        own.number = FIRST + 9;
        assert_eq!(CoresRequest::decode(&own), Err(WireError::Kind { found: FIRST + 9 }));
    }
}
