//! Payload bytes between a service's memory and its sessions' windows, by the engine that fits.
//!
//! Small transfers go through the cache, large ones around it. Where the border lies is measured once,
//! when the control plane starts, unless the configuration says it (`heliostat_ring::copy`).

use heliostat_ring::copy::{calibrate_quickly, nontemporal_from, set_nontemporal_from};
use tracing::{info, warn};

pub use heliostat_ring::copy::{copy_part, Sample};

/// From which size on transfers go around the cache, and why so.
#[derive(Clone, PartialEq, Debug)]
pub struct Border {
    /// What was measured; nothing where the configuration says it.
    pub samples: Vec<Sample>,
}

impl Border {
    /// Measures where the border lies, or takes it from the configuration: 0 says never. For this
    /// process; some milliseconds.
    pub fn find(configured: Option<u64>) -> Border {
        let samples = match configured {
            Some(bytes) => {
                set_nontemporal_from(border_of(bytes));
                Vec::new()
            }
            None => calibrate_quickly().unwrap_or_else(|error| {
                warn!(%error, "copies are not measured: all go through the cache");
                Vec::new()
            }),
        };
        let border = Border { samples };
        info!(from_bytes = border.from_bytes(), measured = border.is_measured(), "large copies");
        border
    }

    /// Bytes of a transfer from which on it goes around the cache; `None` for never.
    pub fn from_bytes(&self) -> Option<u64> {
        let bytes = nontemporal_from();
        (bytes != usize::MAX).then_some(bytes as u64)
    }

    /// Whether it was measured.
    pub fn is_measured(&self) -> bool {
        !self.samples.is_empty()
    }
}

fn border_of(configured: u64) -> usize {
    match configured {
        0 => usize::MAX,
        bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_border_is_taken_and_zero_is_never() {
        assert_eq!([0, 1, 1 << 20].map(border_of), [usize::MAX, 1, 1 << 20]);
    }
}
