//! Copy engines: a processor's two ways to move bytes, behind the trait a device can implement.

use std::arch::x86_64::*;

/// Moves bytes. An engine is stateless or synchronised; the copy is complete on return.
pub trait CopyEngine: Sync {
    /// Name for tables and settings.
    fn name(&self) -> &'static str;

    /// Copies `len` bytes.
    ///
    /// # Safety
    /// `into` is valid for writing and `from` for reading `len` bytes; they do not overlap.
    unsafe fn copy(&self, into: *mut u8, from: *const u8, len: usize);
}

/// Load and store through the cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memcpy;

impl CopyEngine for Memcpy {
    fn name(&self) -> &'static str {
        "memcpy"
    }

    unsafe fn copy(&self, into: *mut u8, from: *const u8, len: usize) {
        // SAFETY: the caller's promise is exactly what `copy_nonoverlapping` asks for.
        unsafe { std::ptr::copy_nonoverlapping(from, into, len) };
        heliostat_base::mapping::settle(into);
    }
}

/// Load through the cache, store around it, in whole lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct NonTemporal;

impl CopyEngine for NonTemporal {
    fn name(&self) -> &'static str {
        "nontemporal"
    }

    unsafe fn copy(&self, into: *mut u8, from: *const u8, len: usize) {
        // The first bytes bring the target to a line boundary, which streaming stores need.
        let lead = into.align_offset(64).min(len);
        let lines = (len - lead) / 64;
        let body = lead + lines * 64;
        // SAFETY: lead <= body <= len, so the three pieces lie inside both ranges; the target of
        // the middle piece is aligned to 64; AVX is used only where the processor has it.
        unsafe {
            std::ptr::copy_nonoverlapping(from, into, lead);
            if is_x86_feature_detected!("avx") {
                stream_avx(into.add(lead), from.add(lead), lines);
            } else {
                stream_sse2(into.add(lead), from.add(lead), lines);
            }
            std::ptr::copy_nonoverlapping(from.add(body), into.add(body), len - body);
            // Streaming stores are not ordered with the release store that will publish them.
            _mm_sfence();
        }
        heliostat_base::mapping::settle(into);
    }
}

/// All engines of this machine, cheapest to start first.
pub fn engines() -> &'static [&'static dyn CopyEngine] {
    &[&Memcpy, &NonTemporal]
}

/// # Safety
/// Both pointers are valid for `lines * 64` bytes, `into` is aligned to 32, AVX exists.
#[target_feature(enable = "avx")]
unsafe fn stream_avx(into: *mut u8, from: *const u8, lines: usize) {
    for line in 0..lines {
        // SAFETY: the caller's promise, for each of the `lines` lines.
        unsafe {
            let (to, at) = (into.add(line * 64), from.add(line * 64));
            let low = _mm256_loadu_si256(at.cast());
            let high = _mm256_loadu_si256(at.add(32).cast());
            _mm256_stream_si256(to.cast(), low);
            _mm256_stream_si256(to.add(32).cast(), high);
        }
    }
}

/// # Safety
/// Both pointers are valid for `lines * 64` bytes, `into` is aligned to 16.
unsafe fn stream_sse2(into: *mut u8, from: *const u8, lines: usize) {
    for piece in 0..lines * 4 {
        // SAFETY: the caller's promise, for each quarter of a line.
        unsafe {
            let bytes = _mm_loadu_si128(from.add(piece * 16).cast());
            _mm_stream_si128(into.add(piece * 16).cast(), bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Copy = unsafe fn(*mut u8, *const u8, usize);

    fn check(copy: impl Fn(*mut u8, *const u8, usize), lead: usize, len: usize) {
        let from: Vec<u8> = (0..len).map(|i| (i * 7 + 1) as u8).collect();
        let mut into = vec![0u8; lead + len + 1];
        copy(into[lead..].as_mut_ptr(), from.as_ptr(), len);
        assert_eq!(&into[lead..lead + len], &from[..], "lead {lead} len {len}");
        assert_eq!(into[lead + len], 0, "wrote behind the end: lead {lead} len {len}");
    }

    #[test]
    fn every_engine_copies_every_alignment_and_length() {
        for engine in engines() {
            for lead in 0..65 {
                for len in [0, 1, 15, 63, 64, 65, 127, 128, 200, 1000] {
                    // SAFETY: `check` gives valid, disjoint ranges.
                    check(|to, at, n| unsafe { engine.copy(to, at, n) }, lead, len);
                }
            }
        }
    }

    #[test]
    fn the_sse2_loop_copies_whole_lines() {
        let sse2: Copy = |to, at, bytes| {
            // SAFETY: the buffers below are aligned and long enough.
            unsafe { stream_sse2(to, at, bytes / 64) }
        };
        #[repr(align(64))]
        struct Lines([u8; 256]);
        let from = Lines(std::array::from_fn(|i| i as u8));
        let mut into = Lines([0; 256]);
        // SAFETY: both are 256 aligned bytes.
        unsafe { sse2(into.0.as_mut_ptr(), from.0.as_ptr(), 256) };
        assert_eq!(into.0, from.0);
    }
}
