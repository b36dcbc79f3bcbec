//! Which parts of the processor's extended state a hook may change, and how much room they take.
//!
//! The kernel keeps all of it over a system call. A hook is Rust code that calls libc's memory
//! functions, which use the widest vectors there are. It leaves the x87 registers, protection keys
//! and tiles alone, so those are not saved: a tile alone takes 8 KiB of the program's stack.

use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

/// Components by their bit in XCR0 (source: Intel SDM, vol. 1, 13.1): SSE, AVX, and the three of
/// AVX-512.
const WANTED: u32 = 1 << 1 | 1 << 2 | 1 << 5 | 1 << 6 | 1 << 7;
/// The legacy region and the header, which come before all other components.
const LEAST_BYTES: u32 = 576;
/// CPUID leaf 1, ecx: the kernel has enabled XSAVE.
const HAS_OSXSAVE: u32 = 1 << 27;
const LEAF_XSAVE: u32 = 0xd;

/// What XSAVE is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extended {
    /// Bits of XCR0, all below 32.
    pub components: u32,
    /// Bytes of an area that holds them, a multiple of 64.
    pub area_bytes: u32,
}

impl Extended {
    /// As this processor has it; `None` for one without XSAVE (before 2011).
    pub fn of_processor() -> Option<Extended> {
        if __cpuid(1).ecx & HAS_OSXSAVE == 0 {
            return None;
        }
        // SAFETY: the kernel has enabled XSAVE, and with it XGETBV (SDM, vol. 1, 13.2).
        let enabled = unsafe { enabled_components() };
        let components = enabled as u32 & WANTED;
        let end_of = |bit: u32| {
            let part = __cpuid_count(LEAF_XSAVE, bit);
            part.ebx + part.eax
        };
        let extended = (2..32).filter(|bit| components >> bit & 1 != 0);
        let end = extended.map(end_of).max().unwrap_or(0).max(LEAST_BYTES);
        Some(Extended { components, area_bytes: end.next_multiple_of(64) })
    }
}

/// XCR0.
///
/// # Safety
/// The kernel has enabled XSAVE.
#[target_feature(enable = "xsave")]
unsafe fn enabled_components() -> u64 {
    // SAFETY: the caller's promise; register 0 always exists.
    unsafe { _xgetbv(0) }
}
