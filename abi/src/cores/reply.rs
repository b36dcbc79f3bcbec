//! What the service of cores answers: the body of its reply. Others are Done and Refused.
//!
//! ```text
//! State  0 generation u32, means u16 (bit 0: cpusets, 1: affinity masks, 2: interrupts)
//!        6 interrupts moved u16, interrupts refused u16, threads left u16, threads placed u32
//!       16 every core, applications', kernel, interrupt: 128 bytes each
//! ```

use super::cpu_mask::{CpuMask, MASK_BYTES};
use super::request::FIRST;
use crate::session::record::{OwnReply, REPLY_BODY_BYTES};
use crate::wire::{Reader, WireError, Writer};

const STATE: u16 = FIRST + 128;
// There is no byte beside, so none has to be zero.
const _: () = assert!(16 + 4 * MASK_BYTES == REPLY_BODY_BYTES);

/// By what a partition holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Means {
    /// Programs are in cpusets of control groups.
    pub cpusets: bool,
    /// Threads have affinity masks.
    pub masks: bool,
    /// Interrupts were moved.
    pub interrupts: bool,
}

impl Means {
    fn bits(self) -> u16 {
        u16::from(self.cpusets) | u16::from(self.masks) << 1 | u16::from(self.interrupts) << 2
    }

    fn from_bits(bits: u16) -> Option<Means> {
        let means =
            Means { cpusets: bits & 1 != 0, masks: bits & 2 != 0, interrupts: bits & 4 != 0 };
        (bits < 8).then_some(means)
    }
}

/// How cores are parted now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoresState {
    /// Counts changes; the node page has the same.
    pub generation: u32,
    /// By what it holds.
    pub means: Means,
    /// Interrupts that were moved.
    pub interrupts_moved: u16,
    /// Interrupts that the system keeps where they are.
    pub interrupts_refused: u16,
    /// Threads that have a narrower place of their own, or that may not be changed.
    pub left: u16,
    /// Threads that were given their place.
    pub placed: u32,
    /// Every core that the control plane may use.
    pub all: CpuMask,
    /// Those of applications.
    pub application: CpuMask,
    /// Those of server loops; empty where cores are not parted.
    pub kernel: CpuMask,
    /// Those of interrupts; empty where interrupts are left alone.
    pub interrupt: CpuMask,
}

/// A reply of the service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoresReply {
    /// To Set, Reset, State and Join.
    State(CoresState),
}

impl CoresReply {
    /// The record.
    pub fn encode(&self) -> OwnReply {
        let Self::State(state) = self;
        let mut body = [0; REPLY_BODY_BYTES];
        let mut w = Writer::new(&mut body);
        w.u32(state.generation).u16(state.means.bits()).u16(state.interrupts_moved);
        w.u16(state.interrupts_refused).u16(state.left).u32(state.placed);
        for mask in [state.all, state.application, state.kernel, state.interrupt] {
            mask.encode(&mut w);
        }
        OwnReply { number: STATE, body }
    }

    /// The reply in a record's foreign body.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(own: &OwnReply) -> Result<Self, WireError> {
        if own.number != STATE {
            return Err(WireError::Kind { found: own.number });
        }
        let mut r = Reader::new(&own.body);
        let (generation, bits) = (r.u32(), r.u16());
        let wrong = WireError::Field { name: "means", found: u64::from(bits) };
        let state = CoresState {
            generation,
            means: Means::from_bits(bits).ok_or(wrong)?,
            interrupts_moved: r.u16(),
            interrupts_refused: r.u16(),
            left: r.u16(),
            placed: r.u32(),
            all: CpuMask::decode(&mut r),
            application: CpuMask::decode(&mut r),
            kernel: CpuMask::decode(&mut r),
            interrupt: CpuMask::decode(&mut r),
        };
        Ok(Self::State(state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_goes_through_a_record_and_garbage_does_not() {
        let mask = |text| CpuMask::parse(text).unwrap();
        let reply = CoresReply::State(CoresState {
            generation: 5,
            means: Means { cpusets: false, masks: true, interrupts: true },
            interrupts_moved: 3,
            interrupts_refused: 4,
            left: 1,
            placed: 12,
            all: mask("0-15"),
            application: mask("0-11"),
            kernel: mask("12-14"),
            interrupt: mask("15"),
        });
        let own = reply.encode();
        assert_eq!(CoresReply::decode(&own), Ok(reply));
        let mut wrong = own;
        wrong.body[4] = 8;
        let found = WireError::Field { name: "means", found: 8 };
        assert_eq!(CoresReply::decode(&wrong), Err(found));
        wrong.number = STATE + 1;
        assert_eq!(CoresReply::decode(&wrong), Err(WireError::Kind { found: STATE + 1 }));
    }
}
