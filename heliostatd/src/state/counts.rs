//! What the daemon has counted since it started, in plain numbers.

use std::collections::BTreeMap;

use heliostat_abi::code::{Code, Native, Unmapped};
use heliostat_abi::session::report::COUNTER_NAMES;

use crate::memory::Report;

/// Largest value believed of a stub's counter. Stubs are foreign: one must not be able to wind
/// the sum of all around.
const STUB_COUNTER_MAX: u64 = 1 << 48;

/// What the daemon has counted since it started.
#[derive(Default)]
pub struct Counts {
    /// Connections accepted from the listener.
    pub connections: u64,
    /// Channels revoked.
    pub revoked: u64,
    /// Connections ended because they did not read their answers.
    pub unread: u64,
    /// Leases that a writer broke.
    pub leases_broken: u64,
    /// Leases that were not given, by reason.
    pub not_leased: [u64; Unmapped::ALL.len()],
    /// By number; only numbers that some service answers.
    pub requests: BTreeMap<u16, u64>,
    /// By code.
    pub refusals: [u64; Code::ALL.len()],
    /// Stub counters of sessions that have ended.
    pub ended: [u64; COUNTER_NAMES.len()],
    /// Reasons of their native connections.
    pub ended_reasons: NativeCounts,
    /// Reasons of their files that stayed or became the kernel's.
    pub ended_file_reasons: [u64; Unmapped::ALL.len()],
}

/// Connections by the reason why they are native, in order of `Native::ALL`.
#[derive(Clone, Copy)]
pub struct NativeCounts(pub [u64; Native::ALL.len()]);

impl Default for NativeCounts {
    fn default() -> Self {
        Self([0; Native::ALL.len()])
    }
}

impl Counts {
    /// Counts a request.
    pub fn asked(&mut self, number: u16) {
        *self.requests.entry(number).or_default() += 1;
    }

    /// Counts a refusal.
    pub fn refused(&mut self, code: Code) {
        if let Some(count) = self.refusals.get_mut(code as usize) {
            *count += 1;
        }
    }

    /// Counts a lease that was not given.
    pub fn note_not_leased(&mut self, reason: Unmapped) {
        if let Some(count) = self.not_leased.get_mut(reason as usize) {
            *count += 1;
        }
    }

    /// Keeps what an ending session has counted, so that the sums never fall.
    pub fn keep_stub_counters(&mut self, report: &Report) {
        add(&mut self.ended, &report.counters());
        add(&mut self.ended_reasons.0, &report.reasons());
        add(&mut self.ended_file_reasons, &report.file_reasons());
    }
}

/// Adds foreign counts, each cut to what is believed.
pub fn add<const N: usize>(sum: &mut [u64; N], counts: &[u64; N]) {
    for (sum, one) in sum.iter_mut().zip(counts) {
        *sum = sum.saturating_add((*one).min(STUB_COUNTER_MAX));
    }
}
