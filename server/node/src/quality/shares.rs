//! What of the way to a node each class has for itself.

use heliostat_abi::cluster::Class;

/// Shares of what may be on the way to a node, in percent; the rest is for normal calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shares {
    high: u64,
    low: u64,
}

/// What of one class is on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Load {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
}

impl Default for Shares {
    /// Half for what is high, so that the longest message fits; a sixteenth for what is low, which at a
    /// gigabyte a second is passed in a millisecond.
    fn default() -> Shares {
        Shares { high: 50, low: 6 }
    }
}

impl Shares {
    /// Shares in percent; none where nothing would be left for normal calls, or a class had nothing.
    pub fn new(high: u64, low: u64) -> Option<Shares> {
        let is_good = high > 0 && low > 0 && high.saturating_add(low) < 100;
        is_good.then_some(Shares { high, low })
    }

    /// Bytes of a window that a class may have on the way.
    pub(crate) fn of(&self, class: Class, window: u64) -> u64 {
        let percent = match class {
            Class::High => self.high,
            Class::Normal => 100 - self.high - self.low,
            Class::Low => self.low,
        };
        window / 100 * percent
    }

    /// Whether a call that costs so much may be sent. One that is longer than its share goes alone,
    /// where it leaves high ones theirs.
    pub(crate) fn admit(&self, loads: &[Load; 3], class: Class, cost: u64, window: u64) -> bool {
        let its = loads[class.place()];
        if its.bytes.saturating_add(cost) <= self.of(class, window) {
            return true;
        }
        if its.calls > 0 {
            return false;
        }
        let lower: u64 = [Class::Normal, Class::Low].iter().map(|it| loads[it.place()].bytes).sum();
        class == Class::High || lower + cost <= window - self.of(Class::High, window)
    }
}

#[cfg(test)]
mod tests {
    use heliostat_backend_transport::limits::{COST_BYTES_MAX, WINDOW_BYTES};

    use super::*;

    #[test]
    fn shares_leave_something_for_each_class() {
        assert!(Shares::new(50, 49).is_some() && Shares::new(1, 1).is_some());
        for (high, low) in [(0, 1), (1, 0), (50, 50), (u64::MAX, 1)] {
            assert_eq!(Shares::new(high, low), None, "{high} {low}");
        }
    }

    #[test]
    fn whatever_lower_classes_send_the_high_ones_share_is_free() {
        let shares = Shares::default();
        for cost in [2048, 300_000, COST_BYTES_MAX] {
            let mut loads = [Load::default(); 3];
            for class in [Class::Low, Class::Normal] {
                while shares.admit(&loads, class, cost, WINDOW_BYTES) {
                    let load = &mut loads[class.place()];
                    (load.calls, load.bytes) = (load.calls + 1, load.bytes + cost);
                }
            }
            let lower: u64 = loads.iter().map(|load| load.bytes).sum();
            assert!(lower > 0 && lower <= WINDOW_BYTES - shares.of(Class::High, WINDOW_BYTES));
            assert!(shares.admit(&loads, Class::High, COST_BYTES_MAX, WINDOW_BYTES), "{cost}");
        }
    }

    #[test]
    fn a_class_has_no_more_than_its_share_and_one_long_call_alone() {
        let (shares, mut loads) = (Shares::default(), [Load::default(); 3]);
        let most = shares.of(Class::Low, WINDOW_BYTES);
        assert!(shares.admit(&loads, Class::Low, most, WINDOW_BYTES));
        assert!(shares.admit(&loads, Class::Low, most + 1, WINDOW_BYTES), "alone");
        loads[Class::Low.place()] = Load { calls: 1, bytes: 10 };
        assert!(!shares.admit(&loads, Class::Low, most, WINDOW_BYTES));
        assert!(shares.admit(&loads, Class::Normal, most, WINDOW_BYTES), "its own share");
    }
}
