//! Quality of service between nodes: what is done for classes, and how much of the way each has.

use super::error::{ConfigError, Fault};
use super::field::Field;

/// The longest round trip that may be configured: longer than a node may be silent is none.
const ROUND_TRIP_US_MAX: u64 = 1_000_000;

/// What is done for the classes of `[[class]]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quality {
    /// How.
    pub scheme: Scheme,
    /// Of the window to a node, for what is high, in percent.
    pub high_percent: u64,
    /// The same for what is low; the rest is for normal calls.
    pub low_percent: u64,
    /// The longest round trip of a short high call, beyond which low ones are slowed; 0: learnt.
    pub round_trip_us: u64,
}

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheme {
    /// Nothing: all calls are one class.
    None,
    /// Each class has a share of its own.
    #[default]
    Separate,
    /// Low calls are slowed while high ones suffer.
    BackOff,
    /// Both.
    Both,
}

impl Default for Quality {
    fn default() -> Self {
        // The longest message fits into half of the window; a sixteenth of it is a megabyte.
        Self { scheme: Scheme::default(), high_percent: 50, low_percent: 6, round_trip_us: 0 }
    }
}

impl Quality {
    /// From the table `[quality]`.
    pub(super) fn read(field: &Field<'_>) -> Result<Quality, ConfigError> {
        let section = field.section(&["scheme", "high_percent", "low_percent", "round_trip_us"])?;
        let mut quality = Quality::default();
        if let Some(scheme) = section.field("scheme") {
            quality.scheme = scheme.choice(&[
                ("none", Scheme::None),
                ("separate", Scheme::Separate),
                ("back-off", Scheme::BackOff),
                ("both", Scheme::Both),
            ])?;
        }
        section.number("high_percent", (1, 98), &mut quality.high_percent)?;
        section.number("low_percent", (1, 98), &mut quality.low_percent)?;
        section.number("round_trip_us", (0, ROUND_TRIP_US_MAX), &mut quality.round_trip_us)?;
        let both = quality.high_percent + quality.low_percent;
        if both > 99 {
            let message = format!("high and low have {both} percent; normal calls need some");
            return Err(field.fault(Fault::Value(message)));
        }
        Ok(quality)
    }
}

impl Scheme {
    /// Whether each class has a share of its own.
    pub fn separates(self) -> bool {
        matches!(self, Scheme::Separate | Scheme::Both)
    }

    /// Whether low calls are slowed.
    pub fn backs_off(self) -> bool {
        matches!(self, Scheme::BackOff | Scheme::Both)
    }
}
